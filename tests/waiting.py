"""Waiting for what nothing announces."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

__all__ = ["until"]


def until(condition: Callable[[], Any], timeout: float = 60.0, what: str = "", *, pause: float = 0.005) -> Any:
    """Ask ``condition`` again and again until its value is true, and return that.

    Args:
        condition: called on this thread.
        timeout: seconds; only a test that fails waits as long.
        what: what is waited for, for the text of the error.
        pause: seconds between two calls.

    Raises:
        AssertionError: it did not happen in time.

    """
    never, deadline = threading.Event(), time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {timeout:g} s: {what or 'what was waited for'}"
        never.wait(pause)
    return value

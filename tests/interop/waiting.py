"""Waiting for conditions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

__all__ = ["until"]


def until(condition: Callable[[], Any], timeout: float = 20.0) -> Any:
    """Wait until ``condition`` gives something true; that."""
    pause = threading.Event()
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        pause.wait(0.01)
    return value

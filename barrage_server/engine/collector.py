"""Python's cyclic garbage collector, which is disabled within a cycle.

A cycle creates the new versions of its tables before the former versions are freed. With a thousand tables these are
some ten thousand objects, and the collector would run some twenty times in the cycle. It would free nothing: versions
are not in reference cycles. At the end of a cycle as many objects have been freed as were created.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from threading import current_thread
from typing import Final, TypeVar

__all__ = ["without_collection"]

_Result = TypeVar("_Result")
_disabling: Final[set[int]] = set()
"""Ids of the threads that have disabled the collector."""


def without_collection(run: Callable[[], _Result]) -> _Result:
    """Call ``run`` with the collector disabled, in all threads of the process.

    Of several threads in here, the first to return enables the collector: concurrent cycles must not keep it disabled
    for ever. A collector that the program has disabled stays disabled.
    """
    if not gc.isenabled():
        return run()
    try:
        # Within the block: KeyboardInterrupt may be raised after any call.
        _disabling.add(id(current_thread()))
        gc.disable()
        return run()
    finally:
        gc.enable()
        _disabling.discard(id(current_thread()))


def _enable_in_child() -> None:
    """Enable the collector in a process that was forked while it was disabled."""
    if _disabling:
        _disabling.clear()
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_enable_in_child)

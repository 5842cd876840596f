"""Python's search for garbage, which does not run within a cycle.

A cycle makes new versions of its tables before it drops the former ones. With a thousand tables these are so many
objects that Python searches several times in each cycle, now and then through all objects of the process, and finds
nothing: versions have no references in circles. At the end of a cycle as many objects are gone as have come, and
Python sees no reason to search.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from threading import current_thread
from typing import Final, TypeVar

__all__ = ["without_search"]

_Result = TypeVar("_Result")
_pausing: Final[set[int]] = set()
"""The threads that have put the search off, for a process that is forked meanwhile."""


def without_search(run: Callable[[], _Result]) -> _Result:
    """Call ``run`` while the search for garbage is off, in all threads.

    Where several threads do so at a time, the first one to end turns the search on again: otherwise it might never run.
    It stays off if the program has turned it off before.
    """
    if not gc.isenabled():
        return run()
    try:  # what follows, so that an interrupt of the program cannot come in between
        _pausing.add(id(current_thread()))
        gc.disable()
        return run()
    finally:
        gc.enable()
        _pausing.discard(id(current_thread()))


def _resume() -> None:
    """Turn the search on in a child of a process in which it was off for a while."""
    if _pausing:
        _pausing.clear()
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_resume)

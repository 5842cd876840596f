"""Python's search for garbage, which does not run within a cycle."""

from __future__ import annotations

import gc
import threading
from types import TracebackType
from typing import Final

__all__ = ["NO_SEARCH"]


class _NoSearch:
    """Puts the search for garbage off, in all threads.

    A cycle makes new versions of its tables before it drops the former ones. With a thousand tables these are so many
    objects that Python searches several times in each cycle, now and then through all objects of the process, and finds
    nothing: versions have no references in circles. At the end of a cycle as many objects are gone as have come, and
    Python sees no reason to search.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._was_on = False

    def __enter__(self) -> None:
        with self._lock:
            if not self._users:
                self._was_on = gc.isenabled()
                gc.disable()
            self._users += 1

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._users -= 1
            if not self._users and self._was_on:  # not if the program has turned it off
                gc.enable()


NO_SEARCH: Final = _NoSearch()
"""One for the process, as the search is. Several threads may be within at a time."""

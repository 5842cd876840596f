"""Functions to call: added, removed and called by any threads at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Lock
from typing import Generic, TypeVar

__all__ = ["Callbacks"]

_Function = TypeVar("_Function", bound=Callable[..., object])


class Callbacks(Generic[_Function]):
    """Functions in the order in which they were added; one that was added twice is called twice.

    Iterating is over a snapshot: later additions and removals do not affect it, and it takes no lock.
    """

    __slots__ = ("_entries", "_functions", "_lock")

    def __init__(self) -> None:
        self._lock = Lock()
        self._entries: tuple[tuple[object, _Function], ...] = ()
        self._functions: tuple[_Function, ...] = ()

    def add(self, function: _Function) -> Callable[[], None]:
        """Add ``function``; returns what removes it again, once, and may be called repeatedly."""
        identity = object()
        with self._lock:
            self._set((*self._entries, (identity, function)))

        def remove() -> None:
            with self._lock:
                self._set(tuple(entry for entry in self._entries if entry[0] is not identity))

        return remove

    def _set(self, entries: tuple[tuple[object, _Function], ...]) -> None:
        self._entries = entries
        self._functions = tuple(function for _, function in entries)

    def __iter__(self) -> Iterator[_Function]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._entries)

    def __bool__(self) -> bool:
        return bool(self._entries)

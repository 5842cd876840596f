"""Callback lists that any threads change and call at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import RLock
from typing import Generic, TypeAlias, TypeVar

__all__ = ["Callbacks"]

_Function = TypeVar("_Function", bound=Callable[..., object])
_Entries: TypeAlias = tuple[tuple[object, _Function], ...]


class Callbacks(Generic[_Function]):
    """Functions to call, in the order of their additions.

    A function added twice is called twice. Iteration is over a snapshot: it takes no lock, and later changes do not
    affect it.
    """

    __slots__ = ("_entries", "_functions", "_lock")

    def __init__(self) -> None:
        self._lock = RLock()  # the collector may free what removes a function, in the midst of a change
        self._entries: _Entries[_Function] = ()
        self._functions: tuple[_Function, ...] = ()

    def add(self, function: _Function) -> Callable[[], None]:
        """Add ``function``; returns a function, callable repeatedly, that removes it."""
        identity = object()
        self._change(lambda entries: (*entries, (identity, function)))

        def remove() -> None:
            self._change(lambda entries: tuple(entry for entry in entries if entry[0] is not identity))

        return remove

    def _change(self, make: Callable[[_Entries[_Function]], _Entries[_Function]]) -> None:
        with self._lock:
            while True:
                before = self._entries
                entries = make(before)
                functions = tuple(function for _, function in entries)
                if self._entries is before:
                    self._entries = entries
                    self._functions = functions
                    return

    def __iter__(self) -> Iterator[_Function]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._entries)

    def __bool__(self) -> bool:
        return bool(self._entries)

"""A list of weak references, in the order of additions."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import Generic, TypeVar

__all__ = ["WeakList"]

_Entry = TypeVar("_Entry")


class WeakList(Generic[_Entry]):
    """A list of weakly held objects, in the order of additions.

    One thread at a time changes it; any thread may collect the objects, at any time.
    """

    __slots__ = ("__weakref__", "_entries")

    def __init__(self) -> None:
        # One list: collected entries leave it, and iterating uses a copy.
        self._entries: list[weakref.ref[_Entry]] = []

    def add(self, entry: _Entry) -> None:
        """Add ``entry`` at the end."""
        entries = self._entries

        def forget(gone: weakref.ref[_Entry]) -> None:
            with suppress(ValueError):  # it was discarded before
                entries.remove(gone)

        entries.append(weakref.ref(entry, forget))

    def discard(self, entry: object) -> None:
        """Remove ``entry`` if the list has it."""
        for reference in tuple(self._entries):
            if reference() is entry:
                with suppress(ValueError):
                    self._entries.remove(reference)

    def __iter__(self) -> Iterator[_Entry]:
        for reference in tuple(self._entries):
            entry = reference()
            if entry is not None:
                yield entry

    def __len__(self) -> int:
        return len(self._entries)

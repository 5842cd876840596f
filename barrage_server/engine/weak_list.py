"""Objects in the order in which they were added, as long as something else keeps them."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import Generic, TypeVar

__all__ = ["WeakList"]

_Entry = TypeVar("_Entry")


class WeakList(Generic[_Entry]):
    """A list that keeps nothing alive. One thread at a time changes it; objects are collected on any, at any time."""

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
        """Take ``entry`` away, if it is there."""
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

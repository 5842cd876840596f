"""Large sets of scattered keys with a few changes beside their segments."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from barrage_server.rowset._key_storage import OBJECT_BYTES, KeyStorage
from barrage_server.rowset._ranges import Keys, Mask, RangeList
from barrage_server.rowset._segments import Segments
from barrage_server.rowset._storage import Segmented

__all__ = ["LEAST", "MOST_AT_ONCE", "Patch", "Patched", "is_inside", "patch_of", "patched"]

LEAST: Final = 1 << 17
"""The least size of a set whose changes stay aside: smaller sets are copied as fast."""
_MOST: Final = 1 << 12
"""The most changes that stay aside."""
MOST_AT_ONCE: Final = 1 << 11
"""The most changes of one exchange that are not written into the segments at once."""
_KEYS_PER_CHANGE: Final = 1 << 6
"""The least keys of a set for each change that stays aside."""


class Patch(NamedTuple):
    """Keys that a set has, and its segments have not, or the other way round.

    Attributes:
        keys: these keys, strictly increasing.
        signs: 1 for a key that the segments lack, and -1 for one that only they have (int64).

    """

    keys: Keys
    signs: Keys

    def then(self, other: Patch) -> Patch:
        """Return this patch and then another one. A key of both returns to what it was."""
        keys = np.concatenate((self.keys, other.keys))
        order = np.argsort(keys, kind="stable")  # merges sorted runs in linear time
        keys, signs = keys[order], np.concatenate((self.signs, other.signs))[order]
        is_twice = keys[1:] == keys[:-1]
        if not is_twice.any():
            return Patch(keys, signs)
        is_single = np.append(True, ~is_twice)
        is_single[:-1] &= ~is_twice
        return Patch(keys[is_single], signs[is_single])


class Patched(KeyStorage):
    """Segments, and a few keys that differ.

    A change costs the changed keys, and not the segments that they touch. Whether a key is there, and how many are
    below it, is known from both; all else is asked of segments, which are made once.

    Args:
        base: the segments.
        patch: what differs.
        size: the number of keys.

    """

    __slots__ = ("_parts",)

    def __init__(self, base: Segmented, patch: Patch, size: int) -> None:
        self.first, self.last, self.size = base.first, base.last, size
        self._parts: tuple[Segmented, Patch | None] = base, patch

    def parts(self) -> tuple[Segmented, Patch | None]:
        """Return segments, and what differs from them, if there is something."""
        return self._parts

    def settled(self) -> Segmented:
        """Return the same keys without changes aside."""
        base, patch = self._parts
        if patch is not None:
            base = Segmented(base.segments().toggled(patch.keys))
            self._parts = base, None
        return base

    @property
    def is_segmented(self) -> bool:
        return True

    @property
    def nbytes(self) -> int:
        base, patch = self._parts
        return base.nbytes + (0 if patch is None else OBJECT_BYTES + 2 * patch.keys.nbytes)

    def packed(self) -> KeyStorage:
        return self.settled().packed()

    def contains(self, keys: Keys) -> Mask:
        base, patch = self._parts
        found = base.contains(keys)
        if patch is not None:
            place = np.minimum(patch.keys.searchsorted(keys), patch.keys.size - 1)
            found ^= patch.keys[place] == keys
        return found

    def rank(self, keys: Keys) -> Keys:
        base, patch = self._parts
        ranks = base.rank(keys)
        if patch is not None:
            ranks += np.append(0, np.cumsum(patch.signs))[patch.keys.searchsorted(keys)]
        return ranks

    def holds(self, key: int) -> bool:
        return bool(self.contains(np.array([key]))[0])

    def segments(self) -> Segments:
        return self.settled().segments()

    def range_count(self) -> int:
        return self.settled().range_count()

    def ranges(self) -> RangeList:
        return self.settled().ranges()

    def keys(self) -> Keys:
        return self.settled().keys()

    def head(self) -> RangeList:
        return self.settled().head()

    def at(self, position: int) -> int:
        return self.settled().at(position)

    def select(self, positions: Keys) -> Keys:
        return self.settled().select(positions)

    def find(self, keys: Keys) -> Keys:
        return self.settled().find(keys)

    def restrict(self, first: int, last: int) -> KeyStorage:
        return self.settled().restrict(first, last)

    def slice(self, start: int, stop: int) -> KeyStorage:
        return self.settled().slice(start, stop)

    def shift(self, delta: int) -> KeyStorage:
        return self.settled().shift(delta)

    def blocks(self, bits: int) -> KeyStorage:
        return self.settled().blocks(bits)

    def subset(self, positions: KeyStorage) -> KeyStorage:
        return self.settled().subset(positions)

    def invert(self, keys: KeyStorage) -> KeyStorage | None:
        return self.settled().invert(keys)


def patch_of(removed: Keys, added: Keys) -> Patch:
    """Return the patch that takes away keys and then adds others, both increasing."""
    return Patch(removed, np.full(removed.size, -1)).then(Patch(added, np.full(added.size, 1)))


def is_inside(one: KeyStorage, keys: Keys) -> bool:
    """Whether increasing ``keys`` lie between the first and the last key."""
    return not keys.size or (one.first < keys.item(0) and keys.item(-1) < one.last)


def patched(one: Segmented | Patched, patch: Patch) -> Segmented | Patched | None:
    """Return the changed keys, with changes aside; ``None`` if these are too many.

    Args:
        one: the present keys, at least ``LEAST``.
        patch: the change, whose keys are inside of them.

    """
    base, former = one.parts() if isinstance(one, Patched) else (one, None)
    size = one.size + int(patch.signs.sum())
    patch = patch if former is None else former.then(patch)
    if not patch.keys.size:
        return base
    if patch.keys.size > min(_MOST, size // _KEYS_PER_CHANGE) or base.last - base.first + 1 == size:
        return None
    return Patched(base, patch, size)

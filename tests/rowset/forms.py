"""Row sets in each of their representations, whatever the content would have chosen, and keys that hit the edges."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from barrage_server.rowset import RowSet, _ranges
from barrage_server.rowset._patched import Patched, patch_of
from barrage_server.rowset._segments import Segments
from barrage_server.rowset._storage import KeyList, Ranges, Segmented

MAX_KEY = (1 << 63) - 1
BASES = (0, 65_530, (1 << 18) - 30, (1 << 31) - 20, 1 << 40, MAX_KEY - 60)  # containers, segments, 32 bits, both ends


def increasing(keys: Iterable[int]) -> npt.NDArray[np.int64]:
    return np.unique(keys if isinstance(keys, np.ndarray) else np.array(list(keys), np.int64))


def of_ranges(starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], *, is_segmented: bool) -> RowSet:
    """Give the set of ranges, held in segments or as arrays."""
    return RowSet._of(Segmented(Segments.from_ranges(starts, ends)) if is_segmented else Ranges(starts, ends))


def as_listed(keys: Iterable[int]) -> RowSet:
    """Give the set held as arrays of ranges."""
    array = increasing(keys)
    return RowSet._of(Ranges(*_ranges.compress(array))) if array.size else RowSet.EMPTY


def as_segments(keys: Iterable[int]) -> RowSet:
    """Give the set held in segments."""
    array = increasing(keys)
    return RowSet._of(Segmented(Segments.from_keys(array))) if array.size else RowSet.EMPTY


def as_keys(keys: Iterable[int]) -> RowSet:
    """Give the set held as the keys themselves, to become ranges when it must."""
    array = increasing(keys)
    return RowSet._of(KeyList(array, is_dense=False)) if array.size else RowSet.EMPTY


def as_dense_keys(keys: Iterable[int]) -> RowSet:
    """Give the set held as the keys themselves, to become segments when it must."""
    array = increasing(keys)
    return RowSet._of(KeyList(array, is_dense=True)) if array.size else RowSet.EMPTY


def as_chosen(keys: Iterable[int]) -> RowSet:
    """Give the set held as its content suggests."""
    return RowSet.from_keys(sorted(keys))


def as_undecided_keys(keys: Iterable[int]) -> RowSet:
    """Give the set held as the keys themselves, of which nothing else is known yet."""
    array = increasing(keys)
    return RowSet._of(KeyList(array)) if array.size else RowSet.EMPTY


def as_patched(keys: Iterable[int]) -> RowSet:
    """Give the set held in segments that lack one of the keys, and have another one, if there is room."""
    array = increasing(keys)
    if array.size < 3:
        return as_segments(array)
    middle, extra = array.size // 2, array[:1] + 1
    added, removed = array[middle : middle + 1], extra[extra < array[1]]
    base = np.setdiff1d(np.union1d(array, removed), added)
    return RowSet._of(Patched(Segmented(Segments.from_keys(base)), patch_of(removed, added), array.size))


FORMS = (as_chosen, as_listed, as_segments, as_keys, as_dense_keys, as_undecided_keys, as_patched)


def forms(keys: Iterable[int]) -> list[RowSet]:
    """Give the same set in every representation."""
    wanted = sorted(keys)
    return [form(wanted) for form in FORMS]


def segments_of(rows: RowSet) -> Segments | None:
    return rows._segments()


def base_of(rows: RowSet) -> Segmented | None:
    """Give the segments that some changes are kept beside; None if there are no such changes."""
    held = rows._held
    base, patch = held.parts() if isinstance(held, Patched) else (None, None)
    return None if patch is None else base


def is_segmented(rows: RowSet) -> bool:
    return segments_of(rows) is not None


def is_listed(rows: RowSet) -> bool:
    return rows._segments() is None and not rows.is_contiguous


in_some_form = st.sampled_from(FORMS)


@st.composite
def key_sets(draw: st.DrawFn, *, span: int = 60, bases: tuple[int, ...] = BASES) -> set[int]:
    """Give a set of keys near one or two of the bases, dense enough to have runs and sparse enough to have gaps."""
    keys: set[int] = set()
    for base in draw(st.lists(st.sampled_from(bases), min_size=1, max_size=2)):
        offsets = draw(st.lists(st.integers(0, span), max_size=24))
        keys.update(base + offset for offset in offsets)
        if draw(st.booleans()):
            first = draw(st.integers(0, span))
            keys.update(range(base + first, base + draw(st.integers(first, span)) + 1))
    return keys

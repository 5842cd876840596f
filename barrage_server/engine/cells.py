"""Fixed-width cells, addressed by row key, in pages of the key space.

The cell of row key ``k`` lives in page ``k >> page_bits`` at offset ``k & (2**page_bits - 1)``. A page is one numpy
array that starts small and grows by doubling. The mapping of pages is immutable and is replaced on changes, so that a
reader keeps the arrays of its version. The arrays themselves are overwritten in place;
:mod:`barrage_server.engine.undo` says how a reader still gets the values of its version.

Neither reading nor writing visits rows one by one: a :class:`ReadPlan` has the slices or offsets of pages, computed
once for all columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from barrage_server.engine.memory import zeros
from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.engine.sorting import order_of_small
from barrage_server.engine.undo import CellArray
from barrage_server.errors import RowSetError

__all__ = [
    "MAX_PAGE_BITS",
    "MIN_PAGE_CELLS",
    "CellArray",
    "Cells",
    "LastWriteCache",
    "Pages",
    "gather",
    "gather_any",
    "gather_runs",
    "view",
]

Pages = Mapping[int, Any]  # by number: arrays of cells, or what reads like one

MAX_PAGE_BITS = 20
MIN_PAGE_CELLS = 1024
_NO_KEY = 1 << 63
# A write is cached from this number of cells on, up to this number of bytes.
_FEWEST_RECENT, _MOST_RECENT = 64, 1 << 20


class LastWriteCache:
    """A copy of the cells of the last write.

    Subscribers read the cells of the last write next. These are scattered in a large table and contiguous here. The
    copy is valid for versions made before the next write.
    """

    __slots__ = ("_cells", "_keys")

    def __init__(self, keys: Int64Array, cells: CellArray) -> None:
        self._keys = keys
        self._cells = cells

    @classmethod
    def of(cls, plan: ReadPlan, cells: CellArray) -> LastWriteCache | None:
        """A copy of ``cells``, or ``None`` if they are cheap to read or too many to copy."""
        if plan.is_contiguous or plan.size < _FEWEST_RECENT or cells.nbytes > _MOST_RECENT:
            return None
        return cls(plan.keys, cells if cells.base is None else cells.copy())

    def take(self, places: Int64Array) -> LastWriteCache:
        """The entries at ``places`` in the order of the keys."""
        return LastWriteCache(self._keys.take(places), self._cells.take(places))

    def find(self, plan: ReadPlan) -> CellArray | None:
        """The cells of ``plan``, read-only, if they are a run of the cached ones."""
        size, keys = plan.size, self._keys
        if not _FEWEST_RECENT <= size <= len(keys):
            return None
        start = int(keys.searchsorted(plan.first_key))
        stop = start + size
        if stop > len(keys) or keys[start] != plan.first_key or keys[stop - 1] != plan.last_key:
            return None
        if not (plan.is_contiguous or np.array_equal(plan.keys, keys[start:stop])):
            return None
        return self._cells[start:stop]


class Cells:
    """The cells of one column, or of its validity.

    Args:
        dtype: the numpy type of a cell.
        page_bits: a page has ``2**page_bits`` cells at most.
        fill: what cells hold that were never written.

    Attributes:
        pages: page number -> cells. Never changed, only replaced: hold it to keep the pages.
        dropped_before: pages that only have row keys below this one may have been dropped.
        dropped_from: so may pages that only have row keys from this one on.
        recent: what was written last, if it is worth a second copy.
    """

    __slots__ = ("_fill", "_shared", "dropped_before", "dropped_from", "dtype", "page_bits", "pages", "recent")

    def __init__(self, dtype: npt.DTypeLike, *, page_bits: int = MAX_PAGE_BITS, fill: bool = False) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.page_bits = page_bits
        self.pages: Pages = {}
        self.dropped_before = 0
        self.dropped_from = _NO_KEY
        self._fill = fill
        self._shared: set[int] = set()
        self.recent: LastWriteCache | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of all pages."""
        return sum(page.nbytes for page in self.pages.values())

    def reserve(self, plan: ReadPlan) -> None:
        """Make sure that all cells of ``plan`` exist, in pages that are not shared."""
        new: dict[int, CellArray] | None = None
        for page, _, _, _, top in plan.segments(self.page_bits):
            if not self._is_writable(page, top):
                new = dict(self.pages) if new is None else new
                new[page] = self._enlarged(new, page, top)
        if new is not None:
            self.pages = new

    @property
    def are_shared(self) -> bool:
        """Whether other columns share pages, so that writing needs :meth:`reserve`."""
        return bool(self._shared)

    def resize(self, page: int, size: int) -> None:
        """Make a page hold at least ``size`` cells, unshared."""
        if not self._is_writable(page, size):
            self.pages = {**self.pages, page: self._enlarged(self.pages, page, size)}

    def _is_writable(self, page: int, size: int) -> bool:
        """Whether the first ``size`` cells of a page can be written in place."""
        cells = self.pages.get(page)
        return cells is not None and len(cells) >= size and page not in self._shared

    def _enlarged(self, pages: Pages, page: int, size: int) -> CellArray:
        """A copy of a page with room for at least ``size`` cells."""
        self._shared.discard(page)
        old, before = pages.get(page), pages.get(page - 1)
        if old is not None and len(old) >= size:
            copied: CellArray = old.copy()
            return copied
        full = 1 << self.page_bits
        if before is not None and len(before) == full:
            # The table has grown through a whole page, so it will fill this one too. Unused memory is not touched.
            target = full
        else:
            target = min(full, max(MIN_PAGE_CELLS, 1 << (size - 1).bit_length()))
        new = np.ones(target, self.dtype) if self._fill else zeros(target, self.dtype, size)
        if old is not None:
            new[: len(old)] = old
        return new

    def scatter(self, plan: ReadPlan, values: CellArray) -> None:
        """Write one value per row of ``plan``. The cells must exist (:meth:`reserve`)."""
        self.recent = LastWriteCache.of(plan, values)
        pages = self.pages
        for page, where, start, stop, _ in plan.segments(self.page_bits):
            pages[page][where] = values[start:stop]

    def scatter_any(self, keys: Int64Array, values: CellArray) -> None:
        """Write cells that no version reads, in any order, each once; make missing ones."""
        self.recent = None
        order, parts = _by_page(keys, self.page_bits)
        values = values if order is None else values[order]
        begin = 0
        for page, offsets in parts:
            self.resize(page, int(offsets.max()) + 1)
            self.pages[page][offsets] = values[begin : (begin := begin + len(offsets))]

    def gather(self, plan: ReadPlan) -> CellArray:
        """A copy of the cells of ``plan``."""
        return gather(self.pages, plan, self.dtype, self.page_bits)

    def drop_before(self, first_key: int) -> None:
        """Free the pages that lie wholly below ``first_key``."""
        gone = [page for page in self.pages if page < first_key >> self.page_bits]
        if gone:
            self.dropped_before = max(self.dropped_before, (max(gone) + 1) << self.page_bits)
            self._shared.difference_update(gone)
            self.pages = {page: cells for page, cells in self.pages.items() if page >= first_key >> self.page_bits}

    def drop_after(self, last_key: int) -> None:
        """Free the pages that lie wholly above ``last_key``."""
        gone = [page for page in self.pages if page > last_key >> self.page_bits]
        if gone:
            self.dropped_from = min(self.dropped_from, min(gone) << self.page_bits)
            self._shared.difference_update(gone)
            self.pages = {page: cells for page, cells in self.pages.items() if page <= last_key >> self.page_bits}

    def was_dropped(self, plan: ReadPlan) -> bool:
        """Whether writing to ``plan`` may bring back a page that was dropped."""
        return plan.first_key < self.dropped_before or plan.last_key >= self.dropped_from

    def leave_pages(self) -> None:
        """Leave the present pages unchanged: later writes copy them, page by page."""
        self._shared = set(self.pages)
        self.dropped_before = 0
        self.dropped_from = _NO_KEY


def gather(pages: Pages, plan: ReadPlan, dtype: np.dtype[Any], page_bits: int) -> CellArray:
    """A copy of the cells of ``plan`` as one array in key order.

    Raises:
        RowSetError: the plan has a row key for which there are no cells.
    """
    segments = plan.segments(page_bits)
    try:
        if len(segments) == 1:
            page, where, _, _, top = segments[0]
            cells = pages[page]
            if top > len(cells):
                raise _no_cells(plan)
            if isinstance(where, slice):
                copied: CellArray = cells[where].copy()
                return copied
            return _picked(cells, where)
        out = np.empty(plan.size, dtype)
        for page, where, start, stop, top in segments:
            cells = pages[page]
            if top > len(cells):
                raise _no_cells(plan)
            if isinstance(where, slice) or not isinstance(cells, np.ndarray):
                out[start:stop] = cells[where]
            else:
                # No place is too high. "clip" is not meant to do anything: "raise" would take a detour.
                cells.take(where, out=out[start:stop], mode="clip")
        return out
    except KeyError:
        raise _no_cells(plan) from None


def _picked(cells: Any, where: Int64Array) -> CellArray:
    picked: CellArray = cells.take(where) if isinstance(cells, np.ndarray) else cells[where]
    return picked


def view(pages: Pages, plan: ReadPlan, page_bits: int) -> CellArray | None:
    """The cells of ``plan`` without a copy.

    ``None`` if they are not one run in one page.
    """
    segments = plan.segments(page_bits)
    if len(segments) != 1 or not isinstance(segments[0].where, slice):
        return None
    page, where, _, _, top = segments[0]
    cells = pages.get(page)
    if cells is None or top > len(cells):
        raise _no_cells(plan)
    found: CellArray = cells[where]
    return found


def gather_any(
    pages: Pages, keys: Int64Array, dtype: np.dtype[Any], page_bits: int, *, default: bool | None = None
) -> CellArray:
    """A copy of the cells of ``keys``, which may be in any order and repeat.

    Args:
        pages: the pages.
        keys: row keys, int64.
        dtype: the numpy type of a cell.
        page_bits: a page has ``2**page_bits`` cells at most.
        default: the value of cells in pages that do not exist; ``None``: they must.

    Raises:
        RowSetError: there are row keys for which there are no cells.
    """
    try:
        order, parts = _by_page(keys, page_bits)
        found = [
            np.full(len(offsets), default, dtype)
            if default is not None and page not in pages
            else _picked(pages[page], offsets)
            for page, offsets in parts
        ]
    except (KeyError, IndexError):
        raise RowSetError(f"Some of {len(keys)} row keys have no cells: they are not rows of the table.") from None
    return _arranged(found, order, np.empty(len(keys), dtype))


def gather_runs(
    pages: Pages, keys: Int64Array, dtype: np.dtype[Any], page_bits: int, run_bits: int
) -> npt.NDArray[Any]:
    """A copy of the ``2**run_bits`` cells from each of ``keys`` on, a line for each.

    Args:
        pages: the pages, arrays of cells that are whole runs.
        keys: row keys, multiples of the length of a run, in any order.
        dtype: the numpy type of a cell.
        page_bits: a page has ``2**page_bits`` cells at most.
        run_bits: the length of a run, as a power of two; at most that of ``MIN_PAGE_CELLS``.
    """
    order, parts = _by_page(keys, page_bits)
    width = 1 << run_bits
    found = [pages[page].reshape(-1, width).take(offsets >> run_bits, axis=0) for page, offsets in parts]
    return _arranged(found, order, np.empty((len(keys), width), dtype))


def _by_page(keys: Int64Array, page_bits: int) -> tuple[Int64Array | None, list[tuple[int, Int64Array]]]:
    """Group row keys in any order by page.

    Returns:
        The positions of the keys in the order of the pages, ``None`` if they have it; and for each page its number and
        the offsets in it.
    """
    if len(keys) == 0:
        return None, []
    mask = (1 << page_bits) - 1
    numbers, offsets = keys >> page_bits, keys & mask
    low, high = int(numbers.min()), int(numbers.max())
    if low == high:
        return None, [(low, offsets)]
    order = None
    if not (numbers[1:] >= numbers[:-1]).all():
        order = order_of_small(numbers, low, high)
        numbers, offsets = numbers[order], offsets[order]
    begins = np.concatenate(([0], np.flatnonzero(numbers[1:] != numbers[:-1]) + 1))
    ends = [*begins[1:].tolist(), len(keys)]
    parts = zip(numbers[begins].tolist(), begins.tolist(), ends, strict=True)
    return order, [(page, offsets[begin:end]) for page, begin, end in parts]


def _arranged(parts: list[CellArray], order: Int64Array | None, out: CellArray) -> CellArray:
    """Return the cells of all parts in one array.

    Args:
        parts: the cells by page.
        order: the position of each cell in the result; ``None`` if the parts have that order.
        out: the array that is filled if there is an order or no part.
    """
    if not parts:
        return out
    joined: CellArray = parts[0] if len(parts) == 1 else np.concatenate(parts)
    if order is None:
        return joined
    out[order] = joined
    return out


def _no_cells(plan: ReadPlan) -> RowSetError:
    return RowSetError(
        f"Some row keys from {plan.first_key} to {plan.last_key} have no cells: they are not rows of this version."
    )

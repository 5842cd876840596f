"""Cells that hold indexes into a heap.

Pages whose rows were written in order hold consecutive indexes, and take no memory.
"""

from __future__ import annotations

import numpy as np

from barrage_server.engine.cells import CellArray, Cells, Pages
from barrage_server.engine.heap import INDEX, INDEX_MASK, IndexArray
from barrage_server.engine.plan import Int64Array, ReadPlan

__all__ = ["IndexCells", "IndexRun"]


class IndexRun:
    """A page of consecutive indexes.

    The cell at offset ``i`` holds ``start + i`` (modulo 2**32). Reads like an array. The size grows in place; readers
    of older versions do not look beyond their rows.
    """

    __slots__ = ("size", "start")
    nbytes = 0

    def __init__(self, start: int, size: int) -> None:
        self.start = start
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, where: slice | Int64Array) -> IndexArray:
        if isinstance(where, slice):
            return np.arange(self.start + where.start, self.start + where.stop, dtype=np.int64).astype(INDEX)
        if len(where) and int(where.max()) >= self.size:
            raise IndexError("the cell was never written")
        return (where + self.start).astype(INDEX)


class IndexCells(Cells):
    """The cells of one column of variable-width values.

    Args:
        page_bits: a page has ``2**page_bits`` cells at most.
    """

    __slots__ = ()

    def __init__(self, *, page_bits: int) -> None:
        super().__init__(INDEX, page_bits=page_bits)

    def write_run(self, plan: ReadPlan, first: int) -> None:
        """Set unread cells of a contiguous plan to consecutive indexes from ``first``."""
        self.recent = None
        for page, where, begin, _, top in plan.segments(self.page_bits):
            assert isinstance(where, slice)
            start = (first + begin - where.start) & INDEX_MASK
            cells = self.pages.get(page)
            if cells is None:
                self.pages = {**self.pages, page: IndexRun(start, top)}
            elif isinstance(cells, IndexRun) and cells.start == start and where.start >= cells.size:
                cells.size = top
            else:
                self.resize(page, top)
                self.pages[page][where] = IndexRun(start, top)[where]

    def _is_writable(self, page: int, size: int) -> bool:
        return super()._is_writable(page, size) and not isinstance(self.pages[page], IndexRun)

    def _enlarged(self, pages: Pages, page: int, size: int) -> CellArray:
        line = pages.get(page)
        if isinstance(line, IndexRun):
            pages = {**pages, page: line[slice(0, line.size)]}
        return super()._enlarged(pages, page, size)

"""Large arrays in memory mappings of their own.

Untouched parts take no memory, and freed arrays return theirs at once. The allocators of numpy and Arrow keep freed
memory, and touch it by clearing it for the next array.
"""

from __future__ import annotations

import contextlib
import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["GrowingArray", "zeros"]

# Bytes. Below, the allocator is better: it needs no system call, and a memory page is large relative to the array.
_LARGE = 1 << 18
# Bytes of a large page of memory, where the system has them.
_HUGE = 1 << 21
_PRIVATE = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)


def zeros(count: int, dtype: npt.DTypeLike, filled: int = 0) -> npt.NDArray[Any]:
    """An array of ``count`` zeros, of which the first ``filled`` are written next."""
    memory = GrowingArray(count, dtype)
    memory.expect(filled)
    return memory.array


class GrowingArray:
    """An array that grows and shrinks, without a copy where the system allows.

    Args:
        count: number of elements, all zero.
        dtype: their type.

    Attributes:
        array: the elements. To be used as long as the size stays; not there while it changes.
        dtype: the type of an element.
        nbytes: bytes of the elements. May be read by any thread at any time.
    """

    __slots__ = ("_memory", "array", "dtype", "nbytes")

    def __init__(self, count: int, dtype: npt.DTypeLike) -> None:
        self.dtype = dtype = np.dtype(dtype)
        self.nbytes = nbytes = count * dtype.itemsize
        self._memory: mmap.mmap | None = None
        if nbytes < _LARGE:
            self.array: npt.NDArray[Any] = np.zeros(count, dtype)
            return
        self._memory = mmap.mmap(-1, nbytes, _PRIVATE) if _PRIVATE else mmap.mmap(-1, nbytes)
        self.array = np.frombuffer(self._memory, dtype)

    def expect(self, count: int) -> None:
        """Prepare for writing the first ``count`` elements, with large memory pages.

        The first write to a page of memory costs more than the bytes that are written.
        """
        whole = count * self.array.itemsize // _HUGE * _HUGE
        if whole and self._memory is not None and hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):  # a system that was built without them
                self._memory.madvise(mmap.MADV_HUGEPAGE, 0, whole)

    def resize(self, count: int) -> None:
        """Keep the first ``count`` elements in a new array; new elements are zero.

        The previous array becomes invalid.
        """
        dtype, before = self.dtype, len(self.array)
        self.nbytes = count * dtype.itemsize
        if self._memory is not None and count * dtype.itemsize >= _LARGE:
            del self.array
            try:
                self._memory.resize(count * dtype.itemsize)
            except (BufferError, SystemError):  # the array is referenced, or the system cannot resize it
                self.array = np.frombuffer(self._memory, dtype)
            else:
                self.array = np.frombuffer(self._memory, dtype)
                return
        old = self.array
        fresh = GrowingArray(count, dtype)
        self._memory, self.array = fresh._memory, fresh.array
        kept = min(before, count)
        self.array[:kept] = old[:kept]

"""Whole columns of key values, hashed and compared without a loop over rows.

Keys are equal as in SQL's GROUP BY: null equals null, NaN equals NaN, and -0.0 equals 0.0. A struct consists of its
leaves and of one flag for each struct in it, which distinguishes a null struct from a struct of nulls.
"""

from __future__ import annotations

from collections.abc import Sequence
from secrets import randbits
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from barrage_server.engine.short_texts import load_words
from barrage_server.engine.slots import HashArray
from barrage_server.engine.storage import storage_type, to_storage
from barrage_server.engine.types import StorageKind, cell_dtype, storage_kind
from barrage_server.engine.values import BoolArray, canonical_cells, raw_differ
from barrage_server.wire.buffers import is_valid, offsets_of

__all__ = ["KeyValues", "is_integer_like"]

# Hashes are only compared within this process. A seed of its own keeps outsiders from choosing keys that collide.
_SEED, _NULL, _FACTORS, _FACTORS_STEP = (np.uint64(randbits(64)) for _ in range(4))
_STEP = np.uint64(0x9E3779B97F4A7C15)
_BYTES_BLOCK = 1 << 13
_KNOWN_PLACES = 1 << 12
# Keeps only the bytes that belong to a value, by the length of the value modulo 8.
_TAIL_MASKS = np.array([2**64 - 1, *((1 << (8 * count)) - 1 for count in range(1, 8))], np.uint64)


class KeyValues:
    """The key columns of some rows.

    Args:
        columns: one array per key column, of key types, all of one length.
    """

    __slots__ = ("_cells", "_hashes", "_strings", "count")

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        self.count = len(columns[0])
        self._hashes: HashArray | None = None
        self._cells: list[tuple[npt.NDArray[Any], BoolArray | None]] = []
        self._strings: list[pa.Array] = []
        for column in columns:
            self._add(column)

    def _add(self, column: pa.Array) -> None:
        """Add a column; of a struct, its leaves, which are the same for all of a type."""
        kind = storage_kind(column.type)
        if kind is not StorageKind.HEAP:
            if kind is not StorageKind.NULL:  # nulls are all alike
                self._cells.append(canonical_cells(column))
            return
        stored = to_storage(column)
        if not pat.is_struct(stored.type):
            self._strings.append(stored)
            return
        self._cells.append((is_valid(stored).view(np.uint8), None))
        for leaf in stored.flatten():  # null where the struct is
            self._add(leaf)

    def take(self, positions: npt.NDArray[np.int64]) -> KeyValues:
        """The keys at ``positions``."""
        taken = KeyValues.__new__(KeyValues)
        taken.count = len(positions)
        taken._cells = [(data[positions], None if valid is None else valid[positions]) for data, valid in self._cells]
        picked = pa.array(positions) if self._strings else None
        taken._strings = [column.take(picked) for column in self._strings]
        taken._hashes = None if self._hashes is None else self._hashes[positions]
        return taken

    @classmethod
    def of_numbers(cls, numbers: npt.NDArray[np.int64], data_type: pa.DataType) -> KeyValues:
        """Keys of one column of an integer type (see :func:`is_integer_like`)."""
        keys = cls.__new__(cls)
        keys.count, keys._hashes, keys._strings = len(numbers), None, []
        keys._cells = [(numbers.astype(cell_dtype(data_type), copy=False), None)]
        return keys

    @property
    def numbers(self) -> tuple[npt.NDArray[np.int64], BoolArray | None]:
        """The keys of one integer column, and which are not null (``None``: all)."""
        data, valid = self._cells[0]
        return data.astype(np.int64, copy=False), valid

    def slice(self, start: int, stop: int) -> KeyValues:
        """The keys from ``start`` to before ``stop``, without a copy."""
        part = KeyValues.__new__(KeyValues)
        part.count = min(stop, self.count) - start
        part._cells = [(data[start:stop], None if valid is None else valid[start:stop]) for data, valid in self._cells]
        part._strings = [column.slice(start, stop - start) for column in self._strings]
        part._hashes = None if self._hashes is None else self._hashes[start:stop]
        return part

    def equal(self, other: KeyValues) -> BoolArray:
        """Whether the keys of both are equal, row by row."""
        same = np.ones(self.count, np.bool_)
        for (data, valid), (other_data, other_valid) in zip(self._cells, other._cells, strict=True):
            same &= ~raw_differ(data, other_data)  # cells under nulls are zero
            if valid is not None or other_valid is not None:
                same &= (True if valid is None else valid) == (True if other_valid is None else other_valid)
        for column, other_column in zip(self._strings, other._strings, strict=True):
            same &= _equal_strings(column, other_column)
        return same

    def order(self) -> npt.NDArray[np.int64]:
        """The positions sorted by key, stably: equal keys are adjacent."""
        parts = [pc.rank(column, sort_keys="ascending", tiebreaker="dense").to_numpy() for column in self._strings]
        for data, valid in self._cells:
            parts += _words(data)
            if valid is not None:
                parts.append(valid)
        return np.lexsort(parts) if parts else np.arange(self.count, dtype=np.int64)

    def hash(self) -> HashArray:
        """The hash of each key, computed once. Do not write to the array."""
        if self._hashes is None:
            self._hashes = self._hash()
        return self._hashes

    def _hash(self) -> HashArray:
        hashes = np.full(self.count, _SEED, np.uint64)
        place = 0
        for data, valid in self._cells:
            if valid is not None:
                hashes[~valid] ^= _NULL  # before the mixing, so that where a null is counts
            for words in _words(data):
                hashes ^= words
                _mix(hashes, _factor(place))
                place += 1
        for column in self._strings:
            hashes ^= _hash_strings(column)
            _mix(hashes, _factor(place))
            place += 1
        return hashes


def is_integer_like(data_type: pa.DataType) -> bool:
    """Whether values of a type order like integer cells: numbers, dates, times."""
    stored = storage_type(data_type)
    if not (pat.is_integer(stored) or pat.is_temporal(stored)) or pat.is_uint64(stored):
        return False
    return cell_dtype(stored).kind == "i"


def _mix(hashes: HashArray, factors: HashArray | np.uint64) -> None:
    """Spread every bit over all others, in place.

    This is the finalizer of SplitMix64 with a secret last factor. With public factors, an attacker can predict how a
    change of the input changes the result, and can make one change cancel another.
    """
    with np.errstate(over="ignore"):
        hashes += _STEP
        hashes ^= hashes >> np.uint64(30)
        hashes *= np.uint64(0xBF58476D1CE4E5B9)
        hashes ^= hashes >> np.uint64(27)
        hashes *= factors
        hashes ^= hashes >> np.uint64(31)


def _factors(places: npt.NDArray[np.uint64]) -> HashArray:
    """A secret odd factor for each place of a word in a key or a value."""
    factors = places * (_FACTORS_STEP | np.uint64(1)) + _FACTORS
    _mix(factors, np.uint64(0x94D049BB133111EB))
    factors |= np.uint64(1)
    return factors


_KNOWN_FACTORS = _factors(np.arange(_KNOWN_PLACES, dtype=np.uint64))


def _factor(place: int) -> np.uint64:
    known = _KNOWN_FACTORS if place < _KNOWN_PLACES else _factors(np.array([place], np.uint64))
    return np.uint64(known[place if place < _KNOWN_PLACES else 0])


def _words(data: npt.NDArray[Any]) -> list[HashArray]:
    """Cells as 64-bit words: one array for each word of a cell."""
    width = data.dtype.itemsize
    if data.dtype.kind != "V":
        return [data.view(f"u{width}").astype(np.uint64, copy=False)]
    count = -(-width // 8)
    padded = np.zeros((len(data), 8 * count), np.uint8)
    padded[:, :width] = np.ascontiguousarray(data).view(np.uint8).reshape(len(data), width)
    words = padded.view(np.uint64)
    return [words[:, index] for index in range(count)]


def _equal_strings(first: pa.Array, second: pa.Array) -> BoolArray:
    same = pc.equal(first, second)
    if same.null_count == 0:
        return np.asarray(same.to_numpy(zero_copy_only=False))
    both_null = ~(is_valid(first) | is_valid(second))
    return np.asarray(same.fill_null(False).to_numpy(zero_copy_only=False)) | both_null


def _hash_strings(column: pa.Array) -> HashArray:
    """The hash of each string or binary value.

    It is the sum of the words of the value, each mixed with a factor of its place.
    """
    count = len(column)
    validity, *buffers = column.buffers()
    if pat.is_fixed_size_binary(column.type):  # of width zero
        hashes = np.zeros(count, np.uint64)
    else:
        offsets = offsets_of(column)
        data = np.frombuffer(buffers[1], np.uint8) if buffers[1] is not None else np.zeros(0, np.uint8)
        hashes = np.empty(count, np.uint64)
        for start in range(0, count, _BYTES_BLOCK):
            stop = min(start + _BYTES_BLOCK, count)
            hashes[start:stop] = _hash_block(offsets[start : stop + 1].astype(np.int64), data)
    if validity is not None and column.null_count:
        hashes[~is_valid(column)] = _NULL
    return hashes


def _hash_block(offsets: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]) -> HashArray:
    lengths = np.diff(offsets)
    hashes = lengths.astype(np.uint64)
    counts = (lengths + 7) >> 3
    filled = np.flatnonzero(counts)
    if len(filled) == 0:
        return hashes
    ends = np.cumsum(counts)
    firsts = ends - counts
    # The place of each word within its value, and its first byte.
    places = np.arange(int(ends[-1]), dtype=np.int64)
    places -= np.repeat(firsts, counts)
    words = load_words(data, np.repeat(offsets[:-1], counts) + 8 * places)
    words[ends[filled] - 1] &= _TAIL_MASKS[lengths[filled] & 7]
    factors = _KNOWN_FACTORS[places] if int(counts.max()) <= _KNOWN_PLACES else _factors(places.view(np.uint64))
    # The secret of the place is added before the mixing and within it; otherwise words that swap places, or differ by
    # the difference of their places, have equal sums.
    words ^= factors
    _mix(words, factors)
    hashes[filled] += np.add.reduceat(words, firsts[filled])
    return hashes

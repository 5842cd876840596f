"""Short texts as numbers, and a cache of their groups."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from barrage_server.engine.plan import Int64Array
from barrage_server.wire.buffers import is_valid, offsets_of

__all__ = ["ShortTexts", "are_texts", "load_words", "words_of"]

_Words = npt.NDArray[np.uint64]

_MOST_BYTES = 7
_LENGTH_SHIFT = np.uint64(8 * _MOST_BYTES)
_NULL = np.uint64(0xFF << 8 * _MOST_BYTES)
# The bytes that belong to a text of each length.
_MASKS = np.array([(1 << 8 * length) - 1 for length in range(_MOST_BYTES + 1)], np.uint64)

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
# Places, as powers of two: at first, and at most; and places for each text.
_BITS, _MOST_BITS, _ROOM = 8, 16, 8
_STEPS = range(3)
# The table is given up when more than an eighth of the rows have a text without a place.
_TOO_MANY = 8


class ShortTexts:
    """A cache of the groups of texts of up to seven bytes, a hash table.

    A text can be in three places of the table. If all three are taken by other texts, the text is not cached, and the
    caller looks it up in an index. The hash is not secret: texts that were chosen to share their places are looked up
    there, too.

    Attributes:
        is_useful: whether most texts fit the table.
    """

    def __init__(self) -> None:
        self.is_useful = True
        self._start(_BITS)

    def _start(self, bits: int) -> None:
        self._bits = bits
        self._words = np.zeros(1 << bits, np.uint64)  # 0 is no text
        self._groups = np.zeros(1 << bits, np.int64)
        self._count = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return self._words.nbytes + self._groups.nbytes

    def find(self, words: _Words) -> Int64Array:
        """The group of each text; -1 for texts that are not cached."""
        found = np.full(len(words), -1, np.int64)
        left: Int64Array | None = None
        for step in _STEPS:
            part = words if left is None else words[left]
            places = self._places(part, step)
            known = self._words.take(places) == part
            if left is None:
                np.copyto(found, self._groups.take(places), where=known)
            else:
                found[left[known]] = self._groups[places[known]]
            unknown = np.flatnonzero(~known)
            left = unknown if left is None else left[unknown]
            if not len(left):
                break
        return found

    def learn(self, words: _Words, groups: Int64Array, rows: int) -> None:
        """Add texts that were not found.

        Args:
            words: the texts, which may repeat.
            groups: their groups.
            rows: the number of rows of the batch in which they occurred.
        """
        words, first = np.unique(words, return_index=True)
        groups = groups[first]
        wanted = _ROOM * (self._count + len(words))
        if wanted > len(self._words) and self._bits < _MOST_BITS:
            known = np.flatnonzero(self._words)
            words = np.concatenate((self._words[known], words))
            groups = np.concatenate((self._groups[known], groups))
            self._start(min(_MOST_BITS, wanted.bit_length()))
        for step in _STEPS:
            places = self._places(words, step)
            free = np.flatnonzero(self._words[places] == 0)
            self._words[places[free]] = words[free]  # several texts may choose one place: the last of them has it
            has = self._words[places] == words
            self._groups[places[has]] = groups[has]
            self._count += int(np.count_nonzero(has))
            words, groups = words[~has], groups[~has]
        self.is_useful = len(words) * _TOO_MANY <= rows

    def _places(self, words: _Words, step: int) -> Int64Array:
        with np.errstate(over="ignore"):
            mixed = words * _FACTOR
        mixed >>= np.uint64(64 - self._bits * (step + 1))
        mixed &= np.uint64((1 << self._bits) - 1)
        return mixed.view(np.int64)


def are_texts(data_type: pa.DataType) -> bool:
    """Whether values of a type are text or bytes of any length."""
    return bool(
        pat.is_string(data_type)
        or pat.is_large_string(data_type)
        or pat.is_binary(data_type)
        or pat.is_large_binary(data_type)
    )


def words_of(column: pa.Array) -> _Words | None:
    """Texts of up to seven bytes as distinct, nonzero numbers.

    Args:
        column: values of a type that :func:`are_texts` accepts, at least one.

    Returns:
        A uint64 per text; ``None`` if a text is longer.
    """
    offsets = offsets_of(column).astype(np.int64)
    lengths = np.diff(offsets)
    if int(lengths.max()) > _MOST_BYTES:
        return None
    buffer = column.buffers()[2]
    words = load_words(np.frombuffer(buffer, np.uint8) if buffer is not None else np.zeros(0, np.uint8), offsets[:-1])
    words &= _MASKS[lengths]
    words |= (lengths + 1).view(np.uint64) << _LENGTH_SHIFT
    if column.null_count:
        words[~is_valid(column)] = _NULL
    return words


def load_words(data: npt.NDArray[np.uint8], offsets: Int64Array) -> _Words:
    """The eight bytes at each offset as a little-endian word, zero-padded.

    Args:
        data: the bytes.
        offsets: the first byte of each word, int64.
    """
    last = len(data) - 8
    if last >= 0:
        windows: _Words = np.ndarray((last + 1,), "<u8", data, strides=(1,))
        beyond = np.flatnonzero(offsets > last)
        if len(beyond) == 0:
            return windows[offsets]
        words = windows[np.minimum(offsets, last)]
    else:
        beyond = np.arange(len(offsets))
        words = np.empty(len(offsets), np.uint64)
    start = max(last, 0)
    tail = np.zeros(len(data) - start + 8, np.uint8)
    tail[: len(data) - start] = data[start:]
    words[beyond] = np.ndarray((len(tail) - 7,), "<u8", tail, strides=(1,))[offsets[beyond] - start]
    return words

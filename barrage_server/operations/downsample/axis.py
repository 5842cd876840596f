"""The x axis of a plot: values as numbers, and the parts of a range."""

from __future__ import annotations

from math import frexp, inf, nextafter
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from barrage_server.engine.plan import Int64Array
from barrage_server.engine.values import BoolArray, to_cells
from barrage_server.operations.downsample.numbers import DoubleArray, finite_doubles, is_number

__all__ = ["Axis", "Number", "NumberArray", "is_axis", "is_time"]

Number: TypeAlias = int | float
NumberArray: TypeAlias = npt.NDArray[np.int64] | DoubleArray

_FARTHEST: Final = 1 << 62
"""Parts of doubles are numbered up to this, to both sides of 0; what is beyond belongs to the last one."""
_LEAST: Final = -(1 << 63)
_MOST: Final = (1 << 63) - 1
_SIGNED: Final = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
_UNSIGNED: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32}


def is_time(data_type: pa.DataType) -> bool:
    """Whether values are times, dates or durations."""
    return bool(pat.is_temporal(data_type)) and not pat.is_interval(data_type)


def is_axis(data_type: pa.DataType) -> bool:
    """Whether a column of this type can be the x axis."""
    return is_time(data_type) or (is_number(data_type) and not pat.is_boolean(data_type))


class Axis:
    """Values of a column as int64 or doubles, in parts of a power of two each.

    Args:
        data_type: the type of the column.

    """

    def __init__(self, data_type: pa.DataType) -> None:
        self._type = data_type
        self.is_whole: Final = is_time(data_type) or (pat.is_integer(data_type) and data_type != pa.uint64())

    def numbers(self, array: pa.Array) -> tuple[NumberArray, BoolArray | None]:
        """The values, and a mask of present values, or None if all are present.

        Infinities and NaN are not present.
        """
        if not self.is_whole:
            values = finite_doubles(array)
            there = ~np.isnan(values)
            return values, None if there.all() else there
        data, valid = to_cells(array)
        kinds: Any = _UNSIGNED if pat.is_unsigned_integer(array.type) else _SIGNED
        return data.view(kinds[data.dtype.itemsize]).astype(np.int64, copy=False), valid

    def exponent(self, low: Number, high: Number, pixels: int) -> int:
        """The exponent of the width of parts, for ``pixels`` to twice as many parts.

        There are fewer parts where the values are too close to each other.
        """
        if self.is_whole:
            return max(0, ((int(high) - int(low)) // pixels).bit_length() - 1)
        finest = int(frexp(float(np.spacing(max(abs(low), abs(high)))))[1]) - 1
        half = high / 2 / pixels - low / 2 / pixels  # the whole may be beyond the range of a double
        return max(finest, frexp(half)[1]) if half > 0 else finest

    def parts(self, values: NumberArray, exponent: int) -> Int64Array:
        """The numbers of the parts that contain the values."""
        if self.is_whole:
            return np.right_shift(values.astype(np.int64, copy=False), min(exponent, 63))
        with np.errstate(over="ignore"):
            found = np.floor(np.ldexp(values, -exponent))
        return np.clip(found, -float(_FARTHEST), float(_FARTHEST)).astype(np.int64)

    def part(self, value: Number, exponent: int) -> int:
        """The number of the part that contains a value."""
        if self.is_whole:
            return int(value) >> exponent
        return int(self.parts(np.array([value], np.float64), exponent)[0])

    def border(self, part: int, exponent: int) -> Number:
        """The start of a part; integers may exceed 64 bits."""
        if self.is_whole:
            return part << exponent
        if part <= -_FARTHEST:
            return -inf
        if part > _FARTHEST:
            return inf
        scaled = float(part)
        if int(scaled) < part:  # beyond 53 bits
            scaled = nextafter(scaled, inf)
        with np.errstate(over="ignore"):
            return float(np.ldexp(scaled, exponent))

    def borders(self, first: int, last: int, exponent: int) -> NumberArray:
        """The starts of the parts ``first`` to ``last``, which contains a value."""
        parts = np.arange(first, last + 1, dtype=np.int64)
        if self.is_whole:
            return np.asarray(parts << min(exponent, 63), np.int64)
        with np.errstate(over="ignore"):
            found = np.ldexp(parts.astype(np.float64), exponent)
        found[parts <= -_FARTHEST] = -inf
        return found

    def array(self, values: list[Number]) -> NumberArray:
        """Numbers in the dtype of the axis; integers are clipped to 64 bits."""
        if self.is_whole:
            return np.array([min(max(int(value), _LEAST), _MOST) for value in values], np.int64)
        return np.array(values, np.float64)

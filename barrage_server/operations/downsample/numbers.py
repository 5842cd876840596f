"""The values of a column of numbers as doubles."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

__all__ = ["DoubleArray", "finite_doubles", "is_number"]

DoubleArray: TypeAlias = npt.NDArray[np.float64]


def is_number(data_type: pa.DataType) -> bool:
    """Whether a plot can show values of this type."""
    return bool(
        pat.is_integer(data_type)
        or pat.is_floating(data_type)
        or pat.is_boolean(data_type)
        or pat.is_decimal(data_type)
    )


def finite_doubles(array: pa.Array) -> DoubleArray:
    """The values as doubles; NaN for nulls, NaN and infinities.

    The result may share the memory of ``array``.
    """
    if pat.is_decimal(array.type):
        array = array.cast(pa.float64())
    elif pat.is_boolean(array.type):
        array = array.cast(pa.uint8())
    values: DoubleArray = array.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    if pat.is_floating(array.type):
        beyond = np.isinf(values)
        if beyond.any():
            values = np.where(beyond, np.nan, values)
    return values

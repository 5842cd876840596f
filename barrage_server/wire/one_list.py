"""The fast path for batches whose columns are one list each.

Most updates have this form. They are checked and measured in one pass, with the result of
:class:`~barrage_server.wire.intake.Intake`, which takes all other batches.
"""

from __future__ import annotations

import math
import struct
from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import lib

from barrage_server.wire.plain_size import FIXED, SMALL_OFFSET, fixed_width

__all__ = ["OneListReader"]

_BOUNDS: Final = struct.Struct("=ii")
_TEXTS: Final = frozenset({lib.Type_STRING, lib.Type_BINARY})
_MOST_VALUES: Final = 1 << 16
"""The most values of a list; longer lists are checked in parts elsewhere."""


class OneListReader:
    """Reads the batches of one stream that have one list per column.

    Args:
        schema: the schema of the stream, of lists.

    """

    __slots__ = ("_kinds", "_types", "_widths")

    def __init__(self, schema: pa.Schema) -> None:
        self._types: list[pa.DataType] = schema.types
        values = [data_type.value_type for data_type in self._types]
        self._kinds = [data_type.id if data_type.id in FIXED | _TEXTS else -1 for data_type in values]
        self._widths = [fixed_width(data_type) if data_type.id in FIXED else 0.0 for data_type in values]

    def read(self, batch: pa.RecordBatch) -> tuple[list[pa.Array], int] | None:
        """Return the values of each column, and their bytes in plain form.

        Each column must be one list of fixed-width values, ASCII texts or bytes, without nulls, and its arrays must
        have no other elements. ``None`` for any other batch, and for a damaged one.
        """
        columns = batch.columns
        if batch.num_rows != 1 or len(columns) != len(self._types):
            return None
        try:
            batch.validate()
        except (pa.ArrowException, ValueError):
            return None
        result: list[pa.Array] = []
        size = 0
        for column, data_type, kind, width in zip(columns, self._types, self._kinds, self._widths, strict=True):
            if kind < 0 or column.offset or column.type != data_type:
                return None
            validity, offsets, missing, *data = column.buffers()
            values = column.values
            count = len(values)
            if validity is not None or missing is not None or values.offset or not 0 < count <= _MOST_VALUES:
                return None
            if offsets is None or _BOUNDS.unpack_from(offsets) != (0, count) or column.null_count or values.null_count:
                return None
            if width:
                size += SMALL_OFFSET + math.ceil(count * width)
            else:
                nbytes = _text_bytes(data[0], data[1], count, is_text=kind == lib.Type_STRING)
                if nbytes is None:
                    return None
                size += SMALL_OFFSET + nbytes + count * SMALL_OFFSET
            result.append(values)
        return result, size


def _text_bytes(offsets: pa.Buffer | None, data: pa.Buffer | None, count: int, *, is_text: bool) -> int | None:
    """Return the bytes of values; ``None`` for wrong offsets or non-ASCII texts."""
    if offsets is None or data is None:
        return None
    bounds = np.frombuffer(offsets, np.int32, count + 1)
    first, last = int(bounds[0]), int(bounds[-1])
    if not 0 <= first <= last <= data.size or (bounds[1:] < bounds[:-1]).any():
        return None
    if is_text and last > first and np.frombuffer(data, np.int8, last - first, first).min() < 0:
        return None
    return last - first

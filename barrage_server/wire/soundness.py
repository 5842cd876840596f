"""Whether a received array can be used without reading outside its buffers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyarrow import types

from barrage_server.errors import WireFormatError

__all__ = ["check_sound", "is_foreign"]


def check_sound(array: pa.Array) -> None:
    """WireFormatError unless buffers are long enough, offsets lead upwards within them, and texts are UTF-8.

    Arrow's own full validation refuses more: values such as Deephaven's null of a date, which is no date but does no
    harm. All offsets and texts are read, but no other data.
    """
    while isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    try:
        array.validate(full=_has_bytes(array.type) or is_foreign(array.type))
    except (pa.ArrowException, ValueError) as error:
        raise WireFormatError(f"damaged record batch: a column of type {array.type} does not fit its data") from error
    if not len(array):
        return
    if types.is_list(array.type) or types.is_large_list(array.type) or types.is_map(array.type):
        dtype = np.dtype(np.int64 if types.is_large_list(array.type) else np.int32)
        start = array.offset * dtype.itemsize
        offsets = np.frombuffer(array.buffers()[1], dtype, count=len(array) + 1, offset=start)
        if offsets[0] < 0 or offsets[-1] > len(array.values) or (offsets[1:] < offsets[:-1]).any():
            raise WireFormatError(
                f"damaged record batch: the lists of a column of type {array.type} overlap or overrun"
            )
        check_sound(array.values)
    elif types.is_fixed_size_list(array.type):
        check_sound(array.values)
    elif types.is_struct(array.type):
        for number in range(array.type.num_fields):
            check_sound(array.field(number))


def is_foreign(data_type: pa.DataType) -> bool:
    """Whether a type, leaving aside those in it, is one that this project does not write: a view, union or run ends."""
    return bool(
        types.is_string_view(data_type)
        or types.is_binary_view(data_type)
        or types.is_list_view(data_type)
        or types.is_large_list_view(data_type)
        or types.is_union(data_type)
        or types.is_run_end_encoded(data_type)
    )


def _has_bytes(data_type: pa.DataType) -> bool:
    """Whether values are of variable length."""
    is_text = types.is_string(data_type) or types.is_large_string(data_type)
    return bool(is_text or types.is_binary(data_type) or types.is_large_binary(data_type))

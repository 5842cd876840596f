"""Arrays without elements, and batches without columns."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyarrow import types

from barrage_server.wire.schema import unwrapped_type

__all__ = ["batch_of", "empty_array", "table_of"]


def batch_of(columns: Sequence[pa.Array], rows: int, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch of ``columns``, or of ``rows`` rows if there are no columns.

    Arrow makes a batch without rows of no columns.
    """
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    made = pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None], 0))
    return made.replace_schema_metadata(schema.metadata)


def table_of(columns: Sequence[pa.Array | pa.ChunkedArray], rows: int, schema: pa.Schema) -> pa.Table:
    """Return the table of ``columns``, or of ``rows`` rows if there are no columns."""
    if columns:
        return pa.Table.from_arrays(columns, schema=schema)
    return pa.Table.from_batches([batch_of((), rows, schema)])


def empty_array(data_type: pa.DataType) -> pa.Array:
    """Return an array without elements.

    It takes almost no memory. Arrow's own empty dense union has a null of its first member, which may have any width.
    """
    if not _has_union(data_type):
        return pa.nulls(0, data_type)
    if isinstance(data_type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(data_type, empty_array(data_type.storage_type))
    if types.is_dictionary(data_type):
        indices = pa.nulls(0, data_type.index_type)
        return pa.DictionaryArray.from_arrays(indices, empty_array(data_type.value_type), ordered=data_type.ordered)
    if types.is_run_end_encoded(data_type):
        ends = pa.nulls(0, data_type.run_end_type)
        return pa.RunEndEncodedArray.from_arrays(ends, empty_array(data_type.value_type), data_type)
    if types.is_map(data_type):
        entries = pa.struct([data_type.key_field, data_type.item_field])
        return pa.Array.from_buffers(data_type, 0, [None, _ZEROS], 0, children=[empty_array(entries)])
    children = [empty_array(data_type.field(number).type) for number in range(data_type.num_fields)]
    return pa.Array.from_buffers(data_type, 0, [None, *[_ZEROS] * _buffers(data_type)], 0, children=children)


_ZEROS = pa.py_buffer(bytes(8))


def _has_union(data_type: pa.DataType) -> bool:
    data_type = unwrapped_type(data_type)
    if types.is_union(data_type):
        return True
    if types.is_dictionary(data_type):
        return _has_union(data_type.value_type)
    return any(_has_union(data_type.field(number).type) for number in range(data_type.num_fields))


def _buffers(data_type: pa.DataType) -> int:
    """Return the number of buffers of a nested type, without the validity."""
    if types.is_union(data_type):
        return 2 if data_type.mode == "dense" else 1
    if types.is_list_view(data_type) or types.is_large_list_view(data_type):
        return 2
    return 1 if types.is_list(data_type) or types.is_large_list(data_type) else 0

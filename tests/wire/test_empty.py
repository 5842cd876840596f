"""Arrays without elements: of every type, sound, and without the memory of a value."""

from __future__ import annotations

import pyarrow as pa
import pytest

from barrage_server.wire.empty import empty_array
from barrage_server.wire.soundness import check_sound

WIDE = pa.list_(pa.int8(), 1 << 28)
DENSE = pa.dense_union([pa.field("a", WIDE), pa.field("b", pa.string())])
SPARSE = pa.sparse_union([pa.field("a", WIDE), pa.field("b", DENSE)])


@pytest.mark.parametrize("union", [DENSE, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    "around",
    [
        lambda union: union,
        pa.list_,
        pa.large_list,
        pa.list_view,
        pa.large_list_view,
        lambda union: pa.list_(union, 3),
        lambda union: pa.struct([("x", union), ("y", pa.int8())]),
        lambda union: pa.map_(pa.string(), union),
        lambda union: pa.dictionary(pa.int8(), union),
        lambda union: pa.run_end_encoded(pa.int16(), union),
        lambda union: pa.list_(pa.map_(pa.string(), pa.list_view(union))),
    ],
)
def test_nothing_of_a_union_is_made(around: object, union: pa.DataType) -> None:
    assert callable(around)
    data_type = around(union)
    before = pa.total_allocated_bytes()
    array = empty_array(data_type)
    assert pa.total_allocated_bytes() - before < 4096
    assert (array.type, len(array), array.to_pylist()) == (data_type, 0, [])
    check_sound(array)


@pytest.mark.parametrize("data_type", [pa.int64(), pa.string(), pa.list_(pa.string()), pa.uuid(), pa.null()])
def test_other_types_are_as_arrow_makes_them(data_type: pa.DataType) -> None:
    assert empty_array(data_type).equals(pa.nulls(0, data_type))

"""Deephaven's nulls: values in the data instead of validity bits."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from barrage_server.wire.nulls import from_deephaven_nulls, has_deephaven_null, to_deephaven_nulls
from barrage_server.wire.soundness import check_sound
from tests.wire.arrays import arrays

LEAST_32, LEAST_64 = -(1 << 31), -(1 << 63)


@pytest.mark.parametrize(
    ("data_type", "stored_as", "sentinel"),
    [
        (pa.int8(), pa.int8(), -128),
        (pa.int16(), pa.int16(), -32768),
        (pa.int32(), pa.int32(), LEAST_32),
        (pa.int64(), pa.int64(), LEAST_64),
        (pa.uint16(), pa.uint16(), 65535),
        (pa.float32(), pa.float32(), -3.4028234663852886e38),
        (pa.float64(), pa.float64(), -1.7976931348623157e308),
        (pa.timestamp("ns", "UTC"), pa.int64(), LEAST_64),
        (pa.date64(), pa.int64(), LEAST_64),
        (pa.time64("ns"), pa.int64(), LEAST_64),
        (pa.duration("ns"), pa.int64(), LEAST_64),
        (pa.date32(), pa.int32(), LEAST_32),
        (pa.time32("ms"), pa.int32(), LEAST_32),
    ],
)
def test_sentinels(data_type: pa.DataType, stored_as: pa.DataType, sentinel: Any) -> None:
    """deephaven-clients 8.5."""
    array = pa.array([None], data_type)
    sent = to_deephaven_nulls(array)
    assert sent.type == data_type
    assert sent.null_count == 0
    assert sent.buffers()[0] is None
    assert sent.view(stored_as).to_pylist() == [sentinel]
    assert from_deephaven_nulls(sent).equals(array)


@given(arrays())
def test_there_and_back(array: pa.Array) -> None:
    sent = to_deephaven_nulls(array)
    check_sound(sent)
    assert sent.type == array.type
    back = from_deephaven_nulls(sent)
    back.validate(full=True)
    # A value that equals the sentinel cannot be told from null; nothing else may change.
    assert back.equals(array) or nulls(back) > nulls(array)


def nulls(array: pa.Array) -> int:
    """Nulls at all levels of lists."""
    inner = nulls(array.flatten()) if pa.types.is_nested(array.type) and not pa.types.is_struct(array.type) else 0
    return inner + int(array.null_count)


@given(arrays())
def test_no_null_value_travels_as_a_bit_where_there_is_a_sentinel(array: pa.Array) -> None:
    if has_deephaven_null(array.type):
        sent = to_deephaven_nulls(array)
        assert pa.types.is_nested(array.type) or sent.null_count == 0


def test_elements_of_lists_follow_the_same_rule() -> None:
    array = pa.array([[1, None], None, [], [None, 4]], pa.list_(pa.int64())).slice(1)
    sent = to_deephaven_nulls(array)
    assert sent.to_pylist() == [None, [], [LEAST_64, 4]]
    assert from_deephaven_nulls(sent).to_pylist() == [None, [], [None, 4]]


def test_other_types_keep_their_bits() -> None:
    for data_type in (pa.string(), pa.bool_(), pa.binary(), pa.decimal128(9, 2), pa.uint32(), pa.float16()):
        array = pa.array([None], data_type)
        assert not has_deephaven_null(data_type)
        assert to_deephaven_nulls(array) is array
        assert from_deephaven_nulls(array) is array


def test_nothing_is_copied_without_nulls() -> None:
    array = pa.array([1, 2, 3])
    assert to_deephaven_nulls(array) is array
    assert from_deephaven_nulls(array) is array


def test_sentinels_join_the_nulls_that_are_there() -> None:
    array = pa.array([1, LEAST_64, None, 4])
    assert from_deephaven_nulls(array).to_pylist() == [1, None, None, 4]

"""Columns in other types: values against Python's, slices, nulls, and what does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.errors import MessageTooLargeError
from barrage_server.wire import variable
from barrage_server.wire.conversions import (
    NANOSECONDS,
    hex_text,
    in_a_day,
    lists,
    maps,
    scaled,
    unsized,
    whole_days,
    with_null_values,
)
from tests.wire.arrays import INT64


def cut(array: pa.Array, first: int) -> pa.Array:
    return array.slice(first, max(0, len(array) - first - 1))


@given(
    st.lists(st.none() | INT64 | st.integers(-(10**9), 10**9)), st.integers(0, 9), st.sampled_from(["s", "ms", "us"])
)
def test_times_beyond_64_bits_become_null(values: list[int | None], first: int, unit: str) -> None:
    """All others are multiplied exactly; what would be Deephaven's null is never made of a value."""
    factor = NANOSECONDS[unit]
    array = cut(pa.array(values, pa.timestamp(unit)), first)
    got = scaled(array, pa.timestamp("ns", "UTC"), factor)
    got.validate(full=True)
    limit = (1 << 63) - 1
    expected = [
        None if value is None or abs(value * factor) > limit else value * factor
        for value in array.cast(pa.int64()).to_pylist()
    ]
    assert got.type == pa.timestamp("ns", "UTC")
    assert got.cast(pa.int64()).to_pylist() == expected
    assert got.null_count == expected.count(None)


def test_the_same_unit_is_not_copied() -> None:
    """Another zone is only another label."""
    array = pa.array([1, None, 3], pa.timestamp("ns", "Europe/Paris"))
    got = scaled(array.slice(1), pa.timestamp("ns", "UTC"), 1)
    assert got.buffers()[1].address == array.buffers()[1].address
    assert got.cast(pa.int64()).to_pylist() == [None, 3]


@pytest.mark.parametrize("value", [0, 1, -1, (1 << 31) - 1, -(1 << 31)])
def test_32_bits_always_fit(value: int) -> None:
    array = pa.array(np.array([value], np.int32)).view(pa.date32())
    assert scaled(array, pa.date64(), 86_400_000).cast(pa.int64()).to_pylist() == [value * 86_400_000]
    times = pa.array(np.array([value], np.int32)).view(pa.time32("s"))
    assert scaled(times, pa.time64("ns"), 10**9).view(pa.int64()).to_pylist() == [value * 10**9]


TIMES = [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]


@pytest.mark.parametrize("data_type", TIMES, ids=str)
@given(data=st.data(), first=st.integers(0, 9))
def test_times_outside_of_the_day_become_null(data_type: pa.DataType, data: st.DataObject, first: int) -> None:
    """The day has 24 hours: its last moment is the one before midnight."""
    day = 86_400 * 10**9 // NANOSECONDS[data_type.unit]
    bits = data_type.bit_width - 1
    numbers = st.integers(0, min(day, 2**31) - 1) | st.sampled_from([0, day - 1, day, -1, 2**bits - 1, -(2**bits)])
    integers = pa.array(data.draw(st.lists(st.none() | numbers)), pa.int32() if bits == 31 else pa.int64())
    array = cut(integers.view(data_type), first)
    got = in_a_day(array)
    got.validate(full=True)
    expected = [value if value is not None and 0 <= value < day else None for value in cut(integers, first).to_pylist()]
    assert got.view(integers.type).to_pylist() == expected
    assert (got is array) == (expected == cut(integers, first).to_pylist())


@given(st.lists(st.none() | st.integers(-(10**6), 10**6).map(lambda day: day * 86_400_000) | INT64), st.integers(0, 9))
def test_dates_in_milliseconds_begin_their_days(values: list[int | None], first: int) -> None:
    array = cut(
        pa.array([value if value is None else max(value, -(1 << 62)) for value in values]).cast(pa.int64()), first
    )
    got = whole_days(array.view(pa.date64()))
    got.validate()
    expected = [None if value is None else value // 86_400_000 * 86_400_000 for value in array.to_pylist()]
    assert got.view(pa.int64()).to_pylist() == expected


def test_sound_dates_and_times_are_not_touched() -> None:
    for data_type in TIMES:
        array = pa.array([0, None, 86_399], pa.int32() if data_type.bit_width == 32 else pa.int64()).view(data_type)
        assert in_a_day(array) is array
    dates = pa.array([0, None, 86_400_000]).view(pa.date64())
    assert whole_days(dates) is dates


BINARY = st.none() | st.binary(max_size=9)


@pytest.mark.parametrize("data_type", [pa.binary(), pa.large_binary(), pa.binary(3)], ids=str)
@given(data=st.data(), first=st.integers(0, 9))
def test_hexadecimal_text(data_type: pa.DataType, data: st.DataObject, first: int) -> None:
    """Two lower-case digits a byte."""
    values = data.draw(st.lists(st.none() | st.binary(min_size=3, max_size=3) if data_type == pa.binary(3) else BINARY))
    array = cut(pa.array(values, data_type), first)
    got = hex_text(array)
    got.validate(full=True)
    assert got.to_pylist() == [None if value is None else value.hex() for value in array.to_pylist()]


@pytest.mark.parametrize(
    ("data_type", "target"),
    [(pa.large_string(), pa.string()), (pa.large_binary(), pa.binary()), (pa.binary(2), pa.binary())],
    ids=str,
)
@given(data=st.data(), first=st.integers(0, 9))
def test_large_values_move_into_small_types(
    data_type: pa.DataType, target: pa.DataType, data: st.DataObject, first: int
) -> None:
    values: Any = st.text(max_size=5) if target == pa.string() else st.binary(min_size=2, max_size=2)
    array = cut(pa.array(data.draw(st.lists(st.none() | values)), data_type), first)
    got = unsized(array, target)
    got.validate(full=True)
    assert (got.type, got.to_pylist()) == (target, array.to_pylist())


def test_more_than_a_small_type_can_hold_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what helps. (The limit is 2 GiB; here it is lowered.)"""
    monkeypatch.setattr(variable, "_MOST", 9)
    array = pa.array(["12345", "6789"], pa.large_string())
    assert unsized(array, pa.string()).to_pylist() == ["12345", "6789"]
    with pytest.raises(MessageTooLargeError, match=r"10 bytes.*batch_size"):
        hex_text(pa.array([b"12345"]))


LISTS = st.lists(st.none() | st.lists(st.none() | st.integers(0, 255), min_size=2, max_size=2))


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list, lambda element: pa.list_(element, 2)])
@given(values=LISTS, first=st.integers(0, 9))
def test_lists_of_all_kinds_become_plain_ones(kind: Any, values: list[Any], first: int) -> None:
    """With their elements converted, or as they are."""
    array = cut(pa.array(values, kind(pa.uint8())), first)
    wide = lists(array, pa.list_(pa.int16()), lambda elements: elements.cast(pa.int16()))
    same = lists(array, pa.list_(pa.uint8()), None)
    for got, element in ((wide, pa.int16()), (same, pa.uint8())):
        got.validate(full=True)
        assert (got.type, got.to_pylist()) == (pa.list_(element), array.to_pylist())
        lengths = got.offsets.to_numpy()[1:] - got.offsets.to_numpy()[:-1]
        assert lengths.tolist() == [len(value or ()) for value in array.to_pylist()]


@given(st.lists(st.none() | st.lists(st.tuples(st.text(max_size=2), st.none() | INT64), max_size=3)), st.integers(0, 9))
def test_maps_show_null_items_to_readers_of_values_and_of_bits(values: list[Any], first: int) -> None:
    """The item is null by its bit, and Deephaven's null value by its bytes."""
    array = cut(pa.array(values, pa.map_(pa.large_string(), pa.int64())), first)
    got = maps(array, pa.map_(pa.string(), pa.int64()), lambda keys: keys.cast(pa.string()), with_null_values)
    got.validate(full=True)
    assert got.to_pylist() == array.to_pylist()
    items = got.items
    numbers = items.to_pylist()
    plain = np.frombuffer(items.buffers()[1], np.int64)[items.offset :][: len(items)].tolist() if numbers else []
    assert plain == [-(1 << 63) if number is None else number for number in numbers]


def test_arrays_without_buffers() -> None:
    """Arrow allows an empty array to have no offsets at all."""
    empty = pa.Array.from_buffers(pa.large_string(), 0, [None, None, pa.py_buffer(b"")])
    assert unsized(empty, pa.string()).to_pylist() == []
    empty = pa.Array.from_buffers(pa.large_list(pa.int8()), 0, [None, None], children=[pa.array([], pa.int8())])
    assert lists(empty, pa.list_(pa.int8()), None).to_pylist() == []

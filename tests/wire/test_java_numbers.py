"""java.math.BigDecimal and BigInteger in binary columns (deephaven-clients 10), against Python's own numbers."""

from __future__ import annotations

import struct
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.wire.java_numbers import big_decimal_text, big_decimals, big_integer_text, big_integers

WIDTHS = [(pa.decimal32, 9), (pa.decimal64, 18), (pa.decimal128, 38), (pa.decimal256, 76)]


def read_big_decimal(data: bytes) -> Decimal:
    """As Java reads it."""
    (scale,) = struct.unpack_from("<i", data)
    return java_decimal(int.from_bytes(data[4:], "big", signed=True), scale)


def write_big_decimal(number: int, scale: int) -> bytes:
    """As Java writes it: the shortest two's complement."""
    return struct.pack("<i", scale) + write_big_integer(number)


def unscaled(value: Decimal) -> int:
    sign, digits, _ = value.as_tuple()
    return int(Decimal((sign, digits, 0)))


def write_big_integer(number: int) -> bytes:
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


def java_decimal(number: int, scale: int) -> Decimal:
    """A BigDecimal; its text is the same as Python's."""
    sign, digits, _ = Decimal(number).as_tuple()
    return Decimal((sign, digits, -scale))


@st.composite
def decimals(draw: st.DrawFn) -> tuple[pa.Array, list[Decimal | None]]:
    """A slice of a decimal array, and its values with all their digits."""
    kind, digits = draw(st.sampled_from(WIDTHS))
    data_type = kind(digits, draw(st.integers(-3, digits)))
    most = 10 ** draw(st.integers(1, digits)) - 1
    numbers = draw(st.lists(st.none() | st.integers(-most, most) | st.sampled_from([0, most, -most]), max_size=20))
    width = data_type.bit_width // 8
    data = b"".join((number or 0).to_bytes(width, "little", signed=True) for number in numbers)
    valid = np.packbits(np.array([number is not None for number in numbers], np.bool_), bitorder="little")
    array = pa.Array.from_buffers(data_type, len(numbers), [pa.py_buffer(valid), pa.py_buffer(data)])
    values = [None if number is None else java_decimal(number, data_type.scale) for number in numbers]
    first = draw(st.integers(0, len(values)))
    count = draw(st.integers(0, len(values) - first))
    return array.slice(first, count), values[first : first + count]


@given(decimals())
def test_decimals_are_written_as_java_reads_them(case: tuple[pa.Array, list[Decimal | None]]) -> None:
    """Every digit and the scale, in every width; nulls are null."""
    array, values = case
    written = big_decimals(array)
    written.validate(full=True)
    assert written.type == pa.binary()
    got = [None if data is None else read_big_decimal(data).as_tuple() for data in written.to_pylist()]
    assert got == [None if value is None else value.as_tuple() for value in values]


@given(decimals())
def test_decimals_have_the_bytes_that_java_writes(case: tuple[pa.Array, list[Decimal | None]]) -> None:
    """The shortest two's complement, so that equal numbers are equal bytes in every batch; nothing under a null."""
    array, values = case
    written = big_decimals(array)
    expected = [None if value is None else write_big_decimal(unscaled(value), array.type.scale) for value in values]
    assert written.to_pylist() == expected
    assert written.buffers()[2].size == sum(len(data) for data in expected if data is not None)


@given(st.lists(st.none() | st.integers(0, (1 << 64) - 1)), st.integers(0, 3))
def test_unsigned_longs_are_written_as_java_reads_them(values: list[int | None], first: int) -> None:
    """None of them is negative."""
    written = big_integers(pa.array(values, pa.uint64()).slice(first))
    written.validate(full=True)
    assert written.to_pylist() == [None if value is None else write_big_integer(value) for value in values][first:]


@pytest.mark.parametrize("value", [0, 127, 128, 255, 1 << 31, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_the_sign_of_unsigned_longs_has_room(value: int) -> None:
    (data,) = big_integers(pa.array([value], pa.uint64())).to_pylist()
    assert int.from_bytes(data, "big", signed=True) == value


NUMBERS = st.integers(-(1 << 80), 1 << 80) | st.integers(-(1 << 300), 1 << 300)
SCALES = st.integers(-10, 90) | st.sampled_from([0, 2, (1 << 31) - 1, -(1 << 31)])


@given(st.lists(st.none() | st.tuples(NUMBERS, SCALES)), st.integers(0, 2))
def test_big_decimals_of_any_scale_and_size_become_text(values: list[tuple[int, int] | None], first: int) -> None:
    """Each value of such a column has a scale of its own; long ones are not cut."""
    column = pa.array([None if value is None else write_big_decimal(*value) for value in values], pa.binary())
    text = big_decimal_text(column.slice(first))
    assert text.type == pa.string()
    assert text.to_pylist() == [None if value is None else str(java_decimal(*value)) for value in values][first:]


@given(st.lists(st.none() | NUMBERS), st.integers(0, 2))
def test_big_integers_become_text(values: list[int | None], first: int) -> None:
    column = pa.array([None if value is None else write_big_integer(value) for value in values], pa.large_binary())
    text = big_integer_text(column.slice(first))
    assert text.to_pylist() == [None if value is None else str(value) for value in values][first:]


@pytest.mark.parametrize(
    "number", [(1 << 255) - 1, -(1 << 255), 1 << 255, -(1 << 255) - 1, 10**5000], ids=["32", "-32", "33", "-33", "many"]
)
def test_the_widest_numbers(number: int) -> None:
    """32 bytes and one more; and more digits than Python turns into text without being told to."""
    (text,) = big_integer_text(pa.array([write_big_integer(number)])).to_pylist()
    assert Decimal(text) == number


def test_what_is_no_number_becomes_null() -> None:
    """A value too short for a scale and one byte."""
    assert big_decimal_text(pa.array([b"", b"\0\0\0\0", b"\0\0\0\0\7"])).to_pylist() == [None, None, "7"]
    assert big_integer_text(pa.array([b"", b"\xff"])).to_pylist() == [None, "-1"]


def test_columns_without_rows() -> None:
    empty = pa.array([], pa.binary())
    assert big_decimals(pa.array([], pa.decimal128(5, 2))) == empty
    assert big_integers(pa.array([], pa.uint64())) == empty
    assert big_decimal_text(empty) == big_integer_text(empty) == pa.array([], pa.string())
    assert big_decimals(pa.nulls(3, pa.decimal256(5, 2))).null_count == 3

"""What arrives is refused unless every part of it can be read; nothing that is refused is used before."""

from __future__ import annotations

import multiprocessing
import random
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from barrage_server.engine.types import check_type
from barrage_server.errors import BarrageError, UnsupportedTypeError, WireFormatError
from barrage_server.wire.intake import Intake
from barrage_server.wire.soundness import check_schema, check_sound
from tests.wire.layouts import LayoutMaker


def numbers(values: list[int], dtype: Any = np.int32) -> pa.Buffer:
    return pa.py_buffer(np.array(values, dtype))


def texts(offsets: list[int], data: bytes = b"abcdef", nulls: bytes | None = None) -> pa.Array:
    validity = None if nulls is None else pa.py_buffer(nulls)
    count = len(offsets) - 1
    return pa.Array.from_buffers(pa.string(), count, [validity, numbers(offsets), pa.py_buffer(data)], -1)


def lists(data_type: pa.DataType, count: int, parts: list[pa.Buffer], items: pa.Array) -> pa.Array:
    return pa.Array.from_buffers(data_type, count, [None, *parts], 0, children=[items])


def union(codes: list[int], offsets: list[int]) -> pa.Array:
    data_type = pa.dense_union([pa.field("a", pa.int64()), pa.field("b", pa.string())])
    children = [pa.array([1, 2]), pa.array(["x"])]
    buffers = [None, numbers(codes, np.int8), numbers(offsets)]
    return pa.Array.from_buffers(data_type, len(codes), buffers, children=children)


ITEMS = pa.array([1, 2, 3])
BAD_TEXTS = texts([0, 1_000_000, 6])

# What Arrow itself refuses to make of buffers is not among them; damaged messages, below, have it.
DAMAGED: dict[str, Callable[[], pa.Array]] = {
    "texts that run backwards": lambda: texts([0, 5, 2, 6]),
    "texts that lead far away and come back": lambda: texts([0, 1 << 30, 1 << 30, 2]),
    "texts that are not UTF-8": lambda: texts([0, 2, 3], b"ab\xff"),
    "texts that are cut within a character": lambda: texts([0, 1, 2], "é".encode()),
    "another number of nulls": lambda: pa.Array.from_buffers(
        pa.int32(), 4, [pa.py_buffer(b"\x0f"), pa.py_buffer(bytes(16))], 3
    ),
    "lists that overrun": lambda: lists(pa.list_(pa.int64()), 2, [numbers([0, 9, 3])], ITEMS),
    "list views that overrun": lambda: lists(pa.list_view(pa.int64()), 1, [numbers([2]), numbers([2])], ITEMS),
    "list views whose end wraps around": lambda: lists(
        pa.large_list_view(pa.int64()), 1, [numbers([1 << 62], np.int64), numbers([3], np.int64)], ITEMS
    ),
    "list views below zero": lambda: lists(pa.list_view(pa.int64()), 1, [numbers([-1]), numbers([1])], ITEMS),
    "list views of negative size": lambda: lists(pa.list_view(pa.int64()), 1, [numbers([1]), numbers([-1])], ITEMS),
    "indices beyond their dictionary": lambda: pa.DictionaryArray.from_arrays(
        pa.array([0, 3], pa.int8()), pa.array(["a", "b"]), safe=False
    ),
    "indices below zero": lambda: pa.DictionaryArray.from_arrays(
        pa.array([0, -1], pa.int8()), pa.array(["a", "b"]), safe=False
    ),
    "a damaged dictionary": lambda: pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), BAD_TEXTS, safe=False),
    "run ends that fall": lambda: pa.Array.from_buffers(
        pa.run_end_encoded(pa.int32(), pa.int64()), 4, [None], children=[pa.array([3, 2, 4], pa.int32()), ITEMS]
    ),
    "views into buffers that are not there": lambda: pa.Array.from_buffers(
        pa.string_view(), 1, [None, numbers([20, 0, 7, 0])]
    ),
    "a view of negative size under a null": lambda: pa.Array.from_buffers(
        pa.string_view(), 2, [pa.py_buffer(b"\1"), numbers([1, 97, 0, 0, -5, 0, 0, 0])], 1
    ),
    "views beyond their buffer": lambda: pa.Array.from_buffers(
        pa.binary_view(), 1, [None, numbers([20, 0, 0, 1 << 20]), pa.py_buffer(bytes(32))]
    ),
    "type codes that there are not": lambda: union([0, 5], [0, 0]),
    "members beyond their number": lambda: union([0, 1], [0, 1]),
    "members below zero": lambda: union([0, 1], [-1, 0]),
}

INSIDE: dict[str, Callable[[pa.Array], pa.Array]] = {
    "itself": lambda array: array,
    "a list": lambda array: lists(pa.list_(array.type), 1, [numbers([0, len(array)])], array),
    "a list view": lambda array: lists(pa.list_view(array.type), 1, [numbers([0]), numbers([1])], array),
    "a struct": lambda array: pa.Array.from_buffers(
        pa.struct([("a", array.type)]), len(array), [None], children=[array]
    ),
    "a dictionary": lambda array: pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), array, safe=False),
    "runs": lambda array: pa.Array.from_buffers(
        pa.run_end_encoded(pa.int32(), array.type), 1, [None], children=[pa.array([1], pa.int32()), array]
    ),
    "a fixed-size list": lambda array: pa.Array.from_buffers(
        pa.list_(array.type, len(array)), 1, [None], children=[array]
    ),
}


@pytest.mark.parametrize("place", INSIDE)
@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_found_at_any_depth(name: str, place: str) -> None:
    with pytest.raises(WireFormatError):
        check_sound(INSIDE[place](DAMAGED[name]()))


def test_values_that_mean_nothing_do_no_harm() -> None:
    """Deephaven's null of a date is no date; garbage under a null is ignored."""
    check_sound(pa.array([-(1 << 63)]).view(pa.date64()))
    check_sound(texts([0, 1, 3], b"a\xff\xff", b"\1"))
    check_sound(pa.array([1 << 40]).view(pa.time64("us")))


def test_arrays_without_elements_need_no_offsets() -> None:
    empty = pa.Array.from_buffers(pa.list_(pa.string()), 0, [None, pa.py_buffer(b"")], children=[pa.array([], "str")])
    check_sound(empty)
    check_sound(lists(pa.list_(empty.type), 1, [numbers([0, 0])], empty))


@pytest.mark.parametrize("first_seed", range(0, 400, 100))
def test_whatever_is_valid_passes(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 100):
        array, _ = LayoutMaker(seed, unions=True).make(7)
        array.validate(full=True)
        check_sound(array)


class TestSchemas:
    """They are hostile, too."""

    def test_nested_without_end(self) -> None:
        data_type = pa.int64()
        for _ in range(100):
            data_type = pa.list_(data_type)
        with pytest.raises(UnsupportedTypeError, match="deeper"):
            check_schema(pa.schema([("a", data_type)]))

    def test_names_that_are_no_text(self) -> None:
        schema = pa.schema([("naam", pa.struct([("veld", pa.int64())]))])
        for name in (b"naam", b"veld"):
            data = schema.serialize().to_pybytes().replace(name, b"\xff\xfe\xfd\xfc")
            with pytest.raises(WireFormatError, match="UTF-8"):
                check_schema(pa.ipc.read_schema(pa.BufferReader(data)))

    def test_time_zones_that_are_no_text(self) -> None:
        data = pa.schema([("a", pa.timestamp("s", "Mars/Base"))]).serialize().to_pybytes()
        with pytest.raises(WireFormatError, match="UTF-8"):
            check_schema(pa.ipc.read_schema(pa.BufferReader(data.replace(b"Mars", b"\xff\xfe\xfd\xfc"))))


@pytest.mark.parametrize("mode", ["dense", "sparse"])
def test_unions_that_cannot_be_made_are_refused_with_their_schema(mode: str) -> None:
    """Of one without members pyarrow makes an empty array that ends the process; of equal codes the last one wins."""
    fields = [pa.field("a", pa.int8()), pa.field("b", pa.string())]
    for union in (pa.union([], mode), pa.union(fields, mode, [5, 5])):
        for data_type in (
            union,
            pa.list_(union),
            pa.struct([("x", union)]),
            pa.map_(pa.int8(), union),
            pa.dictionary(pa.int8(), union),
            pa.run_end_encoded(pa.int16(), union),
        ):
            with pytest.raises(UnsupportedTypeError, match="Unions with"):
                check_schema(pa.schema([("x", data_type)]))
            with pytest.raises(UnsupportedTypeError, match="Unions with"):
                check_type(data_type)


@pytest.mark.parametrize("unit", [0, 1])
def test_intervals_that_pyarrow_has_no_arrays_of_are_refused(unit: int) -> None:
    """Reading such a column raises a KeyError in pyarrow."""
    data = pa.schema([("x", pa.month_day_nano_interval())]).serialize().to_pybytes()
    units = [at for at in range(len(data) - 1) if data[at : at + 2] == struct.pack("<h", 2)]
    refused = 0
    for at in units:
        schema = _read(data[:at] + struct.pack("<h", unit) + data[at + 2 :])
        if schema is None or schema.field(0).type == pa.month_day_nano_interval():
            continue
        check_schema(schema)  # a table may have such a column, as long as it is left out
        Intake(schema, left_out={0})
        for type_ in (schema.field(0).type, pa.list_(schema.field(0).type), pa.struct([schema.field(0)])):
            with pytest.raises(UnsupportedTypeError, match="cannot be read"):
                Intake(pa.schema([("x", type_)]))
            with pytest.raises(UnsupportedTypeError):
                check_type(type_)
        refused += 1
    assert refused


def _read(data: bytes) -> pa.Schema | None:
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(data))
    except (pa.ArrowException, OSError):
        return None
    return schema if len(schema) == 1 and "interval" in str(schema.field(0).type) else None


def _take_damaged(first_seed: int, count: int, limit: int) -> None:
    """In a process of its own, since what this proves is that it does not die."""
    for seed in range(first_seed, first_seed + count):
        chance = random.Random(seed)
        array, _ = LayoutMaker(seed).make(9)
        batch = pa.record_batch([array], names=["a"])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        data = bytearray(sink.getvalue().to_pybytes())
        schema_end = 8 + int.from_bytes(data[4:8], "little")
        for _ in range(chance.choice([1, 2, 5])):
            data[chance.randrange(schema_end, len(data))] ^= 1 << chance.randrange(8)
        try:
            damaged = pa.ipc.open_stream(pa.py_buffer(bytes(data))).read_next_batch()
        except (pa.ArrowException, OSError, ValueError, StopIteration, MemoryError):
            continue
        try:
            plain = Intake(damaged.schema, limit, "too much").take(damaged)
        except BarrageError:
            continue
        column = plain.column(0)
        column.validate(full=pa.types.is_integer(column.type))
        column.to_pylist()
        assert column.nbytes <= limit
        column.take(pa.array(np.arange(len(column))[::-1].copy())).to_pylist()


@pytest.mark.parametrize("first_seed", [0, 10_000, 20_000])
def test_flipped_bits_are_refused_or_do_no_harm(first_seed: int) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_take_damaged, args=(first_seed, 800, 1 << 20))
    process.start()
    process.join(300)
    if process.is_alive():
        process.kill()
    assert process.exitcode == 0

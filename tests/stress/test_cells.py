"""The measure of the stress suite: cells see every bit of a value, and nothing of how it is encoded."""

from __future__ import annotations

import random
import struct

import numpy as np
import pyarrow as pa
import pytest

from barrage_server.engine.types import plain_type
from tests.stress.cells import cells, rows
from tests.stress.values import encoded_type, random_array, random_type


@pytest.mark.parametrize("seed", range(150))
def test_generated_arrays_are_valid_and_survive_ipc(seed: int) -> None:
    """Whatever is generated is sound Arrow; another reader of its stream sees the same cells."""
    chance = random.Random(seed)
    plain = random_type(chance)
    kind = encoded_type(chance, plain)
    assert plain_type(kind) == plain
    array = random_array(chance, kind, chance.randrange(20))
    array.validate(full=True)
    batch = pa.record_batch([array], ["x"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    assert rows(pa.ipc.open_stream(sink.getvalue()).read_all()) == rows(batch)


@pytest.mark.parametrize("seed", range(20))
def test_a_slice_has_the_cells_of_its_place(seed: int) -> None:
    chance = random.Random(seed)
    array = random_array(chance, encoded_type(chance, random_type(chance)), 15)
    whole = cells(array)
    for first in range(len(array)):
        assert cells(array.slice(first, 4)) == whole[first : first + 4]


def test_encodings_do_not_show() -> None:
    texts = pa.array(["a", None, "b", "b"])
    ends = pa.array([1, 2, 4], pa.int32())
    others = [
        texts.dictionary_encode(),
        pa.RunEndEncodedArray.from_arrays(ends, pa.array(["a", None, "b"])),
        texts.cast(pa.string_view()),
        pa.chunked_array([texts[:1], texts[1:]]),
        pa.DictionaryArray.from_arrays(pa.array([1, 2, 0, 0], pa.int8()), pa.array(["b", "a", None])),
    ]
    for other in others:
        assert cells(other) == [b"a", None, b"b", b"b"]
    lists = pa.array([[1, 2], None, [], [None]], pa.list_(pa.int8()))
    views = pa.ListViewArray.from_arrays(
        pa.array([1, 0, 0, 0], pa.int32()), pa.array([2, 1, 0, 1], pa.int32()), pa.array([None, 1, 2], pa.int8()),
        mask=pa.array([False, True, False, False]),
    )  # fmt: skip
    assert cells(lists) == cells(views) == [(b"\1", b"\2"), None, (), (None,)]


def test_every_bit_of_a_number_shows() -> None:
    numbers = np.array([0.0, -0.0, np.nan], np.float64)
    other = struct.pack("<Q", 0x7FF8_0000_0000_0001)  # another NaN
    array = pa.array(np.append(numbers, np.frombuffer(other, np.float64)))
    assert len(set(cells(array))) == 4


def test_what_lies_beneath_a_null_does_not_show() -> None:
    data = pa.py_buffer(struct.pack("<ii", 7, 9))
    for bits, expected in ((b"\1", [b"\7\0\0\0", None]), (b"\0", [None, None])):
        assert cells(pa.Array.from_buffers(pa.int32(), 2, [pa.py_buffer(bits), data])) == expected

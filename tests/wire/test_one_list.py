"""The short way into a stream gives what the general one gives, and takes nothing that the general one refuses."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.errors import BarrageError
from barrage_server.wire.intake import Intake
from barrage_server.wire.reader import _unwrap
from barrage_server.wire.schema import list_schema
from tests.wire.arrays import SCALARS


def _batch(arrays: list[pa.Array]) -> pa.RecordBatch:
    """Each array as the only list of its column."""
    schema = list_schema(pa.schema([(f"c{number}", array.type) for number, array in enumerate(arrays)]))
    lists = [
        pa.ListArray.from_arrays(pa.array([0, len(array)], pa.int32()), array, type=field.type)
        for array, field in zip(arrays, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(lists, schema=schema)


def _both(batch: pa.RecordBatch) -> tuple[list[pa.Array] | None, list[pa.Array] | None]:
    """What the short way gives, and what the general one does; None where it does not take, or refuses, the batch."""
    short, general = Intake(batch.schema), Intake(batch.schema)
    found, expected = short.take_values(batch), None
    try:
        expected = [_unwrap(column) for column in general.take_columns(batch)]
    except BarrageError:
        assert found is None
    if found is not None:
        assert short.nbytes == general.nbytes
    return found, expected


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    arrays = []
    for _ in range(draw(st.integers(1, 3))):
        data_type, values = draw(st.sampled_from(SCALARS))
        array = pa.array(draw(st.lists(values | st.none() if draw(st.booleans()) else values, max_size=6)), data_type)
        arrays.append(array.slice(draw(st.integers(0, 1))) if len(array) else array)
    return _batch(arrays)


@given(batches())
def test_any_values(batch: pa.RecordBatch) -> None:
    found, expected = _both(batch)
    if found is not None:
        assert expected is not None and all(map(pa.Array.equals, found, expected))


def test_plain_numbers_and_texts_take_the_short_way() -> None:
    arrays = [pa.array([1, 2, 3]), pa.array(["a", "", "ccc"]), pa.array([b"\xff", b"", b"x"]), pa.array([True] * 3)]
    found, _ = _both(_batch(arrays))
    assert found is not None and all(map(pa.Array.equals, found, arrays))


@pytest.mark.parametrize(
    "array", [pa.array([1, None]), pa.array(["ä"]), pa.array([], pa.int64()), pa.array([["x"]]), pa.array([1, 2])[1:]]
)
def test_other_values_take_the_general_way(array: pa.Array) -> None:
    found, expected = _both(_batch([array]))
    assert found is None and expected is not None and expected[0].equals(array)


def test_a_batch_of_another_schema_takes_the_general_way() -> None:
    intake = Intake(_batch([pa.array([1])]).schema)
    assert intake.take_values(_batch([pa.array([1.5])])) is None
    assert intake.take_values(_batch([pa.array([1]), pa.array([1])])) is None


@given(batches(), st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), min_size=1, max_size=3))
def test_damaged_batches(batch: pa.RecordBatch, changes: list[tuple[int, int]]) -> None:
    data = bytearray(batch.serialize().to_pybytes())
    for place, byte in changes:
        data[place % len(data)] = byte
    try:
        damaged = pa.ipc.read_record_batch(pa.py_buffer(bytes(data)), batch.schema)
    except (pa.ArrowException, OSError):
        return  # Flight does not hand it over
    found, expected = _both(damaged)
    if found is not None:
        assert expected is not None and all(map(pa.Array.equals, found, expected))


@pytest.mark.parametrize("offsets", [(0, 2, 1, 3), (0, 1, 2, 2), (0, 9, 2, 3), (1, 2, 3, 3)])
@pytest.mark.parametrize("text", [b"abc", b"a\xffc"])
@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_offsets_that_overlap_and_texts_that_are_none(offsets: tuple[int, ...], text: bytes, kind: pa.DataType) -> None:
    values = pa.Array.from_buffers(kind, 3, [None, pa.py_buffer(struct.pack("<4i", *offsets)), pa.py_buffer(text)])
    found, expected = _both(_batch([values]))
    is_sound = list(offsets) == sorted(offsets) and (kind == pa.binary() or b"\xff" not in text[slice(*offsets[::3])])
    assert (found is not None) == (expected is not None) == is_sound

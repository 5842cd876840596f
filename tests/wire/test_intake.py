"""The way in: checked, counted by what values are once they are written out, and made plain."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from barrage_server.errors import LimitError, UnsupportedTypeError, WireFormatError
from barrage_server.wire.intake import MOST_BATCH_BYTES, Intake

RUNS = pa.RunEndEncodedArray.from_arrays(pa.array([1000], pa.int32()), pa.array([7], pa.int64()))
BOMB = pa.RunEndEncodedArray.from_arrays(pa.array([1 << 30], pa.int32()), pa.array([7], pa.int64()))


def batch_of(array: pa.Array) -> pa.RecordBatch:
    return pa.record_batch([array], names=["x"])


def intake_of(array: pa.Array, limit: int | None = None) -> Intake:
    return Intake(batch_of(array).schema, limit, "Too much.")


def test_batches_come_out_plain() -> None:
    intake = intake_of(RUNS)
    plain = intake.take(batch_of(RUNS))
    assert plain.schema == intake.schema == pa.schema([("x", pa.int64())])
    assert plain.column(0).to_pylist() == [7] * 1000


def test_all_batches_count_together_until_reset() -> None:
    intake = intake_of(RUNS, 20_000)
    for _ in range(2):
        intake.take(batch_of(RUNS))
    assert intake.nbytes == 16_000
    with pytest.raises(LimitError, match="Too much"):
        intake.take(batch_of(RUNS))
    intake.reset()
    assert intake.take(batch_of(RUNS)).num_rows == 1000


@pytest.mark.parametrize("limit", [None, 1 << 40])
def test_a_batch_is_never_more_than_one_message_could_carry(limit: int | None) -> None:
    """Whatever else is allowed; nothing is written out before that is known."""
    with pytest.raises(LimitError, match=f"{MOST_BATCH_BYTES:,}"):
        intake_of(BOMB, limit).take(batch_of(BOMB))


def test_a_small_view_of_a_large_message_counts_as_the_message() -> None:
    body = pa.py_buffer(bytes(1 << 20))
    array = pa.Array.from_buffers(pa.int64(), 1, [None, body.slice(0, 8)])
    intake = intake_of(array, 3 << 20)
    for _ in range(3):
        intake.take(batch_of(array))
    with pytest.raises(LimitError):
        intake.take(batch_of(array))


def test_columns_that_are_left_out_are_not_looked_at() -> None:
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [BOMB.slice(0, 1)])
    damaged = pa.DictionaryArray.from_arrays(pa.array([9], pa.int8()), pa.array(["a"]), safe=False)
    batch = pa.record_batch([union, damaged, pa.array([1])], names=["a", "b", "c"])
    plain = Intake(batch.schema, left_out=[0, 1]).take(batch)
    assert plain.column(2).to_pylist() == [1]
    assert plain.schema == batch.schema


def test_damage_is_refused() -> None:
    damaged = pa.DictionaryArray.from_arrays(pa.array([9], pa.int8()), pa.array(["a"]), safe=False)
    with pytest.raises(WireFormatError):
        intake_of(damaged).take(batch_of(damaged))


def test_what_tables_cannot_hold_is_refused_with_the_schema() -> None:
    deep = pa.int64()
    for _ in range(80):
        deep = pa.list_(deep)
    with pytest.raises(UnsupportedTypeError):
        Intake(pa.schema([("x", deep)]))


def test_a_dictionary_of_one_large_text_counts_each_time() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1000, np.int8)), pa.array(["x" * 10_000]))
    with pytest.raises(LimitError):
        intake_of(array, 1 << 20).take(batch_of(array))

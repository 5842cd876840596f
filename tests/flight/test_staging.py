"""Rows go out in chunks of bounded size, whatever they are made of."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.flight import staging
from barrage_server.flight.staging import chunks

LIMIT = 1000


def cut(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staging, "_CHUNK_BYTES", LIMIT)
        return list(chunks(batches))


@given(st.lists(st.lists(st.text(max_size=400), max_size=30), max_size=4))
def test_chunks_hold_all_rows_in_order_and_as_many_as_fit(texts: list[list[str]]) -> None:
    """A row is never cut: a chunk has as many rows as would fit if all rows of its batch were of one size."""
    batches = [pa.record_batch({"x": pa.array(part, pa.string())}) for part in texts]
    assert [text for chunk in cut(batches) for text in chunk["x"].to_pylist()] == [
        text for part in texts for text in part
    ]
    for batch in batches:
        sizes = [chunk.num_rows for chunk in cut([batch])]
        fit = batch.num_rows if batch.nbytes <= LIMIT else max(1, batch.num_rows * LIMIT // batch.nbytes)
        assert 0 not in sizes
        assert all(size == fit for size in sizes[:-1])
        assert not sizes or sizes[-1] <= fit


def test_a_small_part_of_a_large_batch_is_one_chunk() -> None:
    """What counts is what is sent, and not the memory that it is a view of."""
    large = pa.record_batch({"x": pa.array(range(4_000_000))})
    assert [chunk.num_rows for chunk in chunks([large.slice(10, 100_000)])] == [100_000]
    assert len(list(chunks([large]))) == 4


WITHOUT_OFFSETS = """
import pyarrow as pa
from barrage_server.flight.staging import chunks

inner = pa.map_(pa.int32(), pa.string())
struct = pa.struct([inner.key_field, inner.item_field])
entries = pa.Array.from_buffers(inner, 0, [None, None], children=[pa.array([], struct)])
lists = pa.Array.from_buffers(pa.list_(inner), 1, [None, pa.py_buffer(bytes(8))], children=[entries])
assert [batch.num_rows for batch in chunks([pa.RecordBatch.from_arrays([lists], ["x"])])] == [1]
"""


def test_lists_without_elements_need_no_offsets() -> None:
    """Legal Arrow, of which Arrow's own sizes read what is not there: tried in a process of its own."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_OFFSETS], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")

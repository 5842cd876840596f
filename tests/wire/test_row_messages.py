"""The rows of a batch as messages of their own."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.wire.row_messages import row_messages

COLUMNS = {
    "n": (pa.int64(), st.integers(-5, 5)),
    "x": (pa.float64(), st.floats(allow_nan=False)),
    "text": (pa.string(), st.text(max_size=9)),
    "flag": (pa.bool_(), st.booleans()),
    "at": (pa.timestamp("ns", "UTC"), st.integers(0, 9)),
    "many": (pa.list_(pa.string()), st.lists(st.text(max_size=3), max_size=3)),
    "nothing": (pa.null(), st.none()),
}


@given(st.data(), st.integers(1, 40))
def test_each_row_is_what_arrow_serializes_of_it_alone(data: st.DataObject, rows: int) -> None:
    """For columns of lists of any lengths, as those of viewports are, and for a part of a batch."""
    arrays = [
        pa.array(
            data.draw(st.lists(st.lists(st.none() | values, max_size=4), min_size=rows, max_size=rows)), pa.list_(of)
        )
        for of, values in COLUMNS.values()
    ]
    batch = pa.record_batch(arrays, list(COLUMNS))
    batch = batch.slice(data.draw(st.integers(0, rows)))
    expected = [batch.slice(row, 1).serialize().to_pybytes() for row in range(batch.num_rows)]
    assert row_messages(batch) == expected


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_a_batch_without_columns_has_rows_too(rows: int) -> None:
    batch = pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    assert row_messages(batch) == [batch.slice(row, 1).serialize().to_pybytes() for row in range(rows)]

"""Picking and merging of values by row keys."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.client.cells import contiguous, merged, picked
from barrage_server.rowset import RowSet

key_sets = st.sets(st.integers(0, 60), max_size=20)


def _values(keys: set[int]) -> pa.Array:
    return pa.array([f"row {key}" for key in sorted(keys)], pa.string())


@given(key_sets, st.data())
def test_picked_values_belong_to_the_rows_wanted(keys: set[int], data: st.DataObject) -> None:
    wanted = data.draw(st.sets(st.sampled_from(sorted(keys)))) if keys else set()
    found = picked(_values(keys), RowSet.from_keys(sorted(keys)), RowSet.from_keys(sorted(wanted)))
    assert found.to_pylist() == _values(wanted).to_pylist()


@given(key_sets, key_sets)
def test_merged_values_are_in_key_order(first: set[int], second: set[int]) -> None:
    second = second - first
    rows = [RowSet.from_keys(sorted(keys)) for keys in (first, second)]
    found = merged(rows[0], _values(first), rows[1], _values(second))
    assert found.to_pylist() == _values(first | second).to_pylist()


def test_picking_everything_copies_nothing() -> None:
    values = pa.array([1, 2, 3])
    assert picked(values, RowSet.flat(3), RowSet.flat(3)) is values


@pytest.mark.parametrize("chunks", [[[1, 2], [3]], [[1, 2, 3]], []])
def test_chunks_become_one(chunks: list[list[int]]) -> None:
    found = contiguous(pa.chunked_array(chunks, pa.int64()))
    assert isinstance(found, pa.Array)
    assert found.to_pylist() == [value for chunk in chunks for value in chunk]

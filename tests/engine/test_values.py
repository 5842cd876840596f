"""Arrays as cells and back, and the comparison of arrays."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.engine.types import StorageKind, storage_kind
from barrage_server.engine.values import canonical_cells, differs, from_cells, to_cells
from tests.engine.samples import SAMPLES, pick, shown

CELLS = [name for name, array in SAMPLES.items() if storage_kind(array.type) in (StorageKind.BOOL, StorageKind.FIXED)]
FLOATS = ["half", "float", "double"]

positions = st.lists(st.integers(0, 6), max_size=20)


@given(st.sampled_from(CELLS), positions, st.integers(0, 17))
def test_cells_make_the_same_array_again(name: str, chosen: list[int], padding: int) -> None:
    array = pick(SAMPLES[name], chosen, padding=padding)
    data, valid = to_cells(array)
    assert len(data) == len(array)
    assert (valid is None) == (array.null_count == 0)
    again = from_cells(array.type, np.ascontiguousarray(data), valid)
    again.validate(full=True)
    assert again.type == array.type
    assert shown(again) == shown(array)


def test_validity_without_nulls_is_left_out() -> None:
    array = from_cells(pa.int64(), np.arange(3), np.ones(3, np.bool_))
    assert array.buffers()[0] is None


@given(
    st.sampled_from(list(SAMPLES)), st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=20), st.data()
)
def test_arrays_differ_where_their_values_do(name: str, pairs: list[tuple[int, int]], data: st.DataObject) -> None:
    padding = data.draw(st.tuples(st.integers(0, 9), st.integers(0, 9)))
    first = pick(SAMPLES[name], [pair[0] for pair in pairs], padding=padding[0])
    second = pick(SAMPLES[name], [pair[1] for pair in pairs], padding=padding[1])
    texts = shown(first)
    expected = [ours != theirs for ours, theirs in zip(texts, shown(second), strict=True)]
    found = differs(first, second).tolist()
    if "union" in name:  # the nulls of two members differ, and are shown alike
        expected = [each or (one and "None" in text) for each, one, text in zip(expected, found, texts, strict=True)]
    assert found == expected


@given(st.lists(st.tuples(st.lists(st.booleans(), max_size=9), st.lists(st.booleans(), max_size=9)), max_size=9))
def test_lists_that_several_blocks_of_items_belong_to_differ_where_their_items_do(
    pairs: list[tuple[list[bool], list[bool]]],
) -> None:
    arrays = [pa.array([pair[place] for pair in pairs], pa.list_(pa.bool_())) for place in (0, 1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("barrage_server.engine.values._BLOCK_ITEMS", 3)
        found = differs(*arrays)
    assert found.tolist() == [ours != theirs for ours, theirs in pairs]


def test_comparing_lists_of_many_small_items_takes_few_bytes() -> None:
    """Twice eight megabytes of booleans; 8 bytes for each of them would be half a gigabyte."""
    count = 64 << 20
    zeros, ones = np.zeros(count // 8, np.uint8), np.zeros(count // 8, np.uint8)
    ones[-1] = 128
    first, second = (
        pa.ListArray.from_arrays(
            pa.array([0, count], pa.int32()), pa.Array.from_buffers(pa.bool_(), count, [None, pa.py_buffer(bits)])
        )
        for bits in (zeros, ones)
    )
    tracemalloc.start()
    try:
        assert differs(first, second).tolist() == [True]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 << 20


def test_what_lies_under_a_null_list_does_not_count() -> None:
    values = pa.array([1, 2, 3])
    mask = pa.array([True, False])
    first = pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), values, mask=mask)
    second = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array([9, 3]), mask=mask)
    assert differs(first, second).tolist() == [False, False]


@pytest.mark.parametrize("name", FLOATS)
def test_keys_have_one_nan_and_one_zero(name: str) -> None:
    bits = {"half": np.uint16, "float": np.uint32, "double": np.uint64}[name]
    sample = SAMPLES[name]
    plain = sample.to_numpy(zero_copy_only=False)[1:]
    other_nan = plain.copy()
    nans = np.isnan(other_nan)
    other_nan.view(bits)[nans] |= bits(1)
    first, _ = canonical_cells(pa.array(plain))
    second, _ = canonical_cells(pa.array(np.where(plain == 0, -plain, other_nan).astype(plain.dtype)))
    assert first.tolist() == second.tolist()
    assert len(set(first.tolist())) == len(first) - 1  # both zeros


def test_cells_under_null_keys_are_zero() -> None:
    array = pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\x02"), pa.py_buffer(np.array([7, 8]))])
    data, valid = canonical_cells(array)
    assert data.tolist() == [0, 8]
    assert valid is not None
    assert valid.tolist() == [False, True]

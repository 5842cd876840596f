"""The heap of values of variable width."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.engine import heap as heap_module
from barrage_server.engine.heap import INDEX, Heap, HeapView, IndexArray
from barrage_server.errors import LimitError
from tests.engine.samples import SAMPLES, half_full, pick, shown

NESTED = [name for name, array in SAMPLES.items() if pa.types.is_nested(array.type)]
TYPES = ["string", "large_string", "binary", "fixed_size_binary[0]", *NESTED]

appends = st.lists(st.lists(st.integers(0, 6), max_size=12), max_size=12)


@given(st.sampled_from(TYPES), appends, st.integers(2, 20), st.sampled_from([0, 2**32 - 7, 2**33 + 5]), st.data())
def test_values_are_found_under_their_indexes(
    name: str, batches: list[list[int]], chunk_rows: int, start: int, data: st.DataObject
) -> None:
    sample = SAMPLES[name]
    heap = Heap(sample.type, chunk_rows=chunk_rows)
    heap.next_index = start  # as after having taken and dropped that many
    model: dict[int, str] = {}
    views = []
    for chosen in batches:
        values = pick(sample, chosen, padding=3)
        indexes = heap.append(values)
        assert indexes.dtype == INDEX
        model.update(zip(indexes.tolist(), shown(values), strict=True))
        views.append((heap.snapshot(), list(model)))
    assert len(heap) == len(model)
    for view, known in views:
        if known:
            wanted = data.draw(st.lists(st.sampled_from(known), max_size=20))
            got = view.take(np.array(wanted, INDEX))
            got.validate(full=True)
            assert got.type == sample.type
            assert shown(got) == [model[index] for index in wanted]
            run = view.take(np.array(known, INDEX))
            assert shown(run) == [model[index] for index in known]


def test_consecutive_indexes_in_a_chunk_are_a_slice_without_a_copy() -> None:
    heap = Heap(pa.string())
    indexes = heap.append(pa.array(["a", "b", "c", "d"]))
    view = heap.snapshot()
    got = view.take(indexes[1:3])
    assert got.to_pylist() == ["b", "c"]
    assert got.buffers()[2].address == view.chunks[0].buffers()[2].address


def test_many_rows_out_of_few_chunks_are_taken_chunk_by_chunk() -> None:
    heap = Heap(pa.string(), chunk_rows=1000)
    values = [str(number) for number in range(5000)]
    heap.append(pa.array(values))
    rng = np.random.default_rng(1)
    for wanted in (np.arange(0, 5000, 2), rng.integers(0, 5000, 3000), np.arange(1, 999, 3)):
        assert heap.snapshot().take(wanted.astype(INDEX)).to_pylist() == [values[index] for index in wanted]


def test_what_is_appended_is_copied_so_that_no_message_is_kept_alive() -> None:
    heap = Heap(pa.string())
    message = pa.array(["value"] * 100)
    heap.append(message)
    (chunk,) = heap.snapshot().chunks
    assert chunk.buffers()[2].address != message.buffers()[2].address


def test_single_values_are_merged_into_few_chunks() -> None:
    heap = Heap(pa.string())
    for number in range(1000):
        heap.append(pa.array([str(number)]))
    assert len(heap.snapshot().chunks) <= 10
    assert heap.nbytes == sum(chunk.nbytes for chunk in heap.snapshot().chunks)


def test_chunks_are_limited_in_rows_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap_module, "MAX_CHUNK_BYTES", 1000)
    heap = Heap(pa.string(), chunk_rows=64)
    heap.append(pa.array(["x" * 100] * 50))
    heap.append(pa.array(["y" * 5000, "z"]))
    heap.append(pa.array([""] * 200))
    chunks = heap.snapshot().chunks
    assert max(len(chunk) for chunk in chunks) <= 64
    assert all(chunk.nbytes <= 1000 or len(chunk) == 1 for chunk in chunks)
    assert len(heap) == 252


@given(st.lists(st.integers(1, 40), max_size=12), st.integers(0, 40))
def test_chunks_end_at_multiples_of_their_rows_and_full_ones_are_whole(counts: list[int], start: int) -> None:
    """Pieces of that many rows are the stored arrays themselves, without a copy."""
    heap = Heap(pa.string(), chunk_rows=16)
    heap.next_index = start
    for count in counts:
        heap.append(pa.array([str(number) for number in range(count)]))
    view = heap.snapshot()
    stops = [first + len(chunk) for first, chunk in zip(view.starts, view.chunks, strict=True)]
    for first, stop in zip(view.starts, stops, strict=True):
        assert first // 16 == (stop - 1) // 16
    whole = range(-(-start // 16) * 16, heap.next_index - 15, 16)
    assert set(whole) <= set(view.starts)
    assert {first + 16 for first in whole} <= set(stops)
    for first in whole:
        assert view.run(first, 16).buffers()[2].address in {chunk.buffers()[2].address for chunk in view.chunks}


def test_dropping_frees_leading_chunks_and_views_keep_them() -> None:
    heap = Heap(pa.int64(), chunk_rows=10)
    heap.append(pa.array(range(35)))
    view = heap.snapshot()
    heap.drop_before(5)
    assert heap.first_index == 0
    heap.drop_before(29)
    assert (heap.first_index, len(heap), heap.nbytes) == (20, 15, 15 * 8)
    assert heap.snapshot().take(np.array([20, 34], INDEX)).to_pylist() == [20, 34]
    assert view.take(np.array([0], INDEX)).to_pylist() == [0]
    heap.drop_before(heap.next_index)
    assert (heap.first_index, len(heap), heap.nbytes) == (35, 0, 0)
    assert heap.append(pa.array([7])).tolist() == [35]


def test_an_index_modulo_2_32_is_that_of_a_value_that_is_there() -> None:
    heap = Heap(pa.int64(), chunk_rows=4)
    heap.next_index = 2**32 - 3
    indexes = heap.append(pa.array(range(8)))
    assert indexes.tolist() == [2**32 - 3, 2**32 - 2, 2**32 - 1, 0, 1, 2, 3, 4]
    assert [heap.absolute(int(index)) for index in indexes] == list(range(2**32 - 3, 2**32 + 5))


def test_a_full_heap_refuses_more() -> None:
    heap = Heap(pa.string())
    heap.append(pa.array(["a"]))
    heap.next_index = 2**32 - 1
    with pytest.raises(LimitError, match="Split the table"):
        heap.append(pa.array(["b"]))


def test_values_too_large_for_one_array_are_refused() -> None:
    large = half_full()
    heap = Heap(large.type)
    (index,) = heap.append(large)
    assert len(heap.snapshot().take(np.array([index], INDEX))) == 1
    with pytest.raises(LimitError, match="Read fewer"):
        heap.snapshot().take(np.array([index, index], INDEX))
    heap.append(large)
    for read in (heap.snapshot().run, heap.snapshot().slice):
        assert len(read(int(index), 1)) == 1
        with pytest.raises(LimitError, match="Read fewer"):
            read(int(index), 2)


def test_values_too_large_for_one_array_can_be_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    heap = Heap(pa.string())
    indexes = heap.append(pa.array(["a", "bb", "ccc", "dddd"]))
    take = HeapView.take

    def take_little(view: HeapView, wanted: IndexArray) -> pa.Array:
        values = take(view, wanted)
        if sum(len(value) for value in values.to_pylist()) > 4:
            raise LimitError("too large")
        return values

    monkeypatch.setattr(HeapView, "take", take_little)
    pieces = list(heap.snapshot().pieces(indexes))
    assert [piece.to_pylist() for piece in pieces] == [["a", "bb"], ["ccc"], ["dddd"]]
    heap.append(pa.array(["eeeee"]))
    with pytest.raises(LimitError):
        list(heap.snapshot().pieces(np.array([4], INDEX)))


def test_released_values_are_counted_and_empty_chunks_freed() -> None:
    heap = Heap(pa.int64(), chunk_rows=10)
    indexes = heap.append(pa.array(range(35)))
    view = heap.snapshot()
    heap.release(indexes[[3, 12, 31, 14]])
    assert heap.garbage == 8 * 4
    heap.release(indexes[10:20][[0, 1, 3, 5, 6, 7, 8, 9]])
    assert (heap.nbytes, heap.garbage) == (25 * 8, 8 * 2)
    assert heap.snapshot().take(indexes[[9, 20, 34]]).to_pylist() == [9, 20, 34]
    assert view.take(indexes[9:21]).to_pylist() == list(range(9, 21))
    heap.append(pa.array([35]))
    heap.release(indexes[:0])
    assert len(heap) == 26


def test_garbage_stays_right_when_chunks_are_merged() -> None:
    heap = Heap(pa.string())
    first = heap.append(pa.array(["a", "bbbbbbbb"]))
    heap.release(first[:1])
    second = heap.append(pa.array(["cccc", "d"]))
    (chunk,) = heap.snapshot().chunks
    assert heap.garbage == chunk.nbytes / 4
    heap.release(np.concatenate([first[1:], second]))
    assert (heap.nbytes, heap.garbage, len(heap)) == (0, 0, 0)


def test_a_chunk_is_merged_only_with_the_one_before_it() -> None:
    """Not over the gap that a freed chunk left, and not with one that was closed."""
    heap = Heap(pa.int64(), chunk_rows=8)
    indexes = heap.append(pa.array(range(10)))
    heap.release(indexes[8:])
    heap.append(pa.array([10, 11]))
    assert [len(chunk) for chunk in heap.snapshot().chunks] == [8, 2]
    heap.close()
    heap.append(pa.array([12]))
    assert [len(chunk) for chunk in heap.snapshot().chunks] == [8, 2, 1]
    assert heap.snapshot().take(np.array([7, 10, 11, 12], INDEX)).to_pylist() == [7, 10, 11, 12]


def test_pinned_values_stay() -> None:
    heap = Heap(pa.int64())
    pinned = heap.append(pa.array([1, 2]))
    heap.pin()
    loose = heap.append(pa.array([3, 4]))
    heap.release(np.concatenate([pinned, loose]))
    assert (len(heap), heap.garbage) == (2, 0)
    assert heap.snapshot().take(pinned).to_pylist() == [1, 2]


def test_the_chunks_with_most_garbage_are_the_ones_to_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap_module, "_MIN_GARBAGE", 0)
    heap = Heap(pa.int64(), chunk_rows=10)
    indexes = heap.append(pa.array(range(50)))
    assert heap.collectable_span() is None
    heap.release(indexes[[10, 11, 12, 13, 14, 15, 31, 32, 33, 34, 35]])
    assert heap.collectable_span() == (10, 40)
    heap.pin()
    assert heap.collectable_span() is None


def test_old_values_are_moved_on_before_indexes_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise one value that stays would bound the number of later ones."""
    monkeypatch.setattr(heap_module, "_MAX_SPAN", 100)
    heap = Heap(pa.int64(), chunk_rows=10)
    heap.append(pa.array(range(101)))
    assert heap.collectable_span() == (0, 51)

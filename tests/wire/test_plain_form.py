"""Whatever the layout: values are checked, measured and brought to one plain form, and stay what they are."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from types import FrameType

import numpy as np
import pyarrow as pa
import pytest

from barrage_server.engine.storage import to_storage
from barrage_server.errors import LimitError
from barrage_server.wire.plain_form import is_plain, to_plain
from barrage_server.wire.plain_size import held_size, plain_size
from barrage_server.wire.plain_type import plain_type
from barrage_server.wire.soundness import check_sound
from tests.wire.layouts import LayoutMaker

_SLACK = 64  # bytes: bitmaps are whole bytes, and every level of lists has an offset more than lists


@pytest.mark.parametrize("first_seed", range(0, 600, 100))
def test_every_layout_becomes_its_values_in_plain_form(first_seed: int) -> None:
    """Against the values that the arrays were made of, and so that Arrow's functions are safe with the result."""
    for seed in range(first_seed, first_seed + 100):
        array, values = LayoutMaker(seed, unions=True).make(random.Random(seed).choice([0, 1, 2, 5, 17]))
        check_sound(array)
        target = plain_type(array.type)
        size = plain_size(array, target)
        plain = to_plain(array, target)
        plain.validate(full=True)
        check_sound(plain)
        assert plain.type == target
        assert plain.to_pylist() == values, (seed, array.type)
        if "view" in str(target) or "union" in str(target):  # are laid out anew each time, and share items
            assert plain.nbytes <= 2 * size + _SLACK, (seed, array.type)
        else:
            assert is_plain(plain), (seed, array.type)
            assert to_plain(plain, target) is plain
            assert plain.nbytes <= size + _SLACK, (seed, array.type)
        backwards = pa.array(np.arange(len(plain))[::-1].copy())
        assert plain.take(backwards).to_pylist() == values[::-1], (seed, array.type)
        part = plain.slice(len(plain) // 2)
        assert pa.concat_arrays([part, plain]).to_pylist() == values[len(plain) // 2 :] + values, (seed, array.type)
        assert part.nbytes <= plain.nbytes


@pytest.mark.parametrize("first_seed", range(0, 300, 100))
def test_unions_keep_their_type(first_seed: int) -> None:
    """With plain members."""
    codes = np.array([0, 1, 1, 0, 1], np.int8)
    for seed in range(first_seed, first_seed + 100):
        maker = LayoutMaker(seed)
        children = [maker.make(5, 2) for _ in range(2)]
        arrays = [child for child, _ in children]
        if seed % 2:
            places = np.array([4, 0, 0, 1, 3], np.int32)
            array = pa.UnionArray.from_dense(pa.array(codes), pa.array(places), arrays)
        else:
            places = np.arange(5, dtype=np.int32)
            array = pa.UnionArray.from_sparse(pa.array(codes), arrays)
        values = [children[code][1][place] for code, place in zip(codes, places, strict=True)]
        fields = [pa.field(str(number), plain_type(child.type)) for number, child in enumerate(arrays)]
        target = pa.union(fields, array.type.mode)
        check_sound(array)
        for start in (0, 2):
            part = to_plain(array.slice(start), target)
            check_sound(part)
            assert part.offset == 0
            assert part.to_pylist() == values[start:], (seed, target)


def test_a_plain_array_is_not_touched() -> None:
    for array in (
        pa.array([1, None, 3]).slice(1),
        pa.array(["a", "b"]).slice(1),
        pa.array([[1], None, [2, 3]]),
        pa.array([{"a": [1]}, None]),
        pa.array([[[1, 2]], [[3, 4]]], pa.list_(pa.list_(pa.int64(), 2), 1)),
    ):
        assert to_plain(array, array.type) is array


class TestSizes:
    """Of what is written in few bytes and takes many."""

    @pytest.mark.parametrize(
        ("array", "size"),
        [
            (pa.RunEndEncodedArray.from_arrays(pa.array([1 << 30], pa.int32()), pa.array([7])), 8 << 30),
            (pa.RunEndEncodedArray.from_arrays(pa.array([1 << 30], pa.int32()), pa.array(["x" * 96])), 100 << 30),
            (pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int8()), pa.array(["x" * 996])), 1_000_000),
            (
                pa.ListViewArray.from_arrays([0] * 1000, pa.array([1000] * 1000, pa.int32()), pa.array(range(1000))),
                8_008_000,
            ),
            (pa.Array.from_buffers(pa.null(), (1 << 31) - 1, [None]), 8 * ((1 << 31) - 1)),
            (pa.Array.from_buffers(pa.binary(0), 1 << 29, [None, pa.py_buffer(b"")]), 8 << 29),
            (pa.Array.from_buffers(pa.struct([]), 1 << 29, [None], children=[]), 8 << 29),
        ],
        ids=["runs", "runs of texts", "dictionary", "list views", "nulls", "bytes of no width", "empty structs"],
    )
    def test_are_those_of_the_plain_form(self, array: pa.Array, size: int) -> None:
        assert plain_size(array) == pytest.approx(size, rel=0.2)

    def test_runs_in_runs_and_lists(self) -> None:
        """What is multiplied twice does not wrap around."""
        runs = pa.RunEndEncodedArray.from_arrays(pa.array([1 << 62], pa.int64()), pa.array([7]))
        lists = pa.LargeListArray.from_arrays(pa.array([0, 1 << 62], pa.int64()), runs)
        many = pa.RunEndEncodedArray.from_arrays(pa.array([1 << 30], pa.int64()), lists)
        assert plain_size(many) > 1 << 90

    def test_what_is_written_out_to_choose_from_counts(self) -> None:
        """A dictionary of runs is decoded as a whole, even if one value of it is used."""
        runs = pa.RunEndEncodedArray.from_arrays(pa.array([1 << 30], pa.int32()), pa.array([7]))
        array = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), runs)
        assert plain_size(array) >= 8 << 30

    def test_nulls_take_what_they_become(self) -> None:
        assert plain_size(pa.nulls(10), pa.list_(pa.int64(), 1000)) >= 80_000

    @pytest.mark.parametrize("nested", [False, True])
    def test_members_of_a_union_that_are_not_chosen_take_a_null(self, nested: bool) -> None:
        """Tables keep them: of a member of fixed width all of it."""
        wide = pa.array([b"x" * 1000], pa.binary(1000))
        codes = pa.array([0] * 500 + [1], pa.int8())
        places = pa.array([*range(500), 0], pa.int32())
        array = pa.UnionArray.from_dense(codes, places, [pa.array(range(500), pa.int16()), wide])
        if nested:
            array = pa.ListArray.from_arrays(pa.array([0, 501], pa.int32()), array)
        assert to_storage(to_plain(array, plain_type(array.type))).nbytes <= plain_size(array) <= 520_000
        assert plain_size(pa.nulls(500), array.type) >= (4 * 500 if nested else 500_000)

    def test_a_value_keeps_its_whole_message_in_memory(self) -> None:
        body = pa.py_buffer(bytes(1 << 20))
        array = pa.Array.from_buffers(pa.int64(), 1, [None, body.slice(64, 8)])
        assert plain_size(array) == 8
        assert held_size([array, array]) == 1 << 20


def test_texts_beyond_32_bits_are_refused_before_they_are_made() -> None:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([1 << 21], pa.int32()), pa.array(["x" * 1024]))
    view = pa.array(["x" * 1024], pa.string_view())
    views = pa.Array.from_buffers(
        pa.string_view(), 1 << 21, [None, pa.py_buffer(view.buffers()[1].to_pybytes() * (1 << 21)), *view.buffers()[2:]]
    )
    lists = pa.LargeListViewArray.from_arrays([0] * 2, pa.array([1 << 31] * 2, pa.int64()), pa.nulls(1 << 31))
    for array, target in ((runs, pa.string()), (views, pa.string()), (lists, pa.list_(pa.null()))):
        with pytest.raises(LimitError, match="too large"):
            to_plain(array, target)


def _views_of(items: pa.Array) -> pa.Array:
    ones, places = pa.array([1] * len(items), pa.int32()), pa.array(range(len(items)), pa.int32())
    return pa.ListViewArray.from_arrays(places, ones, items)


def _lists_of_dictionaries(items: pa.Array) -> pa.Array:
    indices = pa.array(range(len(items)), pa.int8())
    bounds = pa.array(range(len(items) + 1), pa.int32())
    return pa.ListArray.from_arrays(bounds, pa.DictionaryArray.from_arrays(indices, items))


def _views_of_unions(items: pa.Array) -> pa.Array:
    codes, places = pa.array([0] * len(items), pa.int8()), pa.array(range(len(items)), pa.int32())
    return _views_of(pa.UnionArray.from_dense(codes, places, [items]))


def _calls(work: Callable[[], object]) -> int:
    """Calls of functions that ``work`` makes."""
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("wrap", [_views_of, _lists_of_dictionaries, _views_of_unions])
def test_work_does_not_double_with_each_level_of_nesting(wrap: Callable[[pa.Array], pa.Array]) -> None:
    """A few kilobytes of two rows, nested deep, must not occupy a core without end."""
    array, calls = pa.array([1, 2]), dict[int, int]()
    for level in range(1, 21):
        array = wrap(array)
        target = plain_type(array.type)
        if level in (10, 20):
            calls[level] = _calls(lambda array=array, target=target: plain_size(array, target))  # type: ignore[misc]
    assert calls[20] < 8 * calls[10]
    check_sound(array)
    assert plain_size(array, target) > 0
    plain = to_plain(array, target)
    assert plain.to_pylist() == array.to_pylist()

"""Types that are stored as another type, and come back as what they were."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.engine.storage import from_storage, is_stored_as_itself, storage_type, to_storage
from tests.engine.samples import SAMPLES, shown
from tests.wire.arrays import arrays, unions


@st.composite
def nested(draw: st.DrawFn) -> pa.Array:
    """Arrays of all kinds, unions and extension types among them at some depth; often slices."""
    array = draw(st.one_of(arrays(), unions(), st.sampled_from([SAMPLES["uuid"], SAMPLES["list<uuid>"]])))
    for _ in range(draw(st.integers(0, 2))):
        array = _within(draw, array)
    first = draw(st.integers(0, len(array)))
    return array.slice(first, draw(st.integers(0, len(array) - first)))


def _within(draw: st.DrawFn, array: pa.Array) -> pa.Array:
    kind = draw(st.sampled_from(["list", "view", "struct", "fixed", "map"]))
    count = len(array)
    if kind == "struct":
        nulls = draw(st.lists(st.booleans(), min_size=count, max_size=count))
        return pa.StructArray.from_arrays([array], ["a"], mask=pa.array(nulls, pa.bool_()))
    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(array, 1)
    if kind == "view":
        starts = draw(st.lists(st.integers(0, count), max_size=4))
        sizes = [draw(st.integers(0, count - start)) for start in starts]
        return pa.ListViewArray.from_arrays(pa.array(starts, pa.int32()), pa.array(sizes, pa.int32()), array)
    bounds = pa.array(sorted(draw(st.lists(st.integers(0, count), min_size=1, max_size=4))), pa.int32())
    if kind == "map":
        return pa.MapArray.from_arrays(bounds, pa.array(range(count)), array)
    return pa.ListArray.from_arrays(bounds, array)


def kinds_within(data_type: pa.DataType) -> set[str]:
    """What a type has at any depth that is not stored as it is."""
    found = set()
    if isinstance(data_type, pa.BaseExtensionType):
        return {"extension", *kinds_within(data_type.storage_type)}
    if pa.types.is_union(data_type):
        found.add("union")
    if pa.types.is_list_view(data_type) or pa.types.is_large_list_view(data_type):
        found.add("view")
    return found.union(*(kinds_within(data_type.field(place).type) for place in range(data_type.num_fields)))


@given(nested())
def test_values_come_back_as_what_they_were(array: pa.Array) -> None:
    stored = to_storage(array)
    stored.validate(full=True)
    assert stored.type == storage_type(array.type)
    assert len(stored) == len(array)
    assert not kinds_within(stored.type)
    back = from_storage(stored, array.type)
    back.validate(full=True)
    assert back.type == array.type
    assert shown(back) == shown(array)


def texts(array: pa.Array) -> list[str]:
    """The values as texts. All nulls are equal: what a selection adds is a null of the first member of a union."""
    return [repr(value) for value in array.to_pylist()]


@given(nested(), st.data())
def test_what_is_done_to_stored_values_is_done_to_the_values(array: pa.Array, data: st.DataObject) -> None:
    """Slices, selections with nulls, and concatenation: what a heap does."""
    stored, expected = to_storage(array), texts(array)

    def check(changed: pa.Array, wanted: list[str]) -> None:
        back = from_storage(changed, array.type)
        back.validate(full=True)
        assert texts(back) == wanted

    first = data.draw(st.integers(0, len(array)))
    check(stored.slice(first), expected[first:])
    check(pa.concat_arrays([stored, stored.slice(first)]), expected + expected[first:])
    if len(array):
        chosen = data.draw(st.lists(st.integers(0, len(array) - 1), max_size=9))
        check(stored.take(pa.array(chosen, pa.int64())), [expected[place] for place in chosen])
    check(pa.nulls(2, stored.type), ["None"] * 2)


@pytest.mark.parametrize("name", SAMPLES)
def test_most_types_are_stored_as_they_are(name: str) -> None:
    array = SAMPLES[name]
    same = not kinds_within(array.type)
    assert is_stored_as_itself(array.type) == same
    assert (to_storage(array) is array) == same
    if same:
        assert from_storage(array, array.type) is array


def test_one_row_of_many_is_converted_alone() -> None:
    """A slice of a list of views does not cost what the whole array does."""
    array = pa.array([[["x" * 100] * 10]] * 1000, pa.list_(pa.list_view(pa.string())))
    one: Any = to_storage(array.slice(500, 1))
    assert len(one.values) == 1
    assert len(from_storage(to_storage(array).slice(500, 1), array.type).values) == 1


def test_types_nested_deep_cost_no_more_at_each_level() -> None:
    """Twice the work for each level would never end here."""
    data_type = pa.list_view(pa.int8())
    for _ in range(60):
        data_type = pa.list_(data_type)
    stored = storage_type(data_type)
    assert not kinds_within(stored)
    assert len(from_storage(to_storage(pa.nulls(3, data_type)), data_type)) == 3

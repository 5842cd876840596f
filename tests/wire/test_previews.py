"""preview_list_length_limit: 0 no limit, n the first n elements, -n the last n."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.wire.previews import preview

LISTS = st.lists(st.none() | st.lists(st.none() | st.integers(0, 9), max_size=6), max_size=12)


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list, pa.list_view, pa.large_list_view])
@given(values=LISTS, limit=st.integers(-7, 7), first=st.integers(0, 3))
def test_each_list_is_cut(kind: type, values: list[list[int | None] | None], limit: int, first: int) -> None:
    array = pa.array(values, kind(pa.int64())).slice(min(first, len(values)))
    short = preview(array, limit)
    short.validate(full=True)
    cut = slice(None) if limit == 0 else slice(None, limit) if limit > 0 else slice(limit, None)
    assert short.to_pylist() == [None if value is None else value[cut] for value in values[first:]]


def test_short_lists_and_other_types_are_not_copied() -> None:
    for array in (pa.array([[1], [2, 3]]), pa.array([1, 2]), pa.array(["long text"])):
        assert preview(array, 2) is array


def test_limits_beyond_any_length() -> None:
    array = pa.array([[1, 2]])
    assert preview(array, 1 << 62) is array
    assert preview(array, -(1 << 63)) is array

"""Hypothesis strategies for Arrow types and arrays of all kinds that travel."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from barrage_server.rowset import RowSet, RowSetShiftData

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)

SCALARS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-128, 127)),
    (pa.int16(), st.integers(-(1 << 15), (1 << 15) - 1)),
    (pa.int32(), st.integers(-(1 << 31), (1 << 31) - 1)),
    (pa.int64(), INT64),
    (pa.uint8(), st.integers(0, 255)),
    (pa.uint16(), st.integers(0, 65535)),
    (pa.uint32(), st.integers(0, (1 << 32) - 1)),
    (pa.uint64(), st.integers(0, (1 << 64) - 1)),
    (pa.float16(), st.floats(width=16, allow_nan=False).map(np.float16)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.string(), st.text(max_size=9)),
    (pa.large_string(), st.text(max_size=9)),
    (pa.binary(), st.binary(max_size=9)),
    (pa.large_binary(), st.binary(max_size=9)),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.decimal128(20, 3), st.integers(-(10**15), 10**15).map(lambda value: decimal.Decimal(value).scaleb(-3))),
    (pa.decimal256(40, 2), st.integers(-(10**15), 10**15).map(lambda value: decimal.Decimal(value).scaleb(-2))),
    (pa.date32(), st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1))),
    (pa.date64(), st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1))),
    (pa.time32("ms"), st.integers(0, 86_399_999)),
    (pa.time64("ns"), st.integers(0, 86_399_999_999_999)),
    (pa.timestamp("ns", "UTC"), INT64),
    (pa.timestamp("us"), INT64),
    (pa.duration("ns"), INT64),
]


@st.composite
def typed_values(draw: st.DrawFn, depth: int = 2) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    """A type and the strategy of its values, nulls included."""
    kind = draw(st.integers(0, 12 if depth else 4))
    if kind < 5:
        data_type, values = draw(st.sampled_from(SCALARS))
    elif kind == 9:
        data_type, values = pa.null(), st.none()
    else:
        element, elements = draw(typed_values(depth=depth - 1))
        if kind == 5:
            data_type, values = pa.list_(element), st.lists(elements, max_size=3)
        elif kind == 6:
            data_type, values = pa.large_list(element), st.lists(elements, max_size=3)
        elif kind == 7:
            data_type, values = pa.list_(element, 2), st.lists(elements, min_size=2, max_size=2)
        elif kind == 11:
            data_type, values = pa.list_view(element), st.lists(elements, max_size=3)
        elif kind == 12:
            data_type, values = pa.large_list_view(element), st.lists(elements, max_size=3)
        elif kind == 10:
            data_type = pa.map_(pa.string(), element)
            values = st.lists(st.tuples(st.text(max_size=3), elements), max_size=3)
        else:
            data_type = pa.struct([("x", element), ("y", pa.string())])
            values = st.fixed_dictionaries({"x": elements, "y": st.none() | st.text(max_size=3)})
    return data_type, st.none() | values


@st.composite
def arrays(draw: st.DrawFn, data_type: tuple[pa.DataType, st.SearchStrategy[Any]] | None = None) -> pa.Array:
    """An array, often a slice of a longer one."""
    chosen, values = draw(typed_values()) if data_type is None else data_type
    array = pa.array(draw(st.lists(values, max_size=20)), chosen)
    first = draw(st.integers(0, len(array)))
    return array.slice(first, draw(st.integers(0, len(array) - first)))


@st.composite
def even_columns(draw: st.DrawFn, max_rows: int = 40) -> list[pa.Array]:
    """Columns of one length."""
    rows = draw(st.integers(0, max_rows))
    kinds = draw(st.lists(typed_values(), min_size=1, max_size=4))
    return [pa.array(draw(st.lists(values, min_size=rows, max_size=rows)), kind) for kind, values in kinds]


ROW_SETS = st.one_of(
    st.just(RowSet.EMPTY),
    st.integers(0, 1 << 40).flatmap(
        lambda first: st.integers(first, first + 1000).map(lambda last: RowSet.from_range(first, last))
    ),
    st.lists(st.integers(0, 1 << 45), max_size=30).map(lambda keys: RowSet.from_keys(np.array(keys, np.int64))),
    st.lists(st.integers(0, 60), max_size=30).map(lambda keys: RowSet.from_keys(np.array(keys, np.int64))),
)


@st.composite
def shifts(draw: st.DrawFn) -> RowSetShiftData:
    """Valid shift data: the map between two row sets of one size."""
    before = draw(st.lists(st.integers(0, 5000), max_size=20, unique=True))
    after = draw(st.lists(st.integers(0, 5000), min_size=len(before), max_size=len(before), unique=True))
    return RowSetShiftData.between(
        RowSet.from_keys(np.array(sorted(before), np.int64)), RowSet.from_keys(np.array(sorted(after), np.int64))
    )


@st.composite
def unions(draw: st.DrawFn) -> pa.Array:
    """A dense or sparse union, which pyarrow does not make of Python values; often a slice of a longer one."""
    count = draw(st.integers(0, 12))
    codes = draw(st.lists(st.integers(0, 127), min_size=1, max_size=3, unique=True))
    names = [f"m{code}" for code in codes]
    chosen = np.array(draw(st.lists(st.integers(0, len(codes) - 1), min_size=count, max_size=count)), np.int64)
    kinds = [draw(typed_values()) for _ in codes]
    tags = pa.array([codes[place] for place in chosen], pa.int8())
    if draw(st.booleans()):
        members = [pa.array(draw(st.lists(values, min_size=count, max_size=count)), kind) for kind, values in kinds]
        array = pa.UnionArray.from_sparse(tags, members, names, codes)
    else:
        counts = np.bincount(chosen, minlength=len(codes)).tolist()
        offsets = np.zeros(count, np.int32)
        members = []
        for place, (size, (kind, values)) in enumerate(zip(counts, kinds, strict=True)):
            before = draw(st.integers(0, 2))  # values that no row has
            offsets[chosen == place] = before + np.arange(size)
            members.append(pa.array(draw(st.lists(values, min_size=before + size, max_size=before + size + 2)), kind))
        array = pa.UnionArray.from_dense(tags, pa.array(offsets), members, names, codes)
    first = draw(st.integers(0, count))
    return array.slice(first, draw(st.integers(0, count - first)))

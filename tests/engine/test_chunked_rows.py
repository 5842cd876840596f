"""A table in chunks is appended chunk by chunk, as one change: large chunks are not copied before they are written."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.engine import AppendTable, BlinkTable, RingTable, Table, TableUpdate, TableVersion, UpdateGraph
from barrage_server.engine.conform import conform_parts
from barrage_server.errors import SchemaMismatchError

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string()), pa.field("x", pa.int8(), nullable=False)])
LARGE, SMALL = 20_000, 3_000


def rows(first: int, count: int) -> pa.RecordBatch:
    numbers = range(first, first + count)
    texts = [None if number % 7 == 0 else f"text {number % 100}" for number in numbers]
    return pa.record_batch([pa.array(numbers), texts, pa.array([number % 50 for number in numbers], pa.int8())], SCHEMA)


def chunked(sizes: list[int], first: int = 0) -> pa.Table:
    batches = []
    for size in sizes:
        batches.append(rows(first, size))
        first += size
    return pa.Table.from_batches(batches, SCHEMA)


def record(updates: list[TableUpdate], update: TableUpdate, _before: TableVersion, _after: TableVersion) -> None:
    updates.append(update)


MAKE: dict[str, Callable[[UpdateGraph], AppendTable]] = {
    "append": lambda graph: AppendTable(graph, "t", SCHEMA),
    "ring": lambda graph: RingTable(graph, "t", SCHEMA, 25_000),
    "blink": lambda graph: BlinkTable(graph, "t", SCHEMA),
}


@pytest.mark.parametrize("kind", MAKE)
@settings(max_examples=15, deadline=None)
@given(st.lists(st.lists(st.sampled_from([0, 1, SMALL, LARGE]), max_size=6), min_size=1, max_size=3))
def test_chunks_make_the_table_and_the_change_that_one_chunk_makes(kind: str, appends: list[list[int]]) -> None:
    one, other = MAKE[kind](UpdateGraph()), MAKE[kind](UpdateGraph())
    seen: dict[Table, list[TableUpdate]] = {one: [], other: []}
    for table, updates in seen.items():
        table.add_listener(partial(record, updates))
    first = 0
    for sizes in appends:
        given_rows = chunked(sizes, first)
        first += sum(sizes)
        one.append(given_rows)
        other.append(given_rows.combine_chunks())
        assert one.to_arrow().equals(other.to_arrow())
        assert one.version.row_set == other.version.row_set
    assert [str(update) for update in seen[one]] == [str(update) for update in seen[other]]


def test_large_chunks_are_parts_and_small_ones_are_put_together() -> None:
    given_rows = chunked([LARGE, SMALL, SMALL, LARGE, LARGE, SMALL])
    parts = conform_parts(SCHEMA, given_rows, table="t")
    assert [len(part[0]) for part in parts] == [LARGE, 2 * SMALL + LARGE, LARGE, SMALL]
    assert parts[0][0].buffers()[1].address == given_rows["n"].chunk(0).buffers()[1].address
    assert pa.concat_arrays([part[1] for part in parts]).equals(given_rows["s"].combine_chunks())


def test_nothing_is_added_when_a_later_chunk_does_not_fit() -> None:
    table = AppendTable(UpdateGraph(), "t", SCHEMA)
    loose = pa.schema([field.with_nullable(True) for field in SCHEMA])
    missing = pa.record_batch([[1], ["a"], pa.array([None], pa.int8())], loose)
    batches = [rows(0, LARGE).cast(loose), rows(LARGE, LARGE).cast(loose), missing]
    with pytest.raises(SchemaMismatchError, match="Column 'x' of table 't' is declared without nulls"):
        table.append(pa.Table.from_batches(batches))
    assert table.size == 0


@pytest.mark.parametrize("given_rows", [chunked([]), chunked([0, 0]), {"n": [], "s": [], "x": []}])
def test_no_rows_make_no_change(given_rows: pa.Table) -> None:
    table = AppendTable(UpdateGraph(), "t", SCHEMA)
    table.append(given_rows)
    assert table.version.step == 0


def test_rows_without_any_are_checked_all_the_same() -> None:
    table = AppendTable(UpdateGraph(), "t", SCHEMA)
    with pytest.raises(SchemaMismatchError, match="missing columns"):
        table.append(pa.table({"n": pa.array([], pa.int64())}))

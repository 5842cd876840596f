"""Content over several streams: what was in view stays until the new is complete, and then comes as one update."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from barrage_server.client.content import Content, difference
from barrage_server.client.update import Update
from barrage_server.engine import KeyedTable, ReplicaTable, ReplicaUpdate, UpdateGraph
from barrage_server.engine.heap import READ_ROWS
from barrage_server.errors import InternalError, SchemaMismatchError, WireFormatError
from barrage_server.rowset import RowSet
from barrage_server.subscription import Dialect, Window
from barrage_server.wire.metadata import UpdateMetadata
from barrage_server.wire.reader import IncomingMessage

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string())])
FULL = Window((0, 1))
SNAPSHOT = UpdateMetadata(is_snapshot=True, effective_column_set=(0, 1), first_seq=3, last_seq=3)


def _message(metadata: UpdateMetadata, a: list[int | None] = [], b: list[str | None] = []) -> IncomingMessage:  # noqa: B006
    return IncomingMessage(metadata, (pa.array(a, pa.int64()), pa.array(b, pa.string())), _nothing())


def _nothing() -> tuple[pa.Array, pa.Array]:
    return pa.array([], pa.int64()), pa.array([], pa.string())


def _whole(keys: list[int], a: list[int | None], b: list[str | None]) -> IncomingMessage:
    return _message(replace(SNAPSHOT, added_rows=RowSet.from_keys(keys), table_size=len(keys)), a, b)


def _content(window: Window = FULL, dialect: Dialect = Dialect.KEY_SPACE) -> Content:
    content = Content(UpdateGraph(), "t")
    content.begin(SCHEMA, window, dialect)
    return content


def test_the_first_content_is_no_update() -> None:
    content = _content()
    assert not content.is_complete
    assert content.apply(_whole([0, 5], [1, 2], ["x", None])) is None
    assert content.is_settled
    assert content.step == 3
    assert content.version.to_table().to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]


def test_a_growing_snapshot_is_in_view_when_it_is_complete() -> None:
    content = _content()
    rows = RowSet.from_keys([2, 4, 6])
    part = replace(SNAPSHOT, added_rows=rows, effective_viewport=RowSet.flat(2))
    part = replace(part, added_rows_included=RowSet.from_keys([2, 4]))
    assert content.apply(_message(part, [1, 2], ["x", "y"])) is None
    assert not content.is_complete
    last = replace(SNAPSHOT, added_rows=rows, added_rows_included=RowSet.from_keys([6]))
    content.apply(_message(last, [3], ["z"]))
    assert content.version.to_table()["a"].to_pylist() == [1, 2, 3]


def test_a_new_stream_brings_one_update_with_what_differs() -> None:
    content = _content()
    content.apply(_whole([0, 1, 2, 3], [1, 2, 3, None], ["x", "y", "z", None]))
    table = content.table
    content.begin(SCHEMA, FULL, Dialect.KEY_SPACE)
    assert not content.is_settled
    assert content.version.size == 4
    update = content.apply(_whole([1, 2, 3, 9], [2, 30, None, 4], ["y", "z", "now", "new"]))
    assert isinstance(update, Update)
    assert update.is_snapshot
    assert update.removed == RowSet.from_keys([0])
    assert update.added == RowSet.from_keys([9])
    assert update.modified == {"a": RowSet.from_keys([2]), "b": RowSet.from_keys([3])}
    assert content.table is table
    assert content.is_settled


def test_a_new_stream_with_the_same_content_is_no_update() -> None:
    content = _content()
    content.apply(_whole([0, 1], [1, None], ["x", None]))
    content.begin(SCHEMA, FULL, Dialect.KEY_SPACE)
    assert content.apply(_whole([0, 1], [1, None], ["x", None])) is None
    assert content.is_settled


def test_other_columns_are_another_table() -> None:
    content = _content()
    content.apply(_whole([0, 1], [1, 2], ["x", "y"]))
    content.begin(SCHEMA, Window((1,)), Dialect.KEY_SPACE)
    message = _message(
        replace(SNAPSHOT, effective_column_set=(1,), added_rows=RowSet.flat(2)),
        b=["x", "y"],
    )
    update = content.apply(message)
    assert update is not None
    assert update.removed_values().to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert update.added_values().to_pylist() == [{"b": "x"}, {"b": "y"}]
    assert update.modified == {"b": RowSet.empty()}
    assert update.modified_previous_values("b").num_rows == 0
    assert content.version.schema.names == ["b"]


def test_a_table_that_comes_back_with_other_columns_is_refused() -> None:
    content = _content()
    content.apply(_whole([0], [1], ["x"]))
    with pytest.raises(SchemaMismatchError, match="a: int64, b: string"):
        content.begin(pa.schema([("a", pa.int32())]), Window((0,)), Dialect.KEY_SPACE)


def test_rows_that_are_sent_again_are_modified() -> None:
    window = Window((0, 1), RowSet.flat(3))
    content = _content(window)
    first = replace(SNAPSHOT, added_rows=RowSet.flat(3), effective_viewport=RowSet.flat(3))
    content.apply(_message(first, [1, 2, 3], ["x", "y", "z"]))
    again = replace(UpdateMetadata(added_rows=RowSet.empty()), added_rows_included=RowSet.from_keys([1]))
    update = content.apply(_message(again, [20], ["yy"]))
    assert update is not None
    assert update.modified == {"a": RowSet.from_keys([1]), "b": RowSet.from_keys([1])}
    assert content.version.to_table()["a"].to_pylist() == [1, 20, 3]


UNFIT = {
    "an update before any snapshot": ([], UpdateMetadata(added_rows=RowSet.flat(1))),
    "rows removed that are not there": ([], UpdateMetadata(removed_rows=RowSet.from_keys([77]))),
    "rows added twice": ([1], UpdateMetadata(added_rows=RowSet.from_keys([0]))),
    "modified rows of too few columns": ([], UpdateMetadata(modified_rows=(RowSet.flat(1),))),
    "columns that there are not": ([], replace(SNAPSHOT, effective_column_set=(5,), added_rows=RowSet.empty())),
    "fewer rows with data than were added": (
        [1],
        UpdateMetadata(added_rows=RowSet.from_keys([8, 9]), added_rows_included=RowSet.from_keys([8])),
    ),
}


@pytest.mark.parametrize("what", UNFIT)
def test_messages_that_contradict_the_ones_before_are_refused(what: str) -> None:
    values, metadata = UNFIT[what]
    content = _content()
    if not what.startswith("an update before"):
        content.apply(_whole([0, 1], [1, 2], ["x", "y"]))
    with pytest.raises(WireFormatError):
        content.apply(_message(metadata, [*values], ["v" for _ in values]))


@pytest.mark.parametrize(
    "metadata",
    [
        UpdateMetadata(removed_rows=RowSet.from_keys([4])),
        UpdateMetadata(added_rows=RowSet.from_keys([9])),
        replace(SNAPSHOT, effective_column_set=(0,), effective_viewport=RowSet.flat(9), removed_rows=RowSet.empty()),
    ],
)
def test_flattened_messages_must_fit_the_view(metadata: UpdateMetadata) -> None:
    content = _content(Window((1,), RowSet.flat(2)), Dialect.FLATTENED)
    first = replace(SNAPSHOT, effective_column_set=(1,), added_rows=RowSet.flat(2), effective_viewport=RowSet.flat(2))
    content.apply(_message(first, b=["x", "y"]))
    with pytest.raises(WireFormatError):
        content.apply(_message(metadata, b=["z"] if metadata.added_rows else []))


def test_nothing_is_in_view_before_a_stream() -> None:
    content = Content(UpdateGraph(), "t")
    with pytest.raises(InternalError):
        content.apply(_whole([0], [1], ["x"]))
    with pytest.raises(InternalError):
        _ = content.table


def test_key_columns_and_attributes_are_those_of_the_table() -> None:
    content = Content(UpdateGraph(), "t")
    content.begin(SCHEMA, FULL, Dialect.KEY_SPACE, attributes={"AppendOnly": True}, key_columns=["a"])
    content.apply(_whole([0], [1], ["x"]))
    assert content.table.attributes == {"AppendOnly": True}
    assert content.table.key_columns == ("a",)


def test_differences_know_nulls_and_nested_values() -> None:
    schema = pa.schema([("x", pa.float64()), ("items", pa.list_(pa.int8()))])
    before, after = (ReplicaTable(UpdateGraph(), "t", schema) for _ in range(2))
    rows = RowSet.flat(4)
    before.apply(
        ReplicaUpdate(rows, columns=[pa.array([1.0, None, 2.0, None]), pa.array([[1]] * 4, pa.list_(pa.int8()))])
    )
    after.apply(
        ReplicaUpdate(
            rows, columns=[pa.array([1.0, 5.0, None, None]), pa.array([[1], [2], [1], None], pa.list_(pa.int8()))]
        )
    )
    update = difference(before.version, after.version)
    assert update.modified[0][0] == RowSet.from_keys([1, 2])
    assert update.modified[1][0] == RowSet.from_keys([1, 3])
    before.apply(update)
    assert before.to_arrow().equals(after.to_arrow())


OTHER_NAN = np.array([0x7FF8_0000_0000_0001], np.uint64).view(np.float64)[0]
NEGATIVE_NAN = -np.float64("nan")


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_differences_are_found_bit_by_bit(depth: int) -> None:
    """Zeros of both signs differ, and NaNs of other bits; a NaN does not differ from itself. So at every depth."""
    old = np.array([0.0, -0.0, 0.0, np.nan, np.nan, np.nan, 1.0])
    new = np.array([-0.0, 0.0, 0.0, np.nan, OTHER_NAN, NEGATIVE_NAN, 1.0])

    def nested(values: npt.NDArray[np.float64]) -> pa.Array:
        array = pa.array(values, from_pandas=False)
        if depth:
            array = pa.StructArray.from_arrays([array], ["x"])
        return pa.ListArray.from_arrays(np.arange(len(array) + 1, dtype=np.int32), array) if depth == 2 else array

    schema = pa.schema([("x", nested(old).type)])
    before, after = (ReplicaTable(UpdateGraph(), "t", schema) for _ in range(2))
    before.apply(ReplicaUpdate(RowSet.flat(7), columns=[nested(old)]))
    after.apply(ReplicaUpdate(RowSet.flat(7), columns=[nested(new)]))
    assert difference(after.version, after.version).modified == {}
    update = difference(before.version, after.version)
    assert update.modified[0][0] == RowSet.from_keys([0, 1, 4, 5])
    before.apply(update)
    assert difference(before.version, after.version).modified == {}


def test_differences_of_more_rows_than_are_read_at_once() -> None:
    """Rows are compared in parts; the update is of them all."""
    count = 2 * READ_ROWS + 10
    schema = pa.schema([("x", pa.int64())])
    before, after = (ReplicaTable(UpdateGraph(), "t", schema) for _ in range(2))
    values = np.arange(count)
    before.apply(ReplicaUpdate(RowSet.flat(count), columns=[pa.array(values)]))
    after.apply(ReplicaUpdate(RowSet.flat(count), columns=[pa.array(np.where(values % READ_ROWS == 7, -1, values))]))
    update = difference(before.version, after.version)
    assert update.modified[0][0] == RowSet.from_keys([7, READ_ROWS + 7, 2 * READ_ROWS + 7])
    before.apply(update)
    assert before.to_arrow().equals(after.to_arrow())


def test_a_difference_of_one_cell_is_one_cell() -> None:
    table = KeyedTable(UpdateGraph(), "t", SCHEMA, ["a"])
    table.upsert({"a": [1, 2, 3], "b": ["x", "y", "z"]})
    before = table.version
    table.upsert({"a": [2], "b": ["changed"]})
    update = difference(before, table.version)
    assert not update.added
    assert not update.removed
    assert list(update.modified) == [1]

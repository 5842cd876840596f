"""A subscription that goes on with the replica of an earlier one, and one that hands its updates over at once."""

from __future__ import annotations

import queue

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.engine import TableTraits, TableUpdate
from barrage_server.rowset import RowSet

SCHEMA = pa.schema([("key", pa.int64()), ("text", pa.string())])


def _rows(keys: list[int], text: str) -> pa.Table:
    return pa.table({"key": keys, "text": [text] * len(keys)}, schema=SCHEMA)


def test_what_differs_goes_into_the_replica_in_one_update(server: bs.Server, client: bs.Client) -> None:
    rows = server.keyed_table("t", SCHEMA, key=["key"])
    rows.upsert(_rows([1, 2, 3], "x"))
    with client.subscribe("t") as first:
        replica = first.table
    replica.restate(TableTraits.of({"Mine": True}))
    rows.upsert(_rows([2, 4], "new"))
    rows.delete({"key": [1]})
    seen: list[TableUpdate] = []
    replica.add_listener(lambda update, _before, _after: seen.append(update))
    with bs.connect(server.uri) as other, other.subscribe("t", onto=replica, interval_ms=1) as second:
        assert second.table is replica
        assert replica.graph is client.graph
        assert [str(update) for update in seen] == ["+1 -1 ~1"]
        assert seen[0].modified[0].is_empty
        assert replica.attributes == {"Mine": True}
        assert second.to_arrow().equals(rows.to_arrow())
        rows.upsert(_rows([9], "later"))
        second.wait_until(lambda live: live.size == 4)
        assert replica.to_arrow().equals(rows.to_arrow())


def test_a_replica_with_other_columns_is_left_alone(server: bs.Server, client: bs.Client) -> None:
    server.append_table("t", SCHEMA).append(_rows([1], "x"))
    with client.subscribe("t", ["key"]) as narrow:
        replica = narrow.table
    with client.subscribe("t", onto=replica) as whole:
        assert whole.table is not replica
        assert whole.schema.names == ["key", "text"]
    assert replica.to_arrow().to_pydict() == {"key": [1]}


def test_updates_are_handed_over_from_the_first_one_and_not_kept(server: bs.Server, client: bs.Client) -> None:
    rows = server.append_table("t", SCHEMA)
    rows.append(_rows([1], "x"))
    updates: queue.Queue[bs.Update] = queue.Queue()
    with client.subscribe("t", on_update=updates.put, interval_ms=1) as live:
        rows.append(_rows([2], "y"))
        update = updates.get(timeout=20)
        assert update.added == RowSet.from_range(1, 1)
        assert update.added_values().to_pylist() == [{"key": 2, "text": "y"}]
        assert not list(live.updates(timeout=0))
    with pytest.raises(queue.Empty):
        updates.get_nowait()

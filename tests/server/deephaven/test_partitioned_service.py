"""Deephaven's service of partitioned tables: partitions, their tables by key, and all of them merged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pyarrow as pa
import pytest
from barrage_proto import deephaven_pb2 as proto
from barrage_proto import partitionedtable_pb2 as parts
from barrage_proto import table_pb2

import barrage_server as bs
from barrage_server.engine import AppendTable
from barrage_server.server import Limits, Principal, Role, Server
from barrage_server.server.authentication import Credentials
from barrage_server.wire.tickets import scope_ticket
from tests.server.deephaven.computing import Computing, export, result, scope

SCHEMA = pa.schema([("n", pa.int64()), ("sym", pa.string())])
WHOLE, PARTS, MERGED, KEY, ONE = 1, 2, 3, 4, 5


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(deephaven_port=0) as made:
        table = made.append_table("t", SCHEMA)
        table.append({"n": [5, 1, 4, 2, 3], "sym": ["a", "b", "a", None, "b"]})
        keys = made.append_table("keys", {"sym": "string", "other": "string"})
        keys.append({"sym": ["a", None, "z"], "other": ["b", "b", "b"]})
        yield made


def place(server: Server) -> str:
    return (server.deephaven_uri or "").removeprefix("dh+plain://")


@pytest.fixture
def client(server: Server) -> Iterator[Computing]:
    made = Computing(place(server))
    yield made
    made.disconnect()


def ticket(name: str) -> proto.Ticket:
    return proto.Ticket(ticket=scope_ticket(name))


def partition(client: Computing, *keys: str, drop_keys: bool = False, name: str = "t", number: int = PARTS) -> None:
    request = parts.PartitionByRequest(
        table_id=ticket(name), result_id=result(number), key_column_names=keys, drop_keys=drop_keys
    )
    assert client.partitioned("PartitionBy", request) == proto.ExportedTableCreationResponse()


def merge(client: Computing, source: Any = None) -> proto.ExportedTableCreationResponse:
    request = parts.MergeRequest(partitioned_table=source or result(PARTS), result_id=result(MERGED))
    return client.partitioned("Merge", request)


def get(client: Computing, key: Any, number: int = ONE) -> proto.ExportedTableCreationResponse:
    request = parts.GetTableRequest(partitioned_table=result(PARTS), key_table_ticket=key, result_id=result(number))
    return client.partitioned("GetTable", request)


def key_of(client: Computing, position: int, number: int = KEY) -> proto.Ticket:
    """The table of one row of the keys."""
    request = table_pb2.SliceRequest(
        result_id=result(number),
        source_id=scope("keys"),
        first_position_inclusive=position,
        last_position_exclusive=position + 1,
    )
    client.call("Slice", request)
    return result(number)


def refused(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value.code(), str(caught.value.details())


@pytest.mark.parametrize("drop_keys", [False, True])
def test_constituents_and_all_of_them(server: Server, client: Computing, drop_keys: bool) -> None:
    partition(client, "sym", drop_keys=drop_keys)
    assert client.read(PARTS).to_pydict() == {"sym": ["a", "b", None], "__CONSTITUENT__": ["QueryTable"] * 3}
    made = merge(client)
    assert (made.success, made.is_static, made.size) == (True, False, 5)
    names = ["n"] if drop_keys else ["n", "sym"]
    whole: dict[str, list[Any]] = {"n": [5, 4, 1, 3, 2], "sym": ["a", "a", "b", "b", None]}
    assert client.read(MERGED).to_pydict() == {name: whole[name] for name in names}
    first = get(client, key_of(client, 0))
    assert (first.success, first.is_static, first.size) == (True, False, 2)
    assert client.read(ONE).to_pydict() == {name: whole[name][:2] for name in names}
    assert get(client, key_of(client, 1, 8), 9).size == 1  # null is a key


def test_they_tick_and_new_keys_come(server: Server, client: Computing) -> None:
    partition(client, "sym")
    merge(client)
    get(client, key_of(client, 0))
    table = server.table("t")
    assert isinstance(table, AppendTable)
    table.append({"n": [7, 8], "sym": ["z", "a"]})
    assert client.read(MERGED)["n"].to_pylist() == [5, 4, 8, 1, 3, 2, 7]
    assert client.read(ONE)["n"].to_pylist() == [5, 4, 8]
    assert get(client, key_of(client, 2, 8), 9).size == 1


def test_a_constituent_stays_that_of_its_key(server: Server, client: Computing) -> None:
    """The table of the key may change later."""
    partition(client, "sym")
    last = table_pb2.HeadOrTailRequest(result_id=result(KEY), source_id=scope("keys"), num_rows=1)
    client.call("Head", last)
    assert get(client, result(KEY)).size == 2
    keys = server.table("keys")
    assert isinstance(keys, AppendTable)
    keys.append({"sym": ["b"], "other": ["b"]})
    assert client.read(ONE)["n"].to_pylist() == [5, 4]


def test_an_aggregation_with_constituents_is_a_partitioned_table(client: Computing) -> None:
    one = table_pb2.Aggregation(
        partition=table_pb2.Aggregation.AggregationPartition(column_name="p", include_group_by_columns=False)
    )
    request = table_pb2.AggregateRequest(
        result_id=result(PARTS), source_id=scope("t"), aggregations=[one], group_by_columns=["sym"]
    )
    client.call("Aggregate", request)
    merge(client)
    assert client.read(MERGED).to_pydict() == {"n": [5, 4, 1, 3, 2]}


def test_calls_may_come_before_what_they_need(client: Computing) -> None:
    """A merge of a table that is partitioned later waits for it."""
    waiting: Any = client.channel.unary_unary("/io.deephaven.proto.backplane.grpc.PartitionedTableService/Merge")
    request = parts.MergeRequest(partitioned_table=result(PARTS), result_id=result(MERGED))
    pending = waiting.future(request.SerializeToString(), timeout=30, metadata=(("authorization", client.bearer),))
    partition(client, "sym")
    pending.result()
    assert client.read(MERGED).num_rows == 5


def test_what_does_not_fit_is_refused(client: Computing) -> None:
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    assert refused(lambda: partition(client))[0] == invalid
    code, text = refused(lambda: partition(client, "nope"))
    assert code == invalid and "no column 'nope'" in text
    code, text = refused(lambda: partition(client, "n", "sym", drop_keys=True))
    assert code == invalid and "has no column" in text
    assert refused(lambda: partition(client, "sym", name="none"))[0] == grpc.StatusCode.NOT_FOUND
    partition(client, "sym")
    code, text = refused(lambda: get(client, ticket("keys")))
    assert code == invalid and "must have one row, and has 3" in text
    code, text = refused(lambda: get(client, key_of(client, 2)))
    assert code == grpc.StatusCode.NOT_FOUND and "no row of that key" in text
    client.call(
        "View", table_pb2.SelectOrUpdateRequest(result_id=result(20), source_id=export(KEY), column_specs=["other"])
    )
    code, text = refused(lambda: get(client, result(20)))
    assert code == invalid and "sym" in text
    for other in (ticket("t"), result(KEY)):
        code, text = refused(lambda source=other: merge(client, source))
        assert code == invalid and "must be that of a partitioned table" in text
    assert refused(lambda: merge(client, result(99)))[0] == invalid
    wrong = parts.MergeRequest(partitioned_table=result(PARTS), result_id=ticket("t"))
    assert refused(lambda: client.partitioned("Merge", wrong))[0] == invalid
    assert merge(client).size == 5  # the numbers of what was refused are free


def test_cells_of_a_served_table_do_not_lead_to_what_they_stand_for() -> None:
    """Callers have a right on the aggregation, and none on its source, which has no name."""
    source = bs.table({"n": [1, 2], "sym": ["a", "b"]})
    with Server(deephaven_port=0) as server:
        inner = bs.AppendTable(server.graph, "inner", SCHEMA)
        inner.append(source)
        server.add_table("summary", inner.agg_by(bs.agg.partition("p"), "sym"))
        client = Computing(place(server))
        code, text = refused(lambda: merge(client, ticket("summary")))
        assert code == grpc.StatusCode.INVALID_ARGUMENT and "must be that of a partitioned table" in text
        client.disconnect()


def test_who_may_not_read_the_table_any_more_gets_no_constituents() -> None:
    def principal(credentials: Credentials) -> Principal:
        return Principal("r", roles=["reader"])

    roles = {"reader": Role(["t", "keys"], ["read", "list"])}
    with Server(deephaven_port=0, token=principal, roles=roles) as server:
        server.append_table("t", SCHEMA).append({"n": [1], "sym": ["a"]})
        server.append_table("keys", {"sym": "string"}).append({"sym": ["a"]})
        client = Computing(place(server), "Bearer r")
        partition(client, "sym")
        assert get(client, ticket("keys")).size == 1
        server.reload(roles={"reader": Role(["keys"], ["read", "list"])})
        for call in (lambda: merge(client), lambda: get(client, ticket("keys"), 9)):
            assert refused(call)[0] in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.PERMISSION_DENIED)
        client.disconnect()


def test_results_are_counted_and_released() -> None:
    with Server(deephaven_port=0, limits=Limits(total_results=3)) as server:
        server.append_table("t", SCHEMA).append({"n": [1], "sym": ["a"]})
        client = Computing(place(server))
        partition(client, "sym")
        merge(client)
        code, text = refused(lambda: partition(client, "n", number=30))
        assert code == grpc.StatusCode.RESOURCE_EXHAUSTED and "total_results" in text
        client.release(MERGED)
        client.release(PARTS)
        partition(client, "n", number=31)
        client.disconnect()

"""Deephaven's Python client, unmodified: operations on tables of this server, one by one and as queries."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from barrage_server import Server
from barrage_server.engine import AppendTable
from tests.waiting import until

from .peer import PeerError
from .python_client import Pydeephaven

pytestmark = pytest.mark.interop

SCHEMA = pa.schema([("n", pa.int64()), ("sym", pa.string()), ("price", pa.float64())])


@pytest.fixture
def trades(server: Server, client: Pydeephaven) -> AppendTable:
    table = server.append_table("trades", SCHEMA)
    table.append({"n": [1, 2, 3, 4], "sym": ["a", "b", "a", None], "price": [1.5, None, 2.5, 4.0]})
    client.execute("t = session.open_table('trades')")
    client.execute("names = session.import_table(pa.table({'sym': ['a', 'b'], 'name': ['Acme', 'Bolt']}))")
    client.execute(
        "from pydeephaven import agg, SortDirection, NaturalJoinType; from pydeephaven.filters import is_null"
    )
    return table


CASES: list[tuple[str, dict[str, list[Any]]]] = [
    ("t.update(['x = n * 2'])", {"x": [2, 4, 6, 8]}),
    ("t.lazy_update(['x = n * 2'])", {"x": [2, 4, 6, 8]}),
    ("t.update_view(['x = n * 2'])", {"x": [2, 4, 6, 8]}),
    ("t.view(['x = price + 1'])", {"x": [2.5, None, 3.5, 5.0]}),
    ("t.select(['n'])", {"n": [1, 2, 3, 4]}),
    ("t.drop_columns(['price'])", {"n": [1, 2, 3, 4]}),
    ("t.where(['n > 1', 'price < 3'])", {"n": [2, 3]}),
    ("t.where(is_null('sym'))", {"n": [4]}),
    ("t.head(2)", {"n": [1, 2]}),
    ("t.tail(2)", {"n": [3, 4]}),
    ("t.slice(1, -1)", {"n": [2, 3]}),
    ("t.sort(['sym', 'n'], [SortDirection.ASCENDING, SortDirection.DESCENDING])", {"n": [4, 3, 1, 2]}),
    ("t.sort_descending('price')", {"n": [4, 3, 1, 2]}),
    ("t.select_distinct(['sym'])", {"sym": ["a", "b", None]}),
    ("t.count_by('rows', by=['sym'])", {"rows": [2, 1, 1]}),
    ("t.sum_by(by=['sym'])", {"n": [4, 2, 4]}),
    ("t.last_by(by=['sym'])", {"n": [3, 2, 4]}),
    ("t.head_by(1, by=['sym'])", {"n": [1, 2, 4]}),
    ("t.group_by(by=['sym'])", {"n": [[1, 3], [2], [4]]}),
    ("t.group_by(by=['sym']).ungroup()", {"n": [1, 3, 2, 4]}),
    (
        "t.agg_by([agg.max_('most = price'), agg.median('middle = n'), agg.count_where('large', 'n > 2')], by='sym')",
        {"most": [2.5, None, 4.0], "middle": [2.0, 2.0, 4.0], "large": [1, 0, 1]},
    ),
    ("t.agg_by([agg.partition('p'), agg.sum_('n')], by=['sym'])", {"p": ["QueryTable"] * 3, "n": [4, 2, 4]}),
    ("t.agg_by(agg.formula('f = sum(n) / 2'), by=['sym'])", {"f": [2.0, 1.0, 2.0]}),
    ("t.natural_join(names, on=['sym'], joins=['name'])", {"name": ["Acme", "Bolt", "Acme", None]}),
    ("t.natural_join(t, on=['sym'], joins=['m = n'], type=NaturalJoinType.LAST_MATCH)", {"m": [3, 2, 3, 4]}),
    ("t.where('n < 4').exact_join(names, on=['sym'], joins=['name'])", {"name": ["Acme", "Bolt", "Acme"]}),
    ("t.join(names, on=['sym'], joins=['name'])", {"n": [1, 2, 3], "name": ["Acme", "Bolt", "Acme"]}),
    ("t.aj(t.where('n != 3'), on=['n >= n'], joins=['m = n'])", {"m": [1, 2, 2, 4]}),
    ("t.raj(t.where('n != 3'), on=['n <= n'], joins=['m = n'])", {"m": [1, 2, 4, 4]}),
    ("t.where_in(names, cols=['sym'])", {"n": [1, 2, 3]}),
    ("t.where_not_in(names, cols=['sym'])", {"n": [4]}),
    ("session.merge_tables([t, t.where('n > 3')])", {"n": [1, 2, 3, 4, 4]}),
    ("session.merge_tables([t, t.where('n > 3')], order_by='n')", {"n": [1, 2, 3, 4, 4]}),
    ("t.snapshot()", {"n": [1, 2, 3, 4]}),
    ("t.snapshot_when(names, stamp_cols=['last = sym'], initial=True)", {"n": [1, 2, 3, 4], "last": ["b"] * 4}),
    ("t.snapshot_when(names, stamp_cols=['name'], history=True).head(5)", {"n": [1, 2, 3, 4, 1]}),
    ("t.meta_table", {"Name": ["n", "sym", "price"]}),
    ("session.empty_table(3).update(['x = ii'])", {"x": [0, 1, 2]}),
    ("session.query(t).where(['n > 1']).update(['x = n']).sort(['x']).tail(2).exec()", {"x": [3, 4]}),
]


@pytest.mark.parametrize(("query", "expected"), CASES)
def test_an_operation(client: Pydeephaven, trades: AppendTable, query: str, expected: dict[str, list[Any]]) -> None:
    assert trades.size == 4
    client.execute(f"r = {query}")
    found = client.fetch("r.to_arrow()")
    assert {name: found[name].to_pylist() for name in expected} == expected


def test_a_result_ticks(client: Pydeephaven, trades: AppendTable) -> None:
    client.execute("r = t.where('n > 2').sort_descending('n').head(2)")
    assert client.evaluate("r.is_refreshing") is True
    assert client.fetch("r.to_arrow()")["n"].to_pylist() == [4, 3]
    trades.append({"n": [9, 0], "sym": ["z", "z"], "price": [0.0, 0.0]})
    assert client.fetch("r.to_arrow()")["n"].to_pylist() == [9, 4]


def test_a_time_table_ticks(client: Pydeephaven, trades: AppendTable) -> None:
    assert trades.size == 4
    client.execute("c = session.time_table(period=20_000_000).update(['x = ii'])")
    assert client.evaluate("c.is_refreshing") is True
    until(lambda: client.fetch("c.to_arrow()").num_rows >= 3)
    assert client.fetch("c.to_arrow()")["x"].to_pylist()[:3] == [0, 1, 2]


def test_a_result_gets_a_name(server: Server, client: Pydeephaven, trades: AppendTable) -> None:
    client.execute("session.bind_table('large', t.where('n > 2'))")
    trades.append({"n": [9], "sym": ["z"], "price": [0.0]})
    assert server.table("large").to_arrow()["n"].to_pylist() == [3, 4, 9]


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("t.where('nope > 1')", "nope"),
        ("t.update('x = __import__(`os`)')", "__import__"),
        ("session.query(t).where('nope > 1').head(1).exec()", "nope"),
        ("t.snapshot_when(t)", "'n' twice"),
        ("session.run_script('x = 1')", "This server runs no scripts"),
    ],
)
def test_what_cannot_be_computed_says_why(client: Pydeephaven, trades: AppendTable, statement: str, text: str) -> None:
    with pytest.raises(PeerError, match=text) as caught:
        client.execute(statement)
    assert caught.value.kind == "DHError"
    assert client.fetch("t.to_arrow()").num_rows == trades.size


def test_a_table_is_partitioned(client: Pydeephaven, trades: AppendTable) -> None:
    """By the calls of the service of partitioned tables, for which Deephaven's client has messages and no methods."""
    client.execute(
        "from deephaven_core.proto import partitionedtable_pb2 as parts, partitionedtable_pb2_grpc as service\n"
        "stub = service.PartitionedTableServiceStub(session.grpc_channel)\n"
        "tickets = [session.make_export_ticket() for _ in range(3)]\n"
        "whole, merged, one = [ticket.pb_ticket for ticket in tickets]\n"
        "session.wrap_rpc(stub.PartitionBy, parts.PartitionByRequest(\n"
        "    table_id=t.pb_ticket, result_id=whole, key_column_names=['sym']))\n"
        "session.wrap_rpc(stub.Merge, parts.MergeRequest(partitioned_table=whole, result_id=merged))\n"
        "key = session.import_table(pa.table({'sym': ['a']}))\n"
        "session.wrap_rpc(stub.GetTable, parts.GetTableRequest(\n"
        "    partitioned_table=whole, key_table_ticket=key.pb_ticket, result_id=one))\n"
        "constituent, everything = session.fetch_table(tickets[2]), session.fetch_table(tickets[1])\n"
    )
    assert client.fetch("constituent.to_arrow()")["n"].to_pylist() == [1, 3]
    trades.append({"n": [9], "sym": ["a"], "price": [0.0]})
    assert client.fetch("constituent.to_arrow()")["n"].to_pylist() == [1, 3, 9]
    assert client.fetch("everything.to_arrow()")["n"].to_pylist() == [1, 3, 9, 2, 4]

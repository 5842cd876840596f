"""Deephaven's Python client, unmodified: tables that it uploads, names, shares, fills, and loses."""

from __future__ import annotations

import datetime as dt
import gc
import weakref
from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server import Server
from barrage_server.engine import KeyedTable
from barrage_server.server import Limits
from barrage_server.server.deephaven.exports import Exports
from tests.engine.samples import SAMPLES, pick
from tests.waiting import until

from .peer import Peer, PeerError
from .python_client import Pydeephaven, port_of

pytestmark = pytest.mark.interop

SCHEMA = pa.schema([("sym", pa.string()), ("price", pa.float64())])

# Columns that the client can upload, as its own tests have them, with nulls beside the values.
UPLOADS: dict[str, pa.Array] = {
    "bool": pa.array([True, None, False]),
    "int8": pa.array([-128, None, 127], pa.int8()),
    "int16": pa.array([-(2**15), None, 2**15 - 1], pa.int16()),
    "int32": pa.array([-(2**31), None, 2**31 - 1], pa.int32()),
    "int64": pa.array([-(2**63), None, 2**63 - 1], pa.int64()),
    "uint8": pa.array([255, None, 0], pa.uint8()),
    "uint16": pa.array([65535, None, 0], pa.uint16()),
    "uint32": pa.array([2**32 - 1, None, 0], pa.uint32()),
    "uint64": pa.array([2**64 - 1, None, 0], pa.uint64()),
    "float16": pa.array([np.float16(1.5), None, np.float16(-2.5)], pa.float16()),
    "float32": pa.array([1.5, None, -3.4028234663852886e38], pa.float32()),
    "float64": pa.array([1.5, None, -1.7976931348623157e308], pa.float64()),
    "string": pa.array(["text", None, ""]),
    "binary": pa.array([b"\0\1", None, b""]),
    "fixed_size_binary": pa.array([b"\0\1", None, b"\2\3"], pa.binary(2)),
    "decimal128": pa.array([Decimal("123.45"), None, Decimal("-67.89")], pa.decimal128(10, 2)),
    "decimal256": pa.array([Decimal("123456.78901"), None, Decimal("-98765.43210")], pa.decimal256(20, 5)),
    "date32": pa.array([dt.date(2012, 1, 1), None, dt.date(1960, 11, 11)], pa.date32()),
    "date64": pa.array([dt.date(2012, 1, 1), None, dt.date(1960, 11, 11)], pa.date64()),
    "time32[s]": pa.array([1000, None, 86_399], pa.int32()).view(pa.time32("s")),
    "time32[ms]": pa.array([1000, None, 86_399_999], pa.int32()).view(pa.time32("ms")),
    "time64[us]": pa.array([1000, None, 86_399_999_999], pa.int64()).view(pa.time64("us")),
    "time64[ns]": pa.array([1000, None, 86_399_999_999_999], pa.int64()).view(pa.time64("ns")),
    **{
        f"{name}[{unit}]": pa.array([1_000_000_000, None, -1], pa.int64()).view(make(unit))
        for name, make in {"timestamp": pa.timestamp, "duration": pa.duration}.items()
        for unit in ("s", "ms", "us", "ns")
    },
    "timestamp[ns, UTC]": pa.array([1_000_000_000, None, -1], pa.int64()).view(pa.timestamp("ns", "UTC")),
    "timestamp[us, New York]": pa.array([1_000, None, -1], pa.int64()).view(pa.timestamp("us", "America/New_York")),
    "month_day_nano_interval": pa.array([(1, 15, 100), None, (-2, 20, 200)], pa.month_day_nano_interval()),
    "null": pa.nulls(3),
    "list<int32>": pa.array([[1, None, 2], None, []], pa.list_(pa.int32())),
    "list<string>": pa.array([["a", None], None, []], pa.list_(pa.string())),
    "list<list<int8>>": pa.array([[[1], None, []], None, []], pa.list_(pa.list_(pa.int8()))),
    "fixed_size_list<int32>": pa.array([[1, 2, 3], None, [4, None, 6]], pa.list_(pa.int32(), 3)),
    "list_view<int32>": pa.array([[5, None], None, [7]], pa.list_view(pa.int32())),
    "dense_union": pa.UnionArray.from_dense(
        pa.array([0, 1, 0], pa.int8()),
        pa.array([0, 0, 1], pa.int32()),
        [pa.array(["x", None]), pa.array([10])],
        ["str", "int"],
    ),
    "sparse_union": pa.UnionArray.from_sparse(
        pa.array([1, 0, 1], pa.int8()), [pa.array(["m", "n", "o"]), pa.array([7, 8, None])], ["str", "int"]
    ),
    "map<string, int32>": pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int32())),
}


@pytest.fixture
def quotes(server: Server) -> KeyedTable:
    table = server.keyed_table("quotes", SCHEMA, key=["sym"])
    table.upsert({"sym": ["A", "B"], "price": [1.0, None]})
    return table


# Uploads.


@pytest.mark.parametrize("kind", UPLOADS)
def test_what_is_uploaded_comes_back_the_same(client: Pydeephaven, kind: str) -> None:
    rows = pa.table({"f1": UPLOADS[kind], "number": [1, 2, 3]})
    client.give("rows", rows)
    client.execute("t = session.import_table(rows)")
    assert client.evaluate("[t.size, t.is_closed]") == [3, False]
    found = client.fetch("t.to_arrow()")
    assert found.schema.equals(rows.schema)
    assert found.equals(rows)


def test_every_type_that_a_table_can_hold_is_read(server: Server, client: Pydeephaven) -> None:
    rows = pa.table({name: pick(sample, range(8)) for name, sample in SAMPLES.items()})
    table = server.append_table("all", rows.schema)
    table.append(rows)
    client.execute("t = session.open_table('all')")
    found = client.fetch("t.to_arrow()")
    assert found.schema.equals(rows.schema)
    assert [str(column.to_pylist()) for column in found.columns] == [str(column.to_pylist()) for column in rows.columns]


def test_what_a_table_cannot_hold_is_refused_with_the_reason(client: Pydeephaven) -> None:
    """The client does not check how its upload ended; using the table is an error."""
    client.execute("t = session.import_table(pa.table([[1], [2]], names=['f1', 'f1']))")
    for statement in ("t.to_arrow()", "session.bind_table('mine', t)"):
        with pytest.raises(PeerError, match="stand more than once"):
            client.execute(statement)
    assert client.evaluate("session.import_table(pa.table({'a': [1]})).to_arrow().num_rows") == 1


def test_no_rows(client: Pydeephaven) -> None:
    client.give("rows", SCHEMA.empty_table())
    client.execute("t = session.import_table(rows)")
    assert client.evaluate("t.size") == 0
    assert client.fetch("t.to_arrow()").equals(SCHEMA.empty_table())


def test_many_chunks_and_a_record_batch(client: Pydeephaven) -> None:
    client.execute("rows = pa.concat_tables([pa.table({'n': [i, None], 's': [str(i), '']}) for i in range(100)])")
    assert client.evaluate("session.import_table(rows).to_arrow().equals(rows)")
    client.execute("batch = rows.combine_chunks().to_batches()[0].slice(7, 50)")
    assert client.evaluate("session.import_table(pa.Table.from_batches([batch])).to_arrow() == rows.slice(7, 50)")


def test_a_message_far_beyond_what_grpc_takes_by_default(client: Pydeephaven) -> None:
    client.execute("rows = pa.table({'n': pa.array(range(3_000_000)), 's': pa.array(['0123456789'] * 3_000_000)})")
    assert client.evaluate("rows.nbytes > 60 << 20 and rows['n'].num_chunks == 1")
    assert client.evaluate("session.import_table(rows).to_arrow().equals(rows)")


def test_an_upload_is_the_sessions_own_and_static(
    server: Server, client: Pydeephaven, quotes: KeyedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Exports, "wait_seconds", 0.1)
    client.execute("t = session.import_table(session.open_table('quotes').to_arrow())")
    client.execute("again = session.table_service.fetch_etcr(t.pb_ticket)")
    assert client.evaluate("again.is_refreshing") is False
    assert client.evaluate("session.tables") == ["quotes"]
    client.log_in(server, name="other")
    with pytest.raises(PeerError, match="There is no export"):
        client.execute("Table(other, t.ticket, size=1, schema=t.schema).to_arrow()")
    client.execute("other.close()")


def test_uploads_are_freed_with_their_last_holder(server: Server, client: Pydeephaven) -> None:
    client.execute("t = session.import_table(pa.table({'a': [1]}))")
    client.execute("other = session.table_service.fetch_etcr(t.pb_ticket)")
    assert server.statistics().exports == 1
    client.execute("t.close()")
    assert server.statistics().exports == 0
    with pytest.raises(PeerError, match="was released: its table was closed"):
        client.execute("t.to_arrow()")


# Names.


def test_bind_table(server: Server, client: Pydeephaven) -> None:
    client.execute("t = session.import_table(pa.table({'a': [1, 2]}))")
    client.execute("session.bind_table('mine', t)")
    assert client.evaluate("session.tables") == ["mine"]
    assert server.table("mine").to_arrow()["a"].to_pylist() == [1, 2]
    with bs.connect(server.uri) as ours:
        assert ours.snapshot("mine")["a"].to_pylist() == [1, 2]
    client.execute("session.bind_table('mine', session.import_table(pa.table({'b': ['x']})))")
    assert client.fetch("session.open_table('mine').to_arrow()").to_pydict() == {"b": ["x"]}
    assert server.table("mine").to_arrow()["b"].to_pylist() == ["x"]
    assert client.evaluate("session.tables") == ["mine"]


def test_a_bound_table_outlives_its_session(server: Server, pydeephaven: Pydeephaven) -> None:
    pydeephaven.log_in(server)
    pydeephaven.execute("session.bind_table('mine', session.import_table(pa.table({'a': [1, 2]}))); session.close()")
    assert server.table("mine").size == 2
    pydeephaven.log_in(server)
    assert pydeephaven.fetch("session.open_table('mine').to_arrow()")["a"].to_pylist() == [1, 2]
    pydeephaven.execute("session.bind_table('mine', session.import_table(pa.table({'a': [3]}))); session.close()")
    assert server.table("mine").to_arrow()["a"].to_pylist() == [3]


def test_a_bound_table_takes_rows_from_our_side(server: Server, client: Pydeephaven) -> None:
    client.execute("t = session.import_table(pa.table({'a': [1]})); session.bind_table('mine', t)")
    with bs.connect(server.uri) as ours, ours.subscribe("mine", interval_ms=1) as live:
        ours.publish("mine", {"a": [2, 3]})
        live.wait_until(lambda table: table.size == 3)
    assert client.fetch("session.open_table('mine').to_arrow()")["a"].to_pylist() == [1, 2, 3]
    assert client.fetch("t.to_arrow()")["a"].to_pylist() == [1, 2, 3]
    assert client.evaluate("session.open_table('mine').is_refreshing") is True


def test_tables_of_the_server_keep_their_names(client: Pydeephaven, quotes: KeyedTable) -> None:
    client.execute("t = session.import_table(pa.table({'a': [1]}))")
    with pytest.raises(PeerError, match="There is a table 'quotes' on the server; choose another name"):
        client.execute("session.bind_table('quotes', t)")
    with pytest.raises(PeerError, match="served as 'quotes'"):
        client.execute("session.bind_table('copy', session.open_table('quotes'))")
    client.execute("session.bind_table('quotes', session.open_table('quotes'))")
    assert client.fetch("session.open_table('quotes').to_arrow()").equals(quotes.to_arrow())
    assert client.evaluate("session.tables") == ["quotes"]


# Shared tickets.


@pytest.fixture
def other(server: Server, client: Pydeephaven) -> Iterator[Pydeephaven]:
    """A second session beside the first, named ``other``, and a ticket that both know."""
    client.log_in(server, name="other")
    client.execute("ticket = SharedTicket.random_ticket()")
    yield client
    client.execute("other.close()")


def test_a_table_is_shared_between_sessions(other: Pydeephaven) -> None:
    other.execute("t = session.import_table(pa.table({'a': [1, 2]})); session.publish_table(ticket, t)")
    other.execute("found = other.fetch_table(ticket)")
    assert other.evaluate("[found.size, found.schema.names, found.is_refreshing]") == [2, ["a"], False]
    assert other.fetch("found.to_arrow()")["a"].to_pylist() == [1, 2]
    other.execute("exported = other.fetch(ticket)")
    assert other.fetch("Table(other, exported, size=2, schema=t.schema).to_arrow()")["a"].to_pylist() == [1, 2]


def test_a_table_that_ticks_is_shared(other: Pydeephaven, quotes: KeyedTable) -> None:
    other.execute("session.publish_table(ticket, session.open_table('quotes')); found = other.fetch_table(ticket)")
    assert other.evaluate("found.is_refreshing") is True
    quotes.upsert({"sym": ["C"], "price": [3.0]})
    assert other.fetch("found.to_arrow()").equals(quotes.to_arrow())


def test_a_table_of_the_server_is_fetched_by_its_name_and_shared(other: Pydeephaven, quotes: KeyedTable) -> None:
    other.execute("session.publish(session.fetch(ScopeTicket.scope_ticket('quotes')), ticket)")
    other.execute("found = other.table_service.fetch_etcr(other.fetch(ticket).pb_ticket)")
    assert other.evaluate("[found.size, found.is_refreshing]") == [quotes.size, True]
    quotes.upsert({"sym": ["D"], "price": [4.0]})
    assert other.fetch("found.to_arrow()").equals(quotes.to_arrow())


def test_nothing_is_shared_under_an_unknown_ticket(other: Pydeephaven) -> None:
    with pytest.raises(PeerError, match="Nothing is shared under this ticket"):
        other.execute("other.fetch_table(ticket)")
    other.execute("t = session.import_table(pa.table({'a': [1]})); session.publish_table(ticket, t)")
    with pytest.raises(PeerError, match="Something is shared under this ticket already"):
        other.execute("other.publish_table(ticket, other.import_table(pa.table({'b': [1]})))")


def test_a_shared_table_goes_with_its_publisher(server: Server, other: Pydeephaven) -> None:
    other.log_in(server, name="publisher")
    other.execute("publisher.publish_table(ticket, publisher.import_table(pa.table({'a': [1]})))")
    other.execute("held = other.fetch(ticket); publisher.close()")
    with pytest.raises(PeerError, match="Nothing is shared under this ticket"):
        other.execute("other.fetch_table(ticket)")
    assert other.fetch("Table(other, held, size=1, schema=pa.schema([('a', pa.int64())])).to_arrow()").num_rows == 1


# Input tables.


def test_rows_are_added_to_an_input_table(client: Pydeephaven) -> None:
    client.execute("schema = pa.schema([('a', pa.int64()), ('s', pa.string())])")
    client.execute("t = session.input_table(schema=schema)")
    assert client.evaluate("[t.size, t.is_refreshing]") == [0, True]
    client.execute("t.add(session.import_table(pa.table({'a': [1, 2], 's': ['x', None]})))")
    client.execute("t.add(session.import_table(pa.table({'a': [3], 's': ['z']})))")
    assert client.fetch("t.to_arrow()").to_pydict() == {"a": [1, 2, 3], "s": ["x", None, "z"]}
    with pytest.raises(PeerError, match="append-only"):
        client.execute("t.delete(session.import_table(pa.table({'a': [1]})))")
    with pytest.raises(PeerError, match="SchemaMismatchError"):
        client.execute("t.add(session.import_table(pa.table({'b': [1]})))")
    assert client.evaluate("t.to_arrow().num_rows") == 3


def test_rows_of_a_keyed_input_table_are_replaced_and_deleted(server: Server, client: Pydeephaven) -> None:
    client.execute("init = session.import_table(pa.table({'k': [1, 2, 3], 's': ['a', 'b', 'c']}))")
    client.execute("t = session.input_table(init_table=init, key_cols='k')")
    assert client.evaluate("t.to_arrow().num_rows") == 0  # as on Deephaven's server, which takes just the columns
    client.execute("t.add(init); t.add(session.import_table(pa.table({'k': [2, 4], 's': ['B', 'd']})))")
    assert client.fetch("t.to_arrow()").to_pydict() == {"k": [1, 2, 3, 4], "s": ["a", "B", "c", "d"]}
    client.execute("t.delete(session.import_table(pa.table({'k': [1, 9]})))")
    assert client.fetch("t.to_arrow()").to_pydict() == {"k": [2, 3, 4], "s": ["B", "c", "d"]}
    client.execute("session.bind_table('typed', t)")
    with bs.connect(server.uri) as ours:
        ours.upsert("typed", {"k": [4], "s": ["D"]})
    assert client.fetch("t.to_arrow()")["s"].to_pylist() == ["B", "c", "D"]


def test_a_blink_input_table_keeps_nothing(client: Pydeephaven) -> None:
    client.execute("t = session.input_table(schema=pa.schema([('a', pa.int64())]), blink_table=True)")
    client.execute("t.add(session.import_table(pa.table({'a': [1, 2]})))")
    client.execute("t.add(session.import_table(pa.table({'a': [3]})))")
    assert client.fetch("t.to_arrow()")["a"].to_pylist() == [3]


def test_tables_of_the_server_are_input_tables(client: Pydeephaven, quotes: KeyedTable) -> None:
    """The client has no call that opens one as such, but the service takes the ticket of any."""
    client.execute("from pydeephaven.table import InputTable")
    client.execute("q = session.open_table('quotes')")
    client.execute("t = InputTable(session, q.ticket, size=2, schema=q.schema); t.key_cols = ['sym']")
    client.execute("t.add(session.import_table(pa.table({'sym': ['B', 'C'], 'price': [2.0, 3.0]})))")
    client.execute("t.delete(session.import_table(pa.table({'sym': ['A']})))")
    assert quotes.to_arrow().to_pydict() == {"sym": ["B", "C"], "price": [2.0, 3.0]}


# The end of a session.


def test_a_session_that_is_used_lives_on(pydeephaven: Pydeephaven) -> None:
    with Server(deephaven_port=0, limits=Limits(session_seconds=1.5)) as server:
        pydeephaven.log_in(server)
        pydeephaven.log_in(server, name="silent", never_timeout=False)
        pydeephaven.execute("t = session.import_table(pa.table({'a': [1]}))")
        pydeephaven.execute("u = silent.import_table(pa.table({'a': [1]}))")
        assert (server.statistics().sessions, server.statistics().exports) == (2, 2)
        until(lambda: server.statistics().sessions == 1)
        assert server.statistics().exports == 1
        with pytest.raises(PeerError, match="Log in again"):
            pydeephaven.execute("u.to_arrow()")
        assert pydeephaven.evaluate("[session.is_alive, silent.is_alive]") == [True, False]
        assert pydeephaven.fetch("t.to_arrow()")["a"].to_pylist() == [1]
        pydeephaven.execute("session.close(); silent.close()")
        assert (server.statistics().sessions, server.statistics().exports) == (0, 0)


def test_nothing_is_left_of_a_client_that_was_killed() -> None:
    limits = Limits(session_seconds=1.5)
    with Server(deephaven_port=0, limits=limits) as server, Peer.python("ticking", "pydeephaven_client") as peer:
        quotes = server.keyed_table("quotes", SCHEMA, key=["sym"])
        quotes.upsert({"sym": ["A"], "price": [1.0]})
        peer.call("execute", code=f"session = Session('127.0.0.1', {port_of(server)})")
        peer.call("execute", code="q = session.open_table('quotes'); t = session.import_table(pa.table({'a': [1]}))")
        peer.call("execute", code="session.publish_table(SharedTicket(b'h' + b'x' * 16), t)")
        peer.call("start", name="listener", table="q")
        peer.event("listener")
        uploads = [entry for entry in gc.get_objects() if type(entry).__name__ == "AppendTable" and entry.size == 1]
        (upload,) = [weakref.ref(entry) for entry in uploads if entry.graph is server.graph]
        uploads.clear()
        found = server.statistics()
        assert (found.sessions, found.exports, len(found.subscriptions)) == (1, 2, 1)
        peer.kill()
        until(lambda: not server.statistics().subscriptions)
        until(lambda: server.statistics().sessions == 0)
        assert server.statistics().exports == 0
        until(lambda: gc.collect() >= 0 and upload() is None)
        quotes.upsert({"sym": ["B"], "price": [1.0]})


def test_closing_twice_is_fine(server: Server, pydeephaven: Pydeephaven) -> None:
    pydeephaven.log_in(server)
    pydeephaven.execute("session.close(); session.close()")
    assert not pydeephaven.evaluate("session.is_alive")
    assert server.statistics().sessions == 0

"""A real Deephaven server as a client of ours: subscriptions, snapshots, URIs, and what is computed from them there."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
import trustme

import barrage_server as bs
from barrage_server import Server
from barrage_server.server import Limits
from barrage_server.subscription import SubscriptionLimits
from tests.properties.sources import SCHEMA
from tests.waiting import until

from .deephaven import PSK_TYPE, DeephavenServer
from .peer import PeerError
from .ports import unused_port
from .python_client import port_of
from .remote import PATIENCE, Remote
from .served import KINDS, served

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

QUIET_POINTS = 40
QUOTES = pa.schema([("sym", pa.string()), ("price", pa.float64()), ("size", pa.int64())])


@pytest.fixture
def server() -> Iterator[Server]:
    limits = SubscriptionLimits(default_interval_ms=1)
    with Server(deephaven_port=unused_port(), limits=PATIENCE, subscriptions=limits) as server:
        yield server


@pytest.fixture
def remote(deephaven: DeephavenServer, server: Server) -> Iterator[Remote]:
    """A session of the Deephaven server, of which nothing may be left when it is closed."""
    remote = Remote(deephaven, server)
    yield remote
    remote.close()
    until(lambda: server.statistics().sessions == 0)
    assert server.statistics().exports == 0
    until(lambda: not server.statistics().subscriptions)


# Following.


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_that_changes_at_random(server: Server, remote: Remote, kind: str) -> None:
    """At every quiet point it is the same there, and every update is one that Deephaven's own validator accepts."""
    chance = random.Random(kind)
    with served(kind, server) as source:
        source.change(chance, 3)
        source.settle()
        table = remote.subscribe("t")
        remote.wait_for(table, source.table.to_arrow().to_pylist())
        validator = remote.validated(table)
        assert remote.deephaven.evaluate(f"{table}.is_refreshing")
        for _ in range(QUIET_POINTS):
            source.change(chance, chance.choice([1, 2, 10]))
            source.settle()
            remote.wait_for(table, source.table.to_arrow().to_pylist())
        source.source.check()
        assert remote.content(table).schema.names == SCHEMA.names
        assert not remote.deephaven.evaluate(f"{validator}.hasFailed()")
        assert not remote.deephaven.evaluate(f"{table}.j_table.isFailed()")
        (gauges,) = server.statistics().subscriptions
        assert gauges.messages > QUIET_POINTS


def test_what_is_computed_from_it_there_follows(server: Server, remote: Remote) -> None:
    chance = random.Random(11)
    with served("keyed", server) as source:
        source.change(chance, 5)
        table = remote.subscribe("t")
        doubled = remote.make(f"{table}.update_view(['twice = 2 * key', 'long_text = text + `!`'])")
        sums = remote.make(
            f"{table}.agg_by([agg.sum_('keys=key'), agg.max_('most=number'), agg.count_('n')], by='text')"
        )
        ordered = remote.make(f"{table}.sort_descending('key')")
        large = remote.make(f"{table}.where('key > 5').view(['key', 'flag'])")
        joined = remote.make(f"{table}.view(['key', 'text']).natural_join({sums}, on='text', joins='n')")
        for _ in range(QUIET_POINTS):
            source.change(chance, chance.choice([1, 3]))
            rows = source.table.to_arrow().to_pylist()
            remote.wait_for(table, rows)
            remote.wait_for(
                doubled,
                [
                    row | {"twice": 2 * row["key"], "long_text": f"{'null' if row['text'] is None else row['text']}!"}
                    for row in rows
                ],
            )
            remote.wait_for(ordered, sorted(rows, key=lambda row: -row["key"]))
            remote.wait_for(large, [{"key": row["key"], "flag": row["flag"]} for row in rows if row["key"] > 5])
            remote.wait_for(f"{sums}.sort('text')", _sums(rows))
            counts = {entry["text"]: entry["n"] for entry in _sums(rows)}
            remote.wait_for(
                joined, [{"key": row["key"], "text": row["text"], "n": counts[row["text"]]} for row in rows]
            )


def _sums(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    groups: dict[str | None, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["text"]].append(row)
    texts = sorted(groups, key=lambda text: (text is not None, text or ""))
    return [
        {
            "text": text,
            "keys": sum(row["key"] for row in groups[text]),
            "most": max((row["number"] for row in groups[text] if row["number"] is not None), default=None),
            "n": len(groups[text]),
        }
        for text in texts
    ]


def test_large_updates(server: Server, remote: Remote) -> None:
    """More rows than fit into a batch, in columns that change in different rows, and a first snapshot in parts."""
    size = 200_000
    schema = pa.schema([("id", pa.int64()), ("a", pa.float64()), ("text", pa.string())])
    table = server.keyed_table("large", schema, key=["id"])
    table.upsert({"id": [*range(size)], "a": [0.5] * size, "text": ["x"] * size})
    name = remote.subscribe("large")
    validator = remote.validated(name)
    with server.cycle():
        table.delete({"id": [*range(0, size, 5)]})
        table.upsert({"id": [*range(size, 2 * size)], "a": [None] * size, "text": [str(n) for n in range(size)]})
        table.upsert({"id": [*range(1, size, 5)], "a": [1.5] * (size // 5), "text": ["x"] * (size // 5)})
        table.upsert({"id": [2], "a": [0.5], "text": ["just this"]})
    until(lambda: remote.deephaven.evaluate(f"{name}.size") == table.size)
    until(lambda: remote.content(name).equals(table.to_arrow().cast(remote.content(name).schema)))
    assert not remote.deephaven.evaluate(f"{validator}.hasFailed()")


def test_a_first_snapshot_in_parts(deephaven: DeephavenServer) -> None:
    limits = SubscriptionLimits(default_interval_ms=1, snapshot_part_cells=10_000)
    with Server(deephaven_port=0, subscriptions=limits) as server:
        table = server.append_table("t", QUOTES)
        table.append({"sym": ["A"] * 50_000, "price": [1.0] * 50_000, "size": [*range(50_000)]})
        remote = Remote(deephaven, server)
        name = remote.subscribe("t")
        assert deephaven.evaluate(f"{name}.size") == 50_000
        table.append({"sym": ["B"], "price": [None], "size": [None]})
        until(lambda: deephaven.evaluate(f"{name}.size") == 50_001)
        assert remote.content(name).to_pylist() == table.to_arrow().to_pylist()
        remote.close()


def test_a_blink_table_is_one_there(server: Server, remote: Remote) -> None:
    table = server.blink_table("blink", pa.schema([("n", pa.int64())]))
    name = remote.subscribe("blink")
    assert remote.deephaven.evaluate(f"{name}.is_blink")
    sums = remote.make(f"{name}.agg_by([agg.sum_('total=n'), agg.count_('rows')])")
    for number in range(100):
        table.append({"n": [number, number]})
    remote.wait_for(sums, [{"total": 9900, "rows": 200}])


def test_what_the_server_promises_is_known_there(server: Server, remote: Remote) -> None:
    server.append_table("a", QUOTES)
    server.replaced_table("r", QUOTES)
    attributes = {
        name: remote.deephaven.evaluate(f"str({remote.subscribe(name)}.j_table.getAttributes())") for name in "ar"
    }
    assert "AppendOnly=true" in attributes["a"]
    assert "IsFlat=true" in attributes["r"]


def test_snapshot(server: Server, remote: Remote) -> None:
    table = server.keyed_table("quotes", QUOTES, key=["sym"])
    table.upsert({"sym": ["A", "B"], "price": [1.5, None], "size": [1, None]})
    name = remote.make(f"{remote.session}.snapshot(b's/quotes')")
    empty = remote.make(f"{remote.session}.snapshot(b's/empty')") if server.append_table("empty", QUOTES) else ""
    table.upsert({"sym": ["C"], "price": [3.0], "size": [3]})
    assert remote.content(name).to_pylist() == table.to_arrow().to_pylist()[:2]
    assert remote.content(empty).to_pylist() == []
    assert not remote.deephaven.evaluate(f"{name}.is_refreshing")


def test_a_viewport_from_either_end(server: Server, remote: Remote) -> None:
    """What Java's own API can do beyond Python's: some rows and columns, from the beginning or from the end."""
    table = server.keyed_table("quotes", QUOTES, key=["sym"])
    names = [f"s{number:03}" for number in range(100)]
    table.upsert({"sym": names, "price": [float(number) for number in range(100)], "size": [*range(100)]})
    remote.deephaven.execute(
        "def ours_view(session, ticket, stop, columns, reverse):\n"
        "    bits = jpy.get_type('java.util.BitSet')()\n"
        "    for column in columns: bits.set(column)\n"
        "    rows = jpy.get_type('io.deephaven.engine.rowset.RowSetFactory').flat(stop)\n"
        "    subscription = session.j_barrage_session.subscribe("
        "_JTableSpec.ticket(ticket), _JBarrageTableResolver.SUB_OPTIONS)\n"
        "    return Table(subscription.partialTable(rows, bits, reverse).get())\n"
    )
    head = remote.make(f"ours_view({remote.session}, b's/quotes', 10, [0, 2], False)")
    tail = remote.make(f"ours_view({remote.session}, b's/quotes', 5, [0, 1, 2], True)")
    chance = random.Random(1)
    for number in range(QUIET_POINTS):
        table.delete({"sym": chance.sample(table.to_arrow()["sym"].to_pylist(), 3)})
        table.upsert({"sym": [f"t{number}", names[0]], "price": [None, -1.0], "size": [number, -number]})
        rows = table.to_arrow().to_pylist()
        remote.wait_for(head, [{"sym": row["sym"], "price": None, "size": row["size"]} for row in rows[:10]])
        remote.wait_for(tail, rows[-5:])
    by_table = sorted((gauges.viewport_rows, gauges.columns) for gauges in server.statistics().subscriptions)
    assert by_table == [(5, 3), (10, 2)]


# URIs.


def test_a_uri_resolves(deephaven: DeephavenServer, server: Server) -> None:
    """All tables of a server share one session there, which is kept; a table without holders is not."""
    remote = Remote(deephaven, server)
    quotes = server.keyed_table("quotes", QUOTES, key=["sym"])
    trades = server.append_table("trades", QUOTES)
    where = f"dh+plain://127.0.0.1:{port_of(server)}/scope"
    first = remote.make(f"uri.resolve('{where}/quotes')")
    second = remote.make(f"uri.resolve('{where}/trades')")
    total = remote.make(f"{second}.agg_by([agg.sum_('total=size')], by='sym')")
    for number in range(20):
        quotes.upsert({"sym": ["A", f"B{number}"], "price": [float(number), None], "size": [number, 0]})
        trades.append({"sym": ["A"], "price": [1.0], "size": [number]})
    remote.wait_for(first, quotes.to_arrow().to_pylist())
    remote.wait_for(second, trades.to_arrow().to_pylist())
    remote.wait_for(total, [{"sym": "A", "total": 190}])
    assert server.statistics().sessions == 2
    assert len(server.statistics().subscriptions) == 2
    with pytest.raises(PeerError, match=r"There is no table 'trade'.* Did you mean 'trades'"):
        remote.make(f"uri.resolve('{where}/trade')")
    remote.close()
    until(lambda: server.statistics().sessions == 1)
    until(lambda: not server.statistics().subscriptions)
    until(lambda: server.statistics().exports == 0)


# Log-ins and failures.


@pytest.mark.parametrize(
    "login",
    [{"auth_type": PSK_TYPE, "auth_token": "secret"}, {"auth_type": "Bearer", "auth_token": "secret"}],
    ids=["psk", "bearer"],
)
def test_a_deephaven_server_logs_in(deephaven: DeephavenServer, login: dict[str, str]) -> None:
    with Server(token="secret", deephaven_port=0, limits=PATIENCE) as server:
        server.append_table("t", QUOTES).append({"sym": ["A"], "price": [1.0], "size": [1]})
        remote = Remote(deephaven, server, **login)
        remote.wait_for(remote.subscribe("t"), [{"sym": "A", "price": 1.0, "size": 1}])
        remote.close()
        until(lambda: server.statistics().sessions == 0)


def test_tls(deephaven: DeephavenServer) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    chain = b"".join(blob.bytes() for blob in certificate.cert_chain_pems)
    tls = (chain, certificate.private_key_pem.bytes())
    with Server(tls_certificate=tls[0], tls_key=tls[1], token="secret", deephaven_port=0, limits=PATIENCE) as server:
        rows = [{"sym": "A", "price": 1.0, "size": 1}]
        server.append_table("t", QUOTES).append(pa.Table.from_pylist(rows, QUOTES))
        login = {"auth_type": PSK_TYPE, "auth_token": "secret", "use_tls": True}
        with pytest.raises(PeerError, match="certificat"):
            Remote(deephaven, server, **login)
        remote = Remote(deephaven, server, **login, tls_root_certs=authority.cert_pem.bytes())
        remote.wait_for(remote.subscribe("t"), rows)
        remote.close()
        until(lambda: server.statistics().sessions == 0)


def test_a_deephaven_server_without_the_token_does_not(deephaven: DeephavenServer) -> None:
    with Server(token="secret", deephaven_port=0, limits=PATIENCE) as server:
        server.append_table("t", QUOTES)
        for login in ({}, {"auth_type": PSK_TYPE, "auth_token": "wrong"}):
            with pytest.raises(PeerError, match="UNAUTHENTICATED: The token is missing or wrong"):
                Remote(deephaven, server, **login)
        with pytest.raises(PeerError, match="UNAUTHENTICATED: The token is missing or wrong"):
            deephaven.execute(f"uri.resolve('dh+plain://127.0.0.1:{port_of(server)}/scope/t')")
        assert server.statistics().sessions == 0


def test_a_table_that_there_is_not(server: Server, remote: Remote) -> None:
    server.append_table("trades", QUOTES)
    for call in ("subscribe", "snapshot"):
        with pytest.raises(PeerError, match=r"There is no table 'trade'.* Did you mean 'trades'"):
            remote.make(f"{remote.session}.{call}(b's/trade')")
    assert server.statistics().exports == 0


def test_a_table_that_is_dropped_has_failed_there(server: Server, remote: Remote) -> None:
    server.append_table("t", QUOTES).append({"sym": ["A"], "price": [1.0], "size": [1]})
    name = remote.subscribe("t")
    errors = remote.make("[]")
    view = remote.make(f"{name}.update_view('x = size + 1')")
    handle = remote.make(
        f"listen({view}, lambda update, is_replay: None, on_error=lambda error: {errors}.append(str(error)))"
    )
    server.drop("t")
    until(lambda: remote.deephaven.evaluate(errors))
    assert "NOT_FOUND: Table 't' was dropped." in remote.deephaven.evaluate(errors)[0]
    assert remote.deephaven.evaluate(f"[{name}.j_table.isFailed(), {view}.j_table.isFailed()]") == [True, True]
    assert remote.content(name).num_rows == 1
    assert handle


def test_a_server_that_restarts(deephaven: DeephavenServer) -> None:
    """Its subscribers fail with the reason; new subscriptions and URIs work without a log-in."""
    with Server(deephaven_port=0) as server:
        port = port_of(server)
        server.append_table("t", QUOTES).append({"sym": ["A"], "price": [1.0], "size": [1]})
        remote = Remote(deephaven, server)
        name = remote.subscribe("t")
        by_uri = remote.make(f"uri.resolve('dh+plain://127.0.0.1:{port}/scope/t')")
        errors = remote.make("[]")
        remote.make(
            f"listen({name}, lambda update, is_replay: None, on_error=lambda error: {errors}.append(str(error)))"
        )
    until(lambda: deephaven.evaluate(errors))
    assert "UNAVAILABLE: The server is shutting down." in deephaven.evaluate(errors)[0]
    until(lambda: deephaven.evaluate(f"[{name}.j_table.isFailed(), {by_uri}.j_table.isFailed()]") == [True, True])
    with Server(deephaven_port=port) as server:
        rows = [{"sym": "B", "price": 2.0, "size": 2}]
        server.append_table("t", QUOTES).append(pa.Table.from_pylist(rows, QUOTES))
        session = remote.make(f"barrage_session('127.0.0.1', {port})")
        remote.wait_for(remote.subscribe("t", session=session), rows)
        resolved: list[str] = []

        def has_resolved() -> bool:
            """Java tries to connect again after a while."""
            try:
                resolved.append(remote.make(f"uri.resolve('dh+plain://127.0.0.1:{port}/scope/t')"))
            except PeerError:
                return False
            return True

        until(has_resolved)
        remote.wait_for(resolved[0], rows)
        remote.release()
        deephaven.execute(f"{session}.close()")
        until(lambda: not server.statistics().subscriptions)


def test_a_session_lives_as_long_as_it_is_used(deephaven: DeephavenServer) -> None:
    with Server(deephaven_port=0, limits=Limits(session_seconds=2)) as server:
        table = server.append_table("t", QUOTES)
        remote = Remote(deephaven, server)
        name = remote.subscribe("t")
        until(lambda: server.statistics().uptime_seconds > 4)
        table.append({"sym": ["A"], "price": [1.0], "size": [1]})
        remote.wait_for(name, table.to_arrow().to_pylist())
        remote.close()
        until(lambda: server.statistics().sessions == 0)
        assert server.statistics().exports == 0


def test_what_it_follows_it_serves_on_to_our_client(deephaven: DeephavenServer, server: Server, remote: Remote) -> None:
    """There and back: the Deephaven server computes with a table of ours, and our client follows the result."""
    trades = server.append_table("trades", QUOTES)
    source = remote.subscribe("trades")
    deephaven.execute(f"there_and_back = {source}.last_by('sym').sort('sym')")
    with bs.connect(deephaven.uri) as ours, ours.subscribe("there_and_back", interval_ms=1) as live:
        for number in range(50):
            trades.append({"sym": [f"S{number % 7}"], "price": [number / 2], "size": [number]})
        wanted = [{"sym": f"S{n % 7}", "price": n / 2, "size": n} for n in range(43, 50)]
        live.wait_until(
            lambda view: view.to_arrow().to_pylist() == sorted(wanted, key=lambda row: str(row["sym"])), timeout=30
        )
    deephaven.execute("del there_and_back")

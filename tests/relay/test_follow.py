"""Following a table: what is served, what is refused, and what ends it."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.engine import AppendTable, KeyedTable, ReplicaTable, ReplicaUpdate
from barrage_server.rowset import RowSet
from tests.relay.conftest import Upstream
from tests.waiting import until

SCHEMA = pa.schema([("key", pa.int64()), ("text", pa.string())])


def _rows(*keys: int, text: str = "x") -> pa.Table:
    return pa.table({"key": list(keys), "text": [text] * len(keys)}, schema=SCHEMA)


@pytest.fixture
def quotes(upstream: Upstream) -> KeyedTable:
    table = upstream.server.keyed_table("quotes", SCHEMA, key=["key"])
    table.upsert(_rows(1, 2, 3))
    return table


def test_a_table_is_served_on_with_its_updates_and_keys(
    upstream: Upstream, relay: bs.Server, quotes: KeyedTable
) -> None:
    followed = relay.follow(f"{upstream.uri}/quotes", name="copy", interval_ms=1)
    assert followed.state is bs.FollowedState.LIVE
    assert followed.error is None
    assert followed.table is relay.table("copy")
    with bs.connect(relay.uri) as client, client.subscribe("copy", interval_ms=1) as live:
        assert live.to_arrow().equals(quotes.to_arrow())
        assert live.key_columns == ("key",)
        assert client.table("copy").key_columns == ("key",)
        quotes.upsert(_rows(2, 9, text="new"))
        quotes.delete({"key": [1]})
        live.wait_until(lambda view: view.to_arrow().equals(quotes.to_arrow()))
        assert live.row_set == quotes.version.row_set


def test_the_name_is_that_of_upstream_unless_another_is_given(
    upstream: Upstream, relay: bs.Server, quotes: KeyedTable
) -> None:
    with relay.follow(f"{upstream.uri}/quotes") as followed:
        assert followed.name == relay.table("quotes").name == "quotes"
        assert list(relay.followed) == [followed]
    assert not relay.followed


def test_names_with_special_characters_are_percent_encoded(upstream: Upstream, relay: bs.Server) -> None:
    upstream.server.append_table("a/b c?#%=é", SCHEMA).append(_rows(1))
    followed = relay.follow(f"{upstream.uri}/a%2Fb%20c%3F%23%25=%C3%A9")
    assert followed.name == "a/b c?#%=é"
    assert relay.table("a/b c?#%=é").size == 1


def test_deephavens_way_to_name_a_table_is_understood(upstream: Upstream, relay: bs.Server) -> None:
    upstream.server.append_table("t", SCHEMA).append(_rows(1))
    assert relay.follow(f"{upstream.uri}/scope/t", name="flight").table.size == 1
    assert relay.follow(f"{upstream.uri.replace('grpc', 'dh+plain')}/scope/t", name="deephaven").table.size == 1


def test_only_some_columns(upstream: Upstream, relay: bs.Server, quotes: KeyedTable) -> None:
    followed = relay.follow(f"{upstream.uri}/quotes", columns=["text"], interval_ms=1)
    assert followed.table.schema.names == ["text"]
    assert followed.table.key_columns == ()
    quotes.upsert(_rows(5, text="five"))
    until(lambda: followed.table.to_arrow()["text"].to_pylist() == ["x", "x", "x", "five"])
    with pytest.raises(bs.UnknownColumnError, match="nope"):
        relay.follow(f"{upstream.uri}/quotes", name="other", columns=["nope"])
    with pytest.raises(bs.InvalidRequestError, match="list of names"):
        relay.follow(f"{upstream.uri}/quotes", name="other", columns="text")


def test_the_credentials_of_upstream_are_shown(relay: bs.Server) -> None:
    with bs.Server(token="secret") as upstream:
        upstream.append_table("t", SCHEMA).append(_rows(1))
        with pytest.raises(bs.AuthenticationError):
            relay.follow(f"{upstream.uri}/t")
        with pytest.raises(bs.AuthenticationError):  # no time makes that right, so it is not waited for
            relay.follow(f"{upstream.uri}/t", token="wrong", wait=100)
        assert not relay.tables()
        assert relay.follow(f"{upstream.uri}/t", token="secret").table.size == 1
        assert relay.follow(f"{upstream.uri}/t", name="u", user="anybody", password="secret").table.size == 1


def test_what_is_not_there_upstream_is_told_at_once(upstream: Upstream, relay: bs.Server) -> None:
    with pytest.raises(bs.UnknownTableError, match="no table 'nope'"):
        relay.follow(f"{upstream.uri}/nope")
    upstream.stop()
    with pytest.raises(bs.UnavailableError, match="No connection to"):
        relay.follow(f"{upstream.uri}/nope", timeout=5)
    assert not relay.followed
    relay.append_table("nope", SCHEMA)


def test_what_is_not_there_yet_is_waited_for(upstream: Upstream, relay: bs.Server) -> None:
    upstream.stop()
    done: list[bs.FollowedTable] = []

    def follow() -> None:
        done.append(relay.follow(f"{upstream.uri}/t", wait=60, max_delay=0.05))

    thread = threading.Thread(target=follow)
    thread.start()
    followed = until(lambda: relay.followed)[0]
    followed.wait_for(bs.FollowedState.RECONNECTING, 20)
    server = upstream.start()
    followed.wait_for(bs.FollowedState.MISSING, 20)
    assert isinstance(followed.error, bs.UnknownTableError)
    assert not done
    with pytest.raises(bs.UnknownTableError, match="is not served"):
        followed.table  # noqa: B018
    server.append_table("t", SCHEMA).append(_rows(4))
    thread.join(30)
    assert done == [followed]
    until(lambda: followed.table.size == 1)


def test_without_waiting_it_is_served_whenever_it_is_there(upstream: Upstream, relay: bs.Server) -> None:
    followed = relay.follow(f"{upstream.uri}/t", wait=None, max_delay=0.05)
    followed.wait_for(bs.FollowedState.MISSING, 20)
    assert not relay.tables()
    with pytest.raises(bs.DeadlineError, match=r"not live within 0\.01 s, but missing: There is no table 't'"):
        followed.wait_live(0.01)
    upstream.server.append_table("t", SCHEMA).append(_rows(4))
    followed.wait_live(20)
    until(lambda: relay.table("t").size == 1)


def test_waiting_ends_with_what_is_wrong(upstream: Upstream, relay: bs.Server) -> None:
    with pytest.raises(bs.UnknownTableError):
        relay.follow(f"{upstream.uri}/t", wait=0.3, max_delay=0.05)
    assert not relay.followed


def test_a_name_that_is_taken_is_refused(upstream: Upstream, relay: bs.Server, quotes: KeyedTable) -> None:
    relay.append_table("mine", SCHEMA)
    with pytest.raises(bs.AlreadyExistsError):
        relay.follow(f"{upstream.uri}/quotes", name="mine")
    relay.follow(f"{upstream.uri}/quotes")
    with pytest.raises(bs.AlreadyExistsError, match="follows a table of another server"):
        relay.follow(f"{upstream.uri}/quotes")
    relay.follow(f"{upstream.uri}/quotes", name="again")
    with pytest.raises(bs.AlreadyExistsError):
        relay.append_table("quotes", SCHEMA)


def test_a_name_that_is_waited_for_is_kept(upstream: Upstream, relay: bs.Server) -> None:
    relay.follow(f"{upstream.uri}/later", wait=None)
    with pytest.raises(bs.AlreadyExistsError, match="use another name"):
        relay.append_table("later", SCHEMA)
    with bs.connect(relay.uri) as client:
        with pytest.raises(bs.AlreadyExistsError):
            client.publish("later", _rows(1))
        client.drop("later")
        client.publish("later", _rows(1))


def test_no_other_publisher_writes_to_it(upstream: Upstream, relay: bs.Server, quotes: KeyedTable) -> None:
    followed = relay.follow(f"{upstream.uri}/quotes")
    before = followed.table.to_arrow()
    with bs.connect(relay.uri) as client:
        for mode in ("append", "upsert", "replace", "delete", None):
            with pytest.raises(bs.InvalidRequestError):
                client.publish("quotes", _rows(7), key=["key"], mode=mode)
            with pytest.raises(bs.UnsupportedOperationError, match="follows another one"):
                client.publish("quotes", _rows(7), mode=mode)
        with pytest.raises(bs.AlreadyExistsError):
            client.create_table("quotes", SCHEMA, key=["key"])
        ticking = ReplicaTable(client.graph, "ticking", SCHEMA)
        ticking.apply(ReplicaUpdate(RowSet.from_range(7, 7), columns=_rows(7).columns))
        with pytest.raises(bs.AlreadyExistsError, match="follows a table of another server"):
            client.publish_live("quotes", ticking).close()
    assert followed.table.to_arrow().equals(before)


def test_dropping_the_table_ends_the_following(upstream: Upstream, relay: bs.Server, quotes: KeyedTable) -> None:
    followed = relay.follow(f"{upstream.uri}/quotes")
    with bs.connect(relay.uri) as client, client.subscribe("quotes") as live:
        client.drop("quotes")
        with pytest.raises(bs.UnknownTableError, match="dropped"):
            list(live.updates(timeout=20))
    assert followed.state is bs.FollowedState.CLOSED
    until(lambda: not upstream.server.statistics().subscriptions)
    assert not relay.followed
    with pytest.raises(bs.UnavailableError, match="closed"):
        followed.wait_live(1)
    relay.append_table("quotes", SCHEMA)
    followed.close()
    assert relay.table("quotes").size == 0


def test_closing_it_takes_the_table_away(upstream: Upstream, relay: bs.Server, quotes: KeyedTable) -> None:
    with relay.follow(f"{upstream.uri}/quotes") as followed:
        pass
    assert not relay.tables()
    assert "closed" in repr(followed)
    relay.follow(f"{upstream.uri}/quotes")


def test_figures(upstream: Upstream, relay: bs.Server, quotes: KeyedTable) -> None:
    began = time.monotonic()
    followed = relay.follow(f"{upstream.uri}/quotes", name="copy", interval_ms=1)
    quotes.upsert(_rows(4))
    until(lambda: followed.statistics().updates == 1)
    figures = followed.statistics()
    assert (figures.name, figures.uri, figures.state) == ("copy", f"{upstream.uri}/quotes", "live")
    assert (figures.rows, figures.connections, figures.error) == (4, 1, None)
    assert figures.upstream_step == quotes.version.step
    assert 0 < figures.state_seconds < time.monotonic() - began
    assert relay.statistics().followed[0].name == "copy"
    assert relay.statistics().tables[0].rows == 4
    with bs.connect(relay.uri) as client:
        (entry,) = client.statistics()["followed"]
    assert entry["state"] == "live"
    assert "rows=4" in repr(followed)
    followed.close()
    assert followed.statistics().state == "closed"
    assert followed.statistics().upstream_step == quotes.version.step


def test_a_relay_of_a_relay(upstream: Upstream, relay: bs.Server, quotes: KeyedTable) -> None:
    relay.follow(f"{upstream.uri}/quotes", name="near", interval_ms=1)
    with bs.Server() as far:
        followed = far.follow(f"{relay.uri}/near", name="far", interval_ms=1)
        quotes.upsert(_rows(2, 8, text="new"))
        until(lambda: followed.table.to_arrow().equals(quotes.to_arrow()))
        assert followed.table.key_columns == ("key",)


def test_a_table_derived_from_a_followed_one_ticks_with_it(
    upstream: Upstream, relay: bs.Server, quotes: KeyedTable
) -> None:
    followed = relay.follow(f"{upstream.uri}/quotes", interval_ms=1)
    log = relay.append_table("log", pa.schema([("change", pa.string())]))
    followed.table.add_listener(lambda update, _before, _after: log.append({"change": [str(update)]}))
    quotes.upsert(_rows(3, 4, text="new"))
    until(lambda: log.to_arrow()["change"].to_pylist() == ["+1 -0 ~1"])


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("", "no address"),
        ("grpc://h:1", "names no table"),
        ("grpc://h:1/", "names no table"),
        ("grpc://h:1/a/b", "names no table"),
        ("http://h:1/t", "address of a web server"),
        ("grpc://h:port/t", "no address"),
        ("dh+plain://h/scope/t", "port"),
        ("grpc://user:secret@h:1/t", "token="),
        ("grpc://h:1/t?x=1", "%3F"),
        ("grpc://h:1/t%00", "no table's name"),
    ],
)
def test_malformed_uris_are_refused_in_one_line(relay: bs.Server, uri: str, says: str) -> None:
    with pytest.raises(bs.InvalidRequestError) as refusal:
        relay.follow(uri)
    assert says in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert "secret" not in str(refusal.value)


def test_numbers_out_of_range_are_refused(relay: bs.Server) -> None:
    for wrong in ({"interval_ms": -1}, {"timeout": 0.0}, {"max_delay": 0.0}):
        with pytest.raises(bs.InvalidRequestError):
            relay.follow("grpc://127.0.0.1:1/t", **wrong)


def test_a_table_of_the_very_server_is_refused() -> None:
    with bs.Server() as relay, bs.Server(host="0.0.0.0", insecure=True) as everywhere:
        relay.append_table("t", SCHEMA)
        for server in (relay, everywhere):
            for host in ("127.0.0.1", "localhost"):
                with pytest.raises(bs.InvalidRequestError, match="a table of this server"):
                    server.follow(f"grpc://{host}:{server.port}/t", name="u")


def test_an_append_table_is_served_as_a_replica(upstream: Upstream, relay: bs.Server) -> None:
    """It loses the promise that nothing is ever removed, which a restart of the upstream would break."""
    rows = upstream.server.append_table("t", SCHEMA)
    rows.append(_rows(1, 2))
    table = relay.follow(f"{upstream.uri}/t", interval_ms=1).table
    assert not isinstance(table, AppendTable)
    with bs.connect(relay.uri) as client:
        attributes = client.table("t").attributes
    assert attributes.pop("BarrageRoute")
    assert attributes == {"IsFlat": True}


def test_a_server_that_is_closed_follows_nothing(upstream: Upstream, quotes: KeyedTable) -> None:
    with bs.Server() as relay:
        pass
    with pytest.raises(bs.UnavailableError, match="shutting down"):
        relay.follow(f"{upstream.uri}/quotes")

"""A server's tables, its life and its end."""

from __future__ import annotations

import gc
import logging
import re
import resource
import socket
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

import barrage_server as bs
from barrage_server.engine import AppendTable, BlinkTable, KeyedTable, ReplacedTable, RingTable
from barrage_server.engine.kinds import spec_of
from barrage_server.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    KeyMismatchError,
    UnavailableError,
    UnknownTableError,
    UnsupportedTypeError,
)
from barrage_server.server import Limits, Server
from barrage_server.server.endpoints import Endpoints, authority, listening_uri
from barrage_server.wire.protocol import TableKind
from tests.server.conftest import SCHEMA
from tests.server.follower import Follower
from tests.waiting import until


def test_each_kind_of_table_is_made_and_given_again(server: Server) -> None:
    made = [
        server.append_table("append", SCHEMA),
        server.keyed_table("keyed", SCHEMA, key=["sym"]),
        server.ring_table("ring", SCHEMA, capacity=3),
        server.blink_table("blink", SCHEMA),
        server.replaced_table("replaced", SCHEMA),
    ]
    assert [type(table) for table in made] == [AppendTable, KeyedTable, RingTable, BlinkTable, ReplacedTable]
    assert server.append_table("append", SCHEMA) is made[0]
    assert server.keyed_table("keyed", SCHEMA, key=["sym"]) is made[1]
    assert server.ring_table("ring", SCHEMA, capacity=3) is made[2]
    assert server.table("blink") is made[3]
    assert [table.name for table in server.tables()] == ["append", "blink", "keyed", "replaced", "ring"]


def test_who_asks_for_statistics_before_all_ports_are_open_gets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, told = Endpoints.open_deephaven, []

    def asked(endpoints: Endpoints, *args: Any) -> None:
        with bs.connect(endpoints.uri) as client:
            told.append(client.statistics())
        opened(endpoints, *args)

    monkeypatch.setattr(Endpoints, "open_deephaven", asked)
    with Server(deephaven_port=0) as server:
        assert [figures["sessions"] for figures in told] == [0]
        assert server.statistics().sessions == 0


def test_another_table_under_a_name_that_is_taken_is_refused(server: Server) -> None:
    server.keyed_table("t", SCHEMA, key=["sym"])
    with pytest.raises(AlreadyExistsError, match="not of the kind 'append'"):
        server.append_table("t", SCHEMA)
    with pytest.raises(AlreadyExistsError, match="its key is sym"):
        server.keyed_table("t", SCHEMA, key=["price"])
    with pytest.raises(AlreadyExistsError, match="its columns are sym string, price double"):
        server.keyed_table("t", pa.schema([("sym", pa.string())]), key=["sym"])


def test_impossible_tables_are_refused(server: Server) -> None:
    with pytest.raises(KeyMismatchError):
        server.keyed_table("t", SCHEMA, key=["nope"])
    with pytest.raises(UnsupportedTypeError):
        server.keyed_table("t", pa.schema([("l", pa.list_(pa.int8()))]), key=["l"])
    with pytest.raises(InvalidRequestError):
        server.append_table("", SCHEMA)
    with pytest.raises(InvalidRequestError):
        server.append_table("t", pa.schema([]))
    with pytest.raises(UnknownTableError):
        server.table("t")
    with pytest.raises(UnknownTableError):
        server.drop("t")
    assert server.tables() == ()


def test_several_tables_change_together_or_not_at_all(server: Server) -> None:
    one, other = server.append_table("one", SCHEMA), server.append_table("other", SCHEMA)
    with server.cycle():
        one.append({"sym": ["A"], "price": [1.0]})
        other.append({"sym": ["A"], "price": [1.0]})
        assert one.size == other.size == 0
    assert one.version.step == other.version.step == 1
    with pytest.raises(ZeroDivisionError), server.cycle():
        one.append({"sym": ["B"], "price": [1.0]})
        raise ZeroDivisionError
    assert one.size == 1


def test_it_takes_the_port_it_is_told_and_says_when_it_is_taken() -> None:
    with Server() as first:
        assert first.uri == f"grpc://127.0.0.1:{first.port}"
        assert repr(first) == f"<Server {first.uri} tables=0>"
        with pytest.raises(UnavailableError, match=r"is it in use\? Choose another one with port= \(--port on"):
            Server(port=first.port)
    with Server(port=first.port) as second:
        assert second.port == first.port


@pytest.mark.parametrize("host", ["192.0.2.1", "1.2.3"])
@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"front": "pyarrow"}, "host"),
        ({"front": "grpc"}, "host"),
        ({"http_port": 0}, "http_host"),
    ],
    ids=["pyarrow", "grpc", "http"],
)
def test_an_address_of_another_machine_is_told_apart_from_a_port_in_use(
    host: str, options: dict[str, Any], named: str
) -> None:
    """Another port would not help; with a port for the page, too."""
    hosts = {"host": host} if named == "host" else {"http_host": host}
    with pytest.raises(UnavailableError) as told:
        Server(**{**options, **hosts, "insecure": True, "web_port": 0})
    assert str(told.value).startswith(f"Cannot listen on {host}, which is no address of this machine. Set {named}= (--")
    assert "in use" not in str(told.value)


def test_ipv6_is_served_too() -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        with pytest.raises(UnavailableError):
            Server("::1")
        return
    with Server("::1") as server, fl.connect(server.uri) as client:
        assert server.uri.startswith("grpc://[::1]:")
        assert list(client.list_flights()) == []


def test_closing_is_quick_and_may_be_repeated() -> None:
    server = Server()
    began = time.monotonic()
    server.close()
    server.close()
    server.shutdown()
    assert time.monotonic() - began < 5
    assert server.wait(0)
    assert "closed" in repr(server)
    with fl.connect(server.uri) as client, pytest.raises(fl.FlightUnavailableError):
        list(client.list_flights(b"", fl.FlightCallOptions(timeout=5)))


def test_followers_are_told_when_the_server_closes() -> None:
    server = Server()
    server.append_table("quotes", SCHEMA)
    with fl.connect(server.uri) as client, Follower(client, "quotes") as follower:
        follower.wait(lambda follower: follower.messages)
        began = time.monotonic()
        server.close()
        assert time.monotonic() - began < 5
        error = follower.wait_ended()
        assert type(error) is UnavailableError
        assert str(error) == "The server is shutting down."


def test_waiting_ends_when_the_server_is_closed() -> None:
    server = Server()
    assert not server.wait(0.01)
    waiter = threading.Thread(target=server.serve_forever)
    waiter.start()
    server.close()
    waiter.join(10)
    assert not waiter.is_alive()


def test_an_interrupt_closes_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()

    def interrupted(timeout: float | None = None) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(server, "wait", interrupted)
    server.serve_forever()
    assert "closed" in repr(server)


def test_a_closed_server_leaves_no_thread_and_no_table_behind() -> None:
    before = {thread.name for thread in threading.enumerate()}
    server = Server()
    table = server.append_table("quotes", SCHEMA)
    with fl.connect(server.uri) as client, Follower(client, "quotes") as follower:
        follower.wait(lambda follower: follower.messages)
    server.close()
    until(lambda: {thread.name for thread in threading.enumerate()} <= before)
    gone = weakref.ref(table)
    del table, server, follower
    until(lambda: gc.collect() >= 0 and gone() is None)


def test_two_servers_live_in_one_process() -> None:
    with Server() as one, Server() as other:
        one.append_table("one", SCHEMA)
        other.append_table("other", SCHEMA)
        for server, name in ((one, b"one"), (other, b"other")):
            with fl.connect(server.uri) as client:
                assert [info.descriptor.path[1] for info in client.list_flights()] == [name]


def test_the_tables_of_a_closed_server_can_be_read_and_not_written() -> None:
    """Whatever kind they are: an embedding program hears that nothing it writes arrives anywhere."""
    schema = pa.schema([("k", pa.int64())])
    with Server() as server:
        appended = server.append_table("appended", schema)
        keyed = server.keyed_table("keyed", schema, key=["k"])
        writes: list[Callable[[], object]] = [
            lambda: appended.append({"k": [1]}),
            lambda: server.ring_table("ring", schema, capacity=2).append({"k": [1]}),
            lambda: server.blink_table("blink", schema).append({"k": [1]}),
            lambda: keyed.upsert({"k": [1]}),
            lambda: keyed.delete({"k": [1]}),
            lambda: server.replaced_table("replaced", schema).replace({"k": [1]}),
        ]
        for write in writes:
            write()
    changes: list[Callable[[], object]] = [
        *writes,
        lambda: server.append_table("appended", schema),
        lambda: server.keyed_table("new", schema, key="k"),
        lambda: server.create_table("new", schema),
        lambda: server.add_table("new", bs.table({"k": [1]})),
        lambda: server.add_table("again", appended),
        lambda: server.drop("keyed"),
    ]
    for change in changes:
        with pytest.raises(UnavailableError, match=r"Table '\w+' cannot be \w+: its server is closed\."):
            change()
    assert len(server.tables()) == 5
    assert appended.to_arrow().to_pydict() == {"k": [1]}


def test_the_log_counts_in_the_singular_and_ends_without_a_blank(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with Server() as server:
        server.add_table("one", bs.table({"k": [1]}))
        with bs.connect(server.uri) as client:
            client.append("one", {"k": [2]})
            client.subscribe("one").close()
        server.append_table("empty", {"k": "int64"}).append({"k": [1]})
        server.drop("empty")
    texts = [record.getMessage() for record in caplog.records]
    assert "table one: added, 1 column" in texts
    assert "table empty: dropped, with 1 row" in texts
    assert any(text.endswith("subscribes to one") for text in texts)
    assert not [text for text in texts if text != text.strip() or re.search(r"\b1 \w+s\b", text)]


def test_the_log_names_the_wildcard_address_that_is_listened_on(caplog: pytest.LogCaptureFixture) -> None:
    """At every port; the URIs of the server have an address that clients can connect to."""
    caplog.set_level("INFO")
    with Server(
        "0.0.0.0",
        insecure=True,
        deephaven_port=0,
        deephaven_web_port=0,
        http_port=0,
        http_host="0.0.0.0",
        web_port=0,
    ) as server:
        uris = (server.uri, server.deephaven_uri, server.deephaven_web_uri, server.web_uri, server.http_uri)
    assert all(re.fullmatch(r"[a-z+]+://127\.0\.0\.1:\d+", str(uri)) for uri in uris)
    told = ", ".join(f"{str(uri).replace('127.0.0.1', '0.0.0.0')} (all addresses)" for uri in uris)
    assert f"serving on {told}" in [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("127.0.0.1", "grpc://127.0.0.1:8815"),
        ("db.example.com", "grpc://db.example.com:8815"),
        ("::1", "grpc://[::1]:8815"),
        ("0.0.0.0", "grpc://0.0.0.0:8815 (all addresses)"),
        ("::", "grpc://[::]:8815 (all addresses)"),
        ("[::]", "grpc://[::]:8815 (all addresses)"),
        ("0::0", "grpc://[0::0]:8815 (all addresses)"),
    ],
)
def test_a_wildcard_address_is_told_in_each_of_its_forms(host: str, told: str) -> None:
    assert listening_uri(f"grpc://{authority(host, 8815)}", host) == told
    reached = authority(host, 8815).removesuffix(":8815")
    assert reached in {"127.0.0.1", "db.example.com", "[::1]"}


def test_the_log_says_what_content_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    """By a drop, and by the end of a server with tables in memory."""
    caplog.set_level("INFO")
    with Server() as server:
        server.append_table("dropped", SCHEMA).append({"sym": ["A", "B"], "price": [1.0, 2.0]})
        server.append_table("kept", SCHEMA).append({"sym": ["A", "B"], "price": [1.0, 2.0]})
        server.drop("dropped")
    texts = [record.getMessage() for record in caplog.records]
    assert "table dropped: dropped, with 2 rows" in texts
    assert f"closed {server.uri}; in memory only, and gone now: 2 rows of 1 table" in texts


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ({}, "append"),
        ({"key": "sym"}, "keyed"),
        ({"kind": "keyed", "key": ["sym"]}, "keyed"),
        ({"capacity": 5}, "ring"),
        ({"kind": "blink"}, "blink"),
        ({"kind": TableKind.REPLACED}, "replaced"),
    ],
)
def test_a_table_is_made_with_the_same_words_here_and_by_a_client(asked: dict[str, Any], kind: str) -> None:
    with Server(port=0) as server, bs.connect(server.uri) as client:
        made = server.create_table("t", {"sym": "string", "price": "double"}, **asked)
        spec = spec_of(made)
        assert spec is not None
        assert spec.kind == kind
        client.create_table("t", {"sym": "string", "price": "double"}, **asked)
        client.create_table("by_client", {"sym": "string", "price": "double"}, **asked)
        assert spec_of(server.table("by_client")) == spec


@pytest.mark.parametrize(
    "asked",
    [
        {"kind": "keyed"},
        {"kind": "ring"},
        {"kind": "sorted"},
        {"key": "sym", "capacity": 3},
        {"kind": "blink", "key": "sym"},
        {"capacity": 0},
    ],
)
def test_what_does_not_go_together_is_refused_here_and_by_a_client(asked: dict[str, Any]) -> None:
    with Server(port=0) as server, bs.connect(server.uri) as client:
        for create in (server.create_table, client.create_table):
            with pytest.raises(bs.InvalidRequestError):
                create("t", {"sym": "string"}, **asked)
        assert not server.tables()


def test_an_embedded_server_leaves_the_limit_of_descriptors_alone_and_says_what_it_allows(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The limit is that of the whole process. With fewer connections than that there is nothing to say."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = 1024 if hard == resource.RLIM_INFINITY else min(1024, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
        with caplog.at_level(logging.INFO, "barrage_server.server"):
            with Server(limits=Limits(connections=100)):
                assert "ulimit -n" not in caplog.text
            with Server():
                assert resource.getrlimit(resource.RLIMIT_NOFILE) == (few, hard)
        assert "a port takes about 896 connections, and not 10000" in caplog.text
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

"""What serves the port for Flight, and what the two have in common."""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import grpc
import pyarrow as pa
import pyarrow.flight as fl
import pytest

import barrage_server as bs
from barrage_server.flight.errors import from_flight
from barrage_server.server import front as front_module
from barrage_server.server.front import Front
from tests.server.conftest import SCHEMA
from tests.server.follower import DPHN, Follower
from tests.waiting import until

FLIGHT = "/arrow.flight.protocol.FlightService"


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", Front.PYARROW),
        ("127.0.0.9", Front.PYARROW),
        ("localhost", Front.PYARROW),
        ("::1", Front.PYARROW),
        ("[::1]", Front.PYARROW),
        ("0.0.0.0", Front.GRPC),
        ("::", Front.GRPC),
        ("192.0.2.1", Front.GRPC),
        ("example.org", Front.GRPC),
    ],
)
def test_auto_is_grpc_beyond_this_machine(
    host: str, expected: Front, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And pyarrow, with a warning, where its packages are missing."""
    assert Front.AUTO.on(host) is expected
    assert Front.PYARROW.on(host) is Front.PYARROW
    assert Front.GRPC.on(host) is Front.GRPC
    assert not caplog.records
    monkeypatch.setattr(front_module, "_PACKAGES", ("grpc", "a_package_that_is_missing"))
    assert Front.AUTO.on(host) is Front.PYARROW
    assert bool(caplog.records) == (expected is Front.GRPC)


def test_a_front_that_is_not_known_is_refused_by_name() -> None:
    with pytest.raises(bs.InvalidRequestError, match="front must be 'auto' or 'pyarrow' or 'grpc', not 'http'"):
        bs.Server(front="http")


def test_the_port_serves_flight_and_no_sessions() -> None:
    """A plain Flight client names tables of the catalog only, and Deephaven's calls belong to another port."""
    with bs.Server(front="grpc") as server, grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        server.append_table("t", SCHEMA)
        assert server.deephaven_uri is None
        call: Any = channel.stream_stream("/io.deephaven.proto.backplane.grpc.SessionService/NewSession")
        with pytest.raises(grpc.RpcError) as refused:
            list(call(iter([b""]), timeout=20))
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
        with fl.connect(server.uri) as client:
            for ticket in (b"e\1\0\0\0", b"h\1", b"a/app/f/x"):
                with pytest.raises((pa.ArrowException, OSError)):
                    client.do_get(fl.Ticket(ticket)).read_all()
            token = b"Bearer anything"
            list(client.list_flights(b"", fl.FlightCallOptions(headers=[(b"authorization", token)])))
        assert server.statistics().sessions == 0


def test_both_fronts_say_the_same_of_every_table() -> None:
    """Schemas with all metadata, tickets, sizes, statuses and texts."""
    columns = {
        "k": pa.int64(),
        "text": pa.string(),
        "exact": pa.decimal128(9, 2),
        "at": pa.timestamp("us", "UTC"),
        "tags": pa.list_(pa.string()),
        "parts": pa.struct([("x", pa.int8()), ("y", pa.large_binary())]),
        "kind": pa.dictionary(pa.int32(), pa.string()),
    }
    schema = pa.schema(list(columns.items()), metadata={"own": "kept"})
    said: list[dict[str, Any]] = []
    for front in ("pyarrow", "grpc"):
        with bs.Server(front=front) as server, fl.connect(server.uri) as client:
            server.append_table("append", schema)
            server.keyed_table("keyed", schema, key=["k", "text"])
            server.ring_table("ring", schema, capacity=5)
            server.blink_table("blink", schema)
            server.replaced_table("replaced", schema)
            found: dict[str, Any] = {}
            for info in client.list_flights():
                name = info.descriptor.path[-1].decode()
                (endpoint,) = info.endpoints
                about = client.get_flight_info(fl.FlightDescriptor.for_path(name))
                reader = client.do_get(endpoint.ticket)
                found[name] = (
                    info.descriptor.path,
                    about.descriptor.path,
                    endpoint.ticket.ticket,
                    endpoint.locations == [fl.Location(server.uri)],
                    info.total_records,
                    info.total_bytes,
                    [
                        one.serialize().to_pybytes()
                        for one in (
                            info.schema,
                            about.schema,
                            client.get_schema(fl.FlightDescriptor.for_path("scope", name)).schema,
                            reader.schema,
                        )
                    ],
                    reader.read_all().num_rows,
                )
            found["actions"] = [(action.type, action.description) for action in client.list_actions()]
            refusals: dict[str, Callable[[], object]] = {
                "path": lambda: client.get_flight_info(fl.FlightDescriptor.for_path("a", "b", "c")),
                "command": lambda: client.get_flight_info(fl.FlightDescriptor.for_command(b"x")),
                "unknown": lambda: client.do_get(fl.Ticket(b"s/kyed")).read_all(),
                "ticket": lambda: client.do_get(fl.Ticket(b"?")).read_all(),
                "action": lambda: list(client.do_action("barrage.helth")),
            }
            for doing, call in refusals.items():
                with pytest.raises((pa.ArrowException, OSError)) as refused:
                    call()
                error = from_flight(refused.value)
                found[doing] = (type(error), str(error))
            said.append(found)
    assert said[0].keys() == said[1].keys()
    for what, of_pyarrow in said[0].items():
        assert of_pyarrow == said[1][what], what


def test_tokens_that_it_hands_out_are_kept_by_the_client_only() -> None:
    """As those of pyarrow's front: signed, and good for every call of any connection."""
    header = b"Basic " + base64.b64encode(b"ann:secret")
    with bs.Server(front="grpc", token="secret", deephaven_port=0) as server:
        with fl.connect(server.uri) as client:
            name, token = client.authenticate_basic_token("ann", "secret")
        assert token.startswith(b"Bearer ") and b"secret" not in token
        shown = fl.FlightCallOptions(headers=[(name, token)])
        for _ in range(2):
            with fl.connect(server.uri) as client:
                assert list(client.list_flights(b"", shown)) == []
                assert list(client.list_flights(b"", fl.FlightCallOptions(headers=[(b"authorization", header)]))) == []
        assert server.statistics().sessions == 0
        assert server.deephaven_uri is not None
        other = server.deephaven_uri.replace("dh+plain", "grpc")
        with fl.connect(other) as client, pytest.raises(fl.FlightUnauthenticatedError):
            list(client.list_flights(b"", shown))


def test_all_ports_are_open_beside_it() -> None:
    with bs.Server(front="grpc", deephaven_port=0, deephaven_web_port=0) as server:
        table = server.append_table("t", SCHEMA)
        table.append({"sym": ["A"], "price": [1.0]})
        assert len({server.uri, server.deephaven_uri, server.deephaven_web_uri}) == 3
        for uri in (server.uri, str(server.deephaven_uri)):
            with bs.connect(uri) as client, client.subscribe("t", interval_ms=1) as live:
                assert live.to_arrow().num_rows == 1


@pytest.mark.parametrize("front", ["pyarrow", "grpc"])
def test_a_stream_that_asks_for_nothing_ends_and_counts(front: str, caplog: pytest.LogCaptureFixture) -> None:
    """A client that knows the reason hangs up; its other streams go on."""
    limits = bs.Limits(subscriptions=2, idle_stream_seconds=0.3)
    caplog.set_level("INFO")
    with bs.Server(front=front, limits=limits) as server, fl.connect(server.uri) as client:
        server.append_table("t", SCHEMA).append({"sym": ["A"], "price": [1.0]})
        with Follower(client, "t") as follower:
            follower.wait(lambda follower: follower.rows)
            writer, reader = client.do_exchange(DPHN)
            with suppress(StopIteration, pa.ArrowException, OSError):
                reader.read_chunk()
                writer.close()
            until(lambda: "asked for nothing within 0.3 s" in caplog.text)
            with Follower(client, "t") as second:
                second.wait(lambda follower: follower.rows)
            assert follower.error is None


def test_an_upload_that_sends_nothing_ends_and_leaves_the_connection() -> None:
    """It is told why; another stream of the same connection gets every update."""
    limits = bs.Limits(idle_upload_seconds=0.5)
    with bs.Server(front="grpc", limits=limits) as server, fl.connect(server.uri) as client:
        rows = server.append_table("t", SCHEMA)
        with Follower(client, "t") as follower:
            writer, answers = client.do_put(fl.FlightDescriptor.for_path("put"), SCHEMA)
            until(lambda: server.statistics().evicted == 1)
            with pytest.raises((pa.ArrowException, OSError), match=r"idle_upload_seconds.*\[DeadlineError\]"):
                answers.read()
                writer.close()
            until(lambda: server.statistics().uploads == 0)
            for number in range(5):
                rows.append({"sym": ["A"], "price": [float(number)]})
            follower.wait(lambda follower: len(follower.rows) == 5)
            assert follower.error is None
        assert server.statistics().evicted == 1


def test_a_stream_whose_client_takes_nothing_ends_with_its_connection() -> None:
    limits = bs.Limits(slow_client_seconds=0.5)
    with bs.Server(front="grpc", limits=limits) as server, fl.connect(server.uri) as client:
        server.append_table("blobs", {"blob": "binary"}).append({"blob": [bytes(1 << 20)] * 64})
        stalled = client.do_get(fl.Ticket(b"s/blobs"))
        until(lambda: server.statistics().evicted == 1)
        with pytest.raises((pa.ArrowException, OSError)):
            stalled.read_all()
        assert len(list(client.list_flights())) == 1

"""The statistics show every stream, of every kind, at both endpoints."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

import barrage_server as bs
from barrage_server.wire.metadata import SubscriptionRequest
from tests.server.conftest import FLIGHT
from tests.server.follower import DPHN, QUICK
from tests.server.putting import ROWS
from tests.waiting import until

BLOBS = pa.schema([("blob", pa.binary())])
MANY = [bytes(1 << 20)] * 64
"""More than the buffers between server and client take."""


def _client(server: bs.Server, endpoint: str) -> tuple[fl.FlightClient, fl.FlightCallOptions]:
    uri = server.uri if endpoint == FLIGHT else str(server.deephaven_uri).replace("dh+plain", "grpc")
    client = fl.connect(uri, generic_options=[("grpc.use_local_subchannel_pool", 1)])
    return client, fl.FlightCallOptions(headers=[(b"authorization", b"Basic YW5uOmdvb2Q=")])  # ann:good


def _stream(server: bs.Server, kind: str) -> bs.StreamGauges | None:
    found = [entry for entry in server.statistics().streams if entry.kind == kind and entry.table is not None]
    return found[0] if found else None


@pytest.mark.parametrize("kind", ["subscription", "upload", "download"])
def test_a_stream_is_shown_with_its_caller_and_what_it_waits_for(endpoint: str, kind: str) -> None:
    keep: list[Any] = []
    with bs.Server(token="good", deephaven_port=0) as server:
        server.append_table("blobs", BLOBS).append({"blob": MANY})
        client, options = _client(server, endpoint)
        if kind == "subscription":
            request = SubscriptionRequest(b"s/blobs", options=QUICK)
            keep += client.do_exchange(DPHN, options)
            keep[0].write_metadata(request.encode())
        elif kind == "upload":
            keep += client.do_put(fl.FlightDescriptor.for_path("mine"), ROWS.schema, options)
            keep[0].write_batch(ROWS)
        else:
            keep.append(client.do_get(fl.Ticket(b"s/blobs"), options))
        awaited, table = {
            "subscription": ("take", "blobs"),
            "upload": ("send", "mine"),
            "download": ("take", "blobs"),
        }[kind]
        until(lambda: (entry := _stream(server, kind)) and entry.awaited == awaited and entry.messages)
        entry = _stream(server, kind)
        assert entry is not None
        assert (entry.user, entry.table) == ("ann", table)
        assert entry.peer.startswith("127.0.0.1:")
        assert len(entry.request_id) == 16
        assert entry.nbytes > 0
        assert 0 <= entry.awaited_seconds <= entry.open_seconds
        assert server.statistics().uploads + server.statistics().downloads == (kind != "subscription")
    del keep, client  # now: their ends wait for the server


def test_streams_that_have_ended_are_not_shown(endpoint: str) -> None:
    with bs.Server(token="good", deephaven_port=0) as server:
        server.append_table("blobs", BLOBS).append({"blob": [b"x"]})
        client, options = _client(server, endpoint)
        with client:
            assert client.do_get(fl.Ticket(b"s/blobs"), options).read_all().num_rows == 1
        until(lambda: server.statistics().streams == ())

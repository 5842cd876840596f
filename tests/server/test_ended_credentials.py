"""A stream whose credentials expire or are revoked ends at every port, within a bound, and those of others go on."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from barrage_proto import flight_pb2
from websockets.exceptions import ConnectionClosed

import barrage_server as bs
from barrage_server.server.authentication import Authentication
from barrage_server.wire.metadata import SubscriptionRequest
from barrage_server.wire.tickets import scope_ticket
from tests.server.conftest import ENDPOINTS, address, endpoints
from tests.server.deephaven.web_client import WebClient
from tests.server.follower import DPHN, QUICK, Follower
from tests.server.web.flight_page import PageEndedError, greeted_over
from tests.server.web.page_client import Page, greeted

SCHEMA = pa.schema([("x", pa.int64())])
PATIENCE = 60.0
"""Seconds that only a test that fails waits."""
WITHIN = 5.0
"""Seconds until a stream has ended: a second for housekeeping, two for the word, two until its connection is cut."""
LIFE = timedelta(hours=1)

Follow = Callable[[bs.Server, str, threading.Event], str]
"""Follows a table with a token, sets the event when rows are there, and returns the name of the error at the end."""


def by_flight(endpoint: str, server: bs.Server, token: str, begun: threading.Event) -> str:
    headers = [(b"authorization", f"Bearer {token}".encode())]
    with fl.connect(address(server, endpoint)) as client, Follower(client, "t", headers=headers) as follower:
        follower.wait(lambda follower: follower.rows)
        begun.set()
        return type(follower.wait_ended(PATIENCE)).__name__


def by_websocket(server: bs.Server, token: str, begun: threading.Event) -> str:
    """As Deephaven's JavaScript API does."""
    request = SubscriptionRequest(scope_ticket("t"), options=QUICK).encode()
    described = flight_pb2.FlightDescriptor.FromString(DPHN.serialize())
    opening = flight_pb2.FlightData(flight_descriptor=described, app_metadata=request).SerializeToString()

    async def run() -> str:
        place = (server.deephaven_web_uri or "").partition("://")[2]
        async with asyncio.timeout(PATIENCE), WebClient.at(f"ws://{place}") as client:
            stream = await client.open(
                "arrow.flight.protocol.FlightService/DoExchange", authorization=f"Bearer {token}"
            )
            await client.send(stream, opening)
            answer = client.answers[stream]
            await answer.until(lambda answer: len(answer.messages) >= 2)  # the schema, and rows
            begun.set()
            await answer.end()
            return "AuthenticationError" if answer.status == grpc.StatusCode.UNAUTHENTICATED.value[0] else str(answer)

    return asyncio.run(run())


def looked_at(page: Page, begun: threading.Event) -> str:
    """What a page is told at the end, in a message or as the end of its call."""
    page.settle(page.open(1, "t"), lambda view: view.rows())
    begun.set()
    try:
        return str(page.until("refused")["error"])
    except (ConnectionClosed, PageEndedError) as error:
        return "AuthenticationError" if "unauthenticated error" in str(error) else repr(error)


def by_page(server: bs.Server, token: str, begun: threading.Event) -> str:
    with greeted(server, token=token) as page:
        return looked_at(page, begun)


def by_page_over_flight(endpoint: str, server: bs.Server, token: str, begun: threading.Event) -> str:
    with fl.connect(address(server, endpoint)) as client, greeted_over(client, token) as page:
        return looked_at(page, begun)


WAYS: dict[str, tuple[dict[str, Any], Follow]] = {
    **{endpoint: (endpoints(endpoint), partial(by_flight, endpoint)) for endpoint in ENDPOINTS},
    "web": ({"deephaven_web_port": 0}, by_websocket),
    "page": ({"web_port": 0}, by_page),
    "page beside Deephaven": ({"web_port": 0, "deephaven_port": 0}, by_page),
    **{
        f"page over {endpoint}": (endpoints(endpoint), partial(by_page_over_flight, endpoint)) for endpoint in ENDPOINTS
    },
}


def entry(name: str, expires: datetime | None = None) -> str:
    digest = hashlib.sha256(name.encode()).hexdigest()
    end = "" if expires is None else f"expires = {expires.isoformat()}\n"
    return f'[[tokens]]\nname = "{name}"\nsha256 = "{digest}"\n{end}'


@pytest.mark.parametrize("ending", ["expired", "revoked"])
@pytest.mark.parametrize("way", WAYS)
def test_a_stream_ends_with_its_credentials_in_bounded_time(
    way: str, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = datetime.now(UTC).replace(microsecond=0)
    now = [start.timestamp()]
    monkeypatch.setattr("barrage_server.server.options.Authentication", partial(Authentication, clock=lambda: now[0]))
    path = tmp_path / "credentials.toml"
    path.write_text(entry("brief", start + LIFE) + entry("lasting"))
    options, follow = WAYS[way]
    with (
        ThreadPoolExecutor(2) as pool,
        bs.Server(token=bs.CredentialFile(path), **options) as server,
    ):
        server.append_table("t", SCHEMA).append({"x": [1]})
        begun = {name: threading.Event() for name in ("brief", "lasting")}
        ends = {name: pool.submit(follow, server, name, event) for name, event in begun.items()}
        for event in begun.values():
            assert event.wait(PATIENCE)
        if ending == "expired":
            now[0] += 2 * LIFE.total_seconds()
        else:
            path.write_text(entry("lasting"))
            server.reload()
        assert ends["brief"].result(WITHIN) == "AuthenticationError"
        assert not ends["lasting"].done()

"""Pages over Flight, at every endpoint: the same as over a websocket, whatever clients send or do not take."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import grpc
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from barrage_proto import deephaven_pb2, table_pb2
from websockets.exceptions import ConnectionClosed

import barrage_server as bs
from barrage_server.plan.json_form import plan_to_json
from barrage_server.plan.operation import Sort, SortColumn
from barrage_server.plan.plan import NamedTable, Plan, Step
from barrage_server.wire.plan_messages import OperateResult
from barrage_server.wire.tickets import export_ticket, scope_ticket
from tests.server.conftest import DEEPHAVEN, ENDPOINTS, FLIGHT, GRPC, address, endpoints
from tests.server.web.flight_page import FlightSocket, PageEndedError, greeted_over, page_over
from tests.server.web.page_client import View, greeted
from tests.waiting import until

SCHEMA = {"k": "int64", "text": "string", "x": "float64"}
PAGE_THREADS = "barrage-page"


def page_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(PAGE_THREADS)]


def rows_of(numbers: range) -> dict[str, list[Any]]:
    return {"k": list(numbers), "text": [f"t{n}" for n in numbers], "x": [n / 2 for n in numbers]}


def shown(table: bs.Table, first: int, count: int) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_arrow().to_pylist()][first : first + count]


def base64_of(ticket: bytes) -> str:
    return base64.b64encode(ticket).decode()


@pytest.fixture(params=ENDPOINTS)
def endpoint(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(endpoint: str) -> Iterator[bs.Server]:
    with bs.Server(**endpoints(endpoint)) as made:
        made.append_table("t", SCHEMA).append(rows_of(range(100)))
        yield made


@pytest.fixture
def client(server: bs.Server, endpoint: str) -> Iterator[fl.FlightClient]:
    with fl.connect(address(server, endpoint)) as made:
        yield made


class TestFollowing:
    @pytest.mark.parametrize("seed", range(2))
    def test_after_any_changes_and_moves_a_window_shows_the_rows(
        self, server: bs.Server, client: fl.FlightClient, seed: int
    ) -> None:
        draw = random.Random(seed)
        table = server.keyed_table("keyed", SCHEMA, key="k")
        table.upsert(rows_of(range(30)))
        with greeted_over(client) as page:
            first, count = 0, 10
            view = page.open(1, "keyed", interval=1, first=first, count=count)
            for _ in range(25):
                match draw.randrange(3):
                    case 0:
                        begin = draw.randrange(60)
                        table.upsert(rows_of(range(begin, begin + 5)))
                    case 1:
                        table.delete({"k": [draw.randrange(60)]})
                    case _:
                        first, count = draw.randrange(40), draw.randrange(1, 25)
                        page.send(type="move", stream=1, first=first, count=count)
                expected = shown(table, first, count)

                def agrees(it: View, expected: Any = expected, first: int = first) -> bool:
                    return it.first == first and it.size == table.size and it.rows() == expected

                page.settle(view, agrees)
                assert view.ended is None

    def test_tables_queries_cells_and_health_are_there(self, server: bs.Server, client: fl.FlightClient) -> None:
        with greeted_over(client) as page:
            page.until("tables")
            assert page.tables["t"]["rows"] == 100
            view = page.open(1, "t", where=["k >= 97"], sort=[{"column": "k", "descending": True}])
            page.settle(view, lambda it: it.updates)
            assert [row[0] for row in view.rows()] == [99, 98, 97]
            page.send(type="cell", request=1, stream=1, row=0, column=1)
            assert page.until("cell")["text"] == "t99"
            page.send(type="health", on=True)
            health = page.until("health")
            assert [row[0] for row in health["tables"]] == ["t"]
            assert ["pages over Flight", 1, bs.Limits().pages] in health["counts"]

    def test_more_rows_than_a_message_holds_come(self, server: bs.Server, client: fl.FlightClient) -> None:
        table = server.append_table("wide", {f"c{number}": "string" for number in range(10)})
        table.append({f"c{number}": [f"{row} " * 80 for row in range(5_000)] for number in range(10)})
        with greeted_over(client) as page:
            view = page.open(1, "wide", count=5_000)
            page.settle(view, lambda it: len(it.cells) == 10 and len(it.rows()) == 5_000)
            assert view.rows()[4_999] == shown(table, 4_999, 1)[0]


class TestTickets:
    @pytest.mark.parametrize("ticket", [scope_ticket("t"), b"t"])
    def test_the_ticket_of_a_table_is_as_good_as_its_name(self, client: fl.FlightClient, ticket: bytes) -> None:
        with greeted_over(client) as page:
            view = opened(page, ticket, filters=[{"column": "text", "equals": "t7"}])
            assert view.rows() == [(7, "t7", 3.5)]

    def test_a_plan_is_a_ticket_and_its_result_is_another(self, server: bs.Server, client: fl.FlightClient) -> None:
        plan = plan_to_json(Plan((Step(Sort((SortColumn("k", descending=True),)), (NamedTable("t"),)),), (0,)))
        (answer,) = client.do_action(fl.Action("barrage.operate", plan))
        result = OperateResult.from_json(answer.body.to_pybytes()).outputs[0].ticket
        assert result is not None
        for ticket in (plan, result.encode()):
            with greeted_over(client) as page:
                view = opened(page, ticket, count=2, interval=1)
                assert [row[0] for row in view.rows()] == [99, 98]
                picked = opened(page, ticket, 2, where=["k % 10 = 3"], count=2)
                assert [row[0] for row in picked.rows()] == [93, 83]
                plotted = opened(page, ticket, 3, plot={"x": "k", "ys": ["x"], "pixels": 10}, count=100)
                assert plotted.ended is None
        del server

    @pytest.mark.parametrize(
        ("ticket", "error"),
        [
            (b"s/missing", "UnknownTableError"),
            (b"r/" + 32 * b"x", "UnknownTableError"),
            (b"{}", "InvalidRequestError"),
            (b"{" + b"\xff" * 100, "InvalidRequestError"),
            (b"\xff\xfe", "InvalidRequestError"),
        ],
    )
    def test_a_ticket_of_nothing_ends_its_stream(self, client: fl.FlightClient, ticket: bytes, error: str) -> None:
        with greeted_over(client) as page:
            view = opened(page, ticket)
            assert view.ended is not None
            assert view.ended["error"] == error
            page.settle(there := page.open(2, "t"), lambda it: it.updates)
            assert there.ended is None

    @pytest.mark.parametrize(
        "fields", [{}, {"table": "t", "ticket": "dA=="}, {"ticket": "dA"}, {"ticket": "ä"}, {"ticket": ""}]
    )
    def test_an_open_says_one_table(self, client: fl.FlightClient, fields: dict[str, Any]) -> None:
        with greeted_over(client) as page:
            page.send(type="open", stream=1, first=0, count=1, **fields)
            assert page.until("refused")["error"] == "WireFormatError"


def opened(page: Any, ticket: bytes, stream: int = 1, **fields: Any) -> View:
    """A view of a ticket, with its first content, or ended."""
    view = page.views[stream] = View()
    page.send(type="open", stream=stream, ticket=base64_of(ticket), **{"first": 0, "count": 10, **fields})
    page.settle(view, lambda it: it.updates)
    return view


class TestEnds:
    def test_a_client_that_goes_leaves_nothing(self, server: bs.Server, client: fl.FlightClient) -> None:
        for _ in range(3):
            with greeted_over(client) as page:
                page.settle(page.open(1, "t"), lambda it: it.updates)
        until(lambda: not server.statistics().streams)

    def test_a_client_that_half_closes_has_left(self, server: bs.Server, client: fl.FlightClient) -> None:
        with greeted_over(client) as page:
            page.settle(page.open(1, "t"), lambda it: it.updates)
            assert isinstance(page.socket, FlightSocket)
            page.socket.writer.done_writing()
            with pytest.raises(PageEndedError):
                page.until("never")
            until(lambda: not server.statistics().streams)

    def test_a_dropped_table_is_said(self, server: bs.Server, client: fl.FlightClient) -> None:
        with greeted_over(client) as page:
            view = page.open(1, "t")
            page.settle(view, lambda it: it.updates)
            server.drop("t")
            page.settle(view, lambda it: it.ended)
            assert view.ended is not None
            assert view.ended["error"] == "UnknownTableError"

    def test_a_server_that_closes_says_so_and_is_quick(self, server: bs.Server, client: fl.FlightClient) -> None:
        with greeted_over(client) as page, greeted_over(client) as other:
            view = page.open(1, "t")
            page.settle(view, lambda it: it.updates)
            closing = threading.Thread(target=server.close)
            closing.start()
            with pytest.raises(PageEndedError, match=r"shutting down|UnavailableError"):
                page.settle(view, lambda _: False)
                page.until("never")
            with pytest.raises(PageEndedError):
                other.until("never")
            closing.join(30)
            assert not closing.is_alive()
            assert view.ended is not None
            assert view.ended["error"] == "UnavailableError"
            assert "refused" not in [message["type"] for message in page.said]  # which pages take for final
        until(lambda: not page_threads())

    @pytest.mark.parametrize("endpoint", [FLIGHT, GRPC], indirect=True)
    def test_a_server_stops_although_a_client_takes_nothing(self, server: bs.Server, client: fl.FlightClient) -> None:
        table = server.append_table("wide", {"text": "string"})
        table.append({"text": ["x" * 400] * 9_000})
        deaf = FlightSocket(client)
        deaf.send(json.dumps({"type": "hello", "version": 1}))
        for number in range(1, 11):
            deaf.send(json.dumps({"type": "open", "stream": number, "table": "wide", "first": 0, "count": 9_000}))
        until(lambda: [stream for stream in server.statistics().streams if stream.awaited == "take"])
        closing = threading.Thread(target=server.close)
        closing.start()
        closing.join(20)
        assert not closing.is_alive()
        deaf.close()

    def test_a_stream_that_asks_for_nothing_ends(self, endpoint: str) -> None:
        with (
            bs.Server(**endpoints(endpoint), limits=bs.Limits(idle_stream_seconds=0.3)) as server,
            fl.connect(address(server, endpoint)) as client,
            page_over(client) as page,
        ):
            page.socket.send(b"")  # opens the exchange
            with pytest.raises(PageEndedError):
                page.until("never")
            until(lambda: not server.statistics().streams)

    def test_a_server_that_nobody_looks_at_has_no_thread_for_it(
        self, server: bs.Server, client: fl.FlightClient
    ) -> None:
        until(lambda: not page_threads())  # of servers of other tests
        list(client.list_flights())
        assert not page_threads()
        with greeted_over(client):
            assert page_threads()
        assert server.web_uri is None


class TestLimits:
    def test_too_many_pages_are_refused_until_one_leaves(self, endpoint: str) -> None:
        with (
            bs.Server(**endpoints(endpoint), limits=bs.Limits(pages=2)) as server,
            fl.connect(address(server, endpoint)) as client,
            greeted_over(client),
        ):
            with greeted_over(client), pytest.raises(PageEndedError, match="pages"), page_over(client) as page:
                page.greet()
            until(lambda: sum(stream.kind == "page" for stream in server.statistics().streams) == 1)
            with greeted_over(client):
                pass

    def test_streams_and_cells_are_bounded_as_of_every_page(self, endpoint: str) -> None:
        with (
            bs.Server(**endpoints(endpoint), limits=bs.Limits(page_streams=1, page_cells=20)) as server,
            fl.connect(address(server, endpoint)) as client,
            greeted_over(client) as page,
        ):
            server.append_table("t", SCHEMA)
            page.settle(wide := page.open(1, "t", count=10), lambda it: it.ended)
            page.settle(page.open(2, "t", count=5), lambda it: it.updates)
            page.settle(further := page.open(3, "t", count=1), lambda it: it.ended)
            assert [view.ended and view.ended["error"] for view in (wide, further)] == ["LimitError", "LimitError"]

    @pytest.mark.parametrize("endpoint", [FLIGHT, GRPC], indirect=True)
    @pytest.mark.parametrize(
        "message",
        [{"type": "open", "table": "t", "first": 0, "count": 9_000}, {"type": "health", "on": True}],
        ids=["of streams", "of the page"],
    )
    def test_a_client_that_takes_nothing_is_read_no_further_and_cut_off(
        self, endpoint: str, message: dict[str, Any]
    ) -> None:
        """Both when a stream writes to it, and when the page itself does."""
        limits = bs.Limits(slow_client_seconds=2.0)
        with (
            bs.Server(**endpoints(endpoint), limits=limits) as server,
            fl.connect(address(server, endpoint)) as client,
            fl.connect(address(server, endpoint)) as one_more,
        ):
            server.append_table("t", SCHEMA).append({"k": [1] * 9_000, "text": ["x" * 400] * 9_000, "x": [0.5] * 9_000})
            deaf = FlightSocket(client)
            deaf.send(json.dumps({"type": "hello", "version": 1}))
            sent = 0

            def talk() -> None:
                nonlocal sent
                try:
                    for number in range(1, 1 << 20):
                        deaf.send(json.dumps(message | ({"stream": number} if message["type"] == "open" else {})))
                        sent = number
                except PageEndedError:
                    return

            talking = threading.Thread(target=talk, daemon=True)
            talking.start()
            with greeted_over(one_more) as page:
                page.settle(page.open(1, "t", count=3), lambda it: it.updates)
                until(lambda: server.statistics().evicted)
                page.send(type="ping", n=1)
                page.until("pong")
                until(lambda: {stream.peer for stream in server.statistics().streams} == {peer_of(server)})
            talking.join(30)
            assert not talking.is_alive()
            assert sent < 1 << 19
            deaf.close()


def peer_of(server: bs.Server) -> str:
    """The address of the last page that came."""
    return [stream.peer for stream in server.statistics().streams if stream.kind == "page"][-1]


class TestNonsense:
    @pytest.mark.parametrize(
        "message",
        [
            b"no json",
            b"[]",
            b"\xff\xfe",
            b'{"type":"nothing"}',
            b'{"type":"hello","version":1}',
            b'{"type":"hello","version":1,"token":"x"}',
            b'{"type":"ack","stream":7,"updates":1}',
            b'{"type":"open","stream":1,"table":"t","first":0,"count":-1}',
            b"x" * 65_537,
            b"x" * (1 << 20),
        ],
    )
    def test_nonsense_ends_that_page_and_no_other(
        self, server: bs.Server, client: fl.FlightClient, message: bytes
    ) -> None:
        with greeted_over(client) as other, greeted_over(client) as page:
            view = other.open(1, "t", interval=1)
            page.socket.send(message)
            with pytest.raises(PageEndedError):
                page.until("never")
            assert page.said[-1]["type"] == "refused"
            other.settle(view, lambda it: it.updates)
        until(lambda: not server.statistics().streams)

    def test_hello_has_no_credentials(self, client: fl.FlightClient) -> None:
        with page_over(client) as page:
            assert page.greet(token="x")["error"] == "WireFormatError"

    def test_rows_are_refused(self, server: bs.Server, client: fl.FlightClient) -> None:
        with greeted_over(client) as page:
            assert isinstance(page.socket, FlightSocket)
            writer = page.socket.writer
            writer.begin(pa.schema([("x", pa.int64())]))
            writer.write_batch(pa.record_batch({"x": [1]}))
            with pytest.raises(PageEndedError):
                page.until("never")
            assert page.said[-1]["error"] == "InvalidRequestError"
        until(lambda: not server.statistics().streams)

    def test_random_messages_end_in_words_or_nothing(self, server: bs.Server, client: fl.FlightClient) -> None:
        draw = random.Random(11)
        known = ["open", "move", "ack", "pause", "resume", "close", "cell", "ping", "hello", "health"]
        values: list[Any] = [0, 1, 2, -1, 1 << 60, "t", "", None, True, [], [0], {}, 0.5, "dA==", base64_of(b"{}")]
        fields = ["stream", "table", "ticket", "first", "count", "columns", "reverse", "updates", "row", "column", "n"]
        for _ in range(40):
            with greeted_over(client) as page:
                for _ in range(20):
                    message = {name: draw.choice(values) for name in draw.sample(fields, draw.randrange(6))}
                    data = json.dumps({"type": draw.choice(known), **message}).encode()
                    if draw.random() < 0.1:
                        data = draw.randbytes(draw.randrange(200))
                    try:
                        page.socket.send(data)
                    except PageEndedError:
                        break
        until(lambda: not server.statistics().streams)
        with greeted_over(client) as page:
            page.settle(page.open(1, "t"), lambda it: it.updates)


class TestWhoMay:
    def test_the_credentials_are_those_of_the_call(self, endpoint: str) -> None:
        roles = {"desk": bs.Role(["t"], ["list", "read"], where="k >= 98", columns=["k"])}
        with (
            bs.Server(**endpoints(endpoint), token="right", roles=roles, default_roles=["desk"]) as server,
            fl.connect(address(server, endpoint)) as client,
        ):
            server.append_table("t", SCHEMA).append(rows_of(range(100)))
            server.append_table("secret", SCHEMA)
            for token in (None, "wrong"):
                with pytest.raises(PageEndedError), page_over(client, token) as page:
                    page.greet()
            with greeted_over(client, "right") as page:
                page.until("tables")
                assert set(page.tables) == {"t"}
                for stream, ticket in enumerate((scope_ticket("t"), plan_to_json(ascending("t"))), 1):
                    assert opened(page, ticket, stream).rows() == [(98,), (99,)]
                for stream, ticket in enumerate((scope_ticket("secret"), plan_to_json(ascending("secret"))), 3):
                    ended = opened(page, ticket, stream).ended
                    assert ended is not None
                    assert ended["error"] == "UnknownTableError"

    def test_a_page_whose_token_is_revoked_is_cut_off(self, endpoint: str) -> None:
        with (
            bs.Server(**endpoints(endpoint), token="old") as server,
            fl.connect(address(server, endpoint)) as client,
            greeted_over(client, "old") as page,
        ):
            server.reload(token="new")
            with pytest.raises(PageEndedError):
                page.until("never")
            if any(message["type"] == "refused" for message in page.said):
                assert page.said[-1]["error"] == "AuthenticationError"
            until(lambda: not server.statistics().streams)


def ascending(table: str) -> Plan:
    return Plan((Step(Sort((SortColumn("k"),)), (NamedTable(table),)),), (0,))


def test_pages_of_all_kinds_come_to_one_server_and_end_with_it() -> None:
    """With a port for browsers and one for Deephaven's clients, whose event loop all pages share."""
    with bs.Server(deephaven_port=0, web_port=0) as server, ExitStack() as stack:
        table = server.append_table("t", SCHEMA)
        table.append(rows_of(range(3)))
        clients = [stack.enter_context(fl.connect(address(server, endpoint))) for endpoint in (FLIGHT, DEEPHAVEN)]
        pages = [stack.enter_context(greeted(server))]
        pages += [stack.enter_context(greeted_over(client)) for client in clients]
        views = [page.open(1, "t", interval=1) for page in pages]
        for page, view in zip(pages, views, strict=True):
            page.settle(view, lambda it: it.updates)
        table.append(rows_of(range(3, 5)))
        for page, view in zip(pages, views, strict=True):
            page.settle(view, lambda it: it.rows() == shown(table, 0, 10))
        closing = threading.Thread(target=server.close)
        closing.start()
        for page, view in zip(pages, views, strict=True):
            with pytest.raises((PageEndedError, ConnectionClosed)):
                page.until("never")
            assert view.ended is not None
            assert view.ended["error"] == "UnavailableError"
        closing.join(30)
        assert not closing.is_alive()


def session_token(channel: grpc.Channel) -> str:
    """The bearer token of a new session."""
    opening: Any = channel.unary_unary("/io.deephaven.proto.backplane.grpc.ConfigService/GetConfigurationConstants")
    call = opening.with_call(
        deephaven_pb2.ConfigurationConstantsRequest().SerializeToString(), metadata=(("authorization", "Anonymous"),)
    )[1]
    token: str = dict(call.initial_metadata())["authorization"]
    return token


def waiting_tasks() -> int:
    """Tasks of all event loops of this process that are not done."""
    # by their type: a proxy of an object that is gone has no class
    return sum(type(found) is asyncio.Task and not found.done() for found in gc.get_objects())


@pytest.mark.parametrize("endpoint", [DEEPHAVEN], indirect=True)
def test_a_stream_that_is_closed_waits_for_no_export(server: bs.Server) -> None:
    """Nothing is left of streams on a table that an unfinished upload is to make."""
    assert server.deephaven_uri is not None
    place = server.deephaven_uri.removeprefix("dh+plain://")
    with grpc.insecure_channel(place) as channel, fl.connect(f"grpc://{place}") as client:
        token = session_token(channel)
        options = fl.FlightCallOptions(headers=[(b"authorization", token.encode())])
        schema = pa.schema([("x", pa.int64())])
        upload, _ = client.do_put(fl.FlightDescriptor.for_path("export", "7"), schema, options)
        with greeted_over(client, token.removeprefix("Bearer ")) as page:
            page.settle(page.open(1, "t"), lambda it: it.updates)
            before = waiting_tasks()
            for number in range(2, 102):
                page.views[number] = View()
                page.send(type="open", stream=number, ticket=base64_of(export_ticket(7)), first=0, count=1)
                page.send(type="close", stream=number)
            page.send(type="ping", n=1)
            page.until("pong")
            until(lambda: waiting_tasks() <= before + 5)
        upload.close()


@pytest.mark.parametrize("endpoint", [DEEPHAVEN], indirect=True)
def test_an_export_of_the_session_is_a_ticket(server: bs.Server) -> None:
    """A Deephaven session computes a table, and the page of the same session opens it by its number."""
    assert server.deephaven_uri is not None
    place = server.deephaven_uri.removeprefix("dh+plain://")
    with grpc.insecure_channel(place) as channel, fl.connect(f"grpc://{place}") as client:
        token = session_token(channel)
        number = export_ticket(5)
        request = table_pb2.HeadOrTailRequest(
            result_id=deephaven_pb2.Ticket(ticket=number),
            source_id=deephaven_pb2.TableReference(ticket=deephaven_pb2.Ticket(ticket=scope_ticket("t"))),
            num_rows=2,
        )
        compute: Any = channel.unary_unary("/io.deephaven.proto.backplane.grpc.TableService/Head")
        compute(request.SerializeToString(), metadata=(("authorization", token),))
        with greeted_over(client, token.removeprefix("Bearer ")) as page:
            assert [row[0] for row in opened(page, number).rows()] == [0, 1]

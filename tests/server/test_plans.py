"""Plans at every endpoint: tables that a client has the server compute, by a stock Flight client."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from barrage_server.engine import KeyedTable, UpdateGraph
from barrage_server.errors import (
    AlreadyExistsError,
    BarrageError,
    ForbiddenError,
    InvalidRequestError,
    LimitError,
    UnknownColumnError,
    UnknownTableError,
    WireFormatError,
)
from barrage_server.flight.errors import decode_end, from_flight
from barrage_server.rowset import RowSet
from barrage_server.server import Limits, Principal, Role, Server
from barrage_server.server.export_counts import ExportCounts
from barrage_server.server.leases import Leases
from barrage_server.wire.json_message import schema_from_base64
from barrage_server.wire.metadata import SnapshotRequest, SubscriptionRequest
from tests.server.conftest import address, endpoints
from tests.server.follower import DPHN, QUICK
from tests.server.test_actions import act, refused
from tests.waiting import until

QUOTES = {"table": "quotes"}
DEAR = {"verb": "where", "inputs": [QUOTES], "conditions": ["price > 1.5"]}
BACKWARDS = {"verb": "reverse", "inputs": [0]}
UNKNOWN = f"r/{32 * 'x'}"


def plan_of(*operations: object, **others: object) -> bytes:
    return json.dumps({"operations": list(operations), **others}).encode()


def operated(client: fl.FlightClient, *operations: object, **others: object) -> list[dict[str, Any]]:
    outputs: list[dict[str, Any]] = act(client, "barrage.operate", plan_of(*operations, **others))["outputs"]
    return outputs


def ticket_of(client: fl.FlightClient, *operations: object) -> str:
    (output,) = operated(client, *operations)
    return str(output["ticket"])


def content(client: fl.FlightClient, ticket: str | bytes) -> dict[str, list[Any]]:
    data = ticket if isinstance(ticket, bytes) else ticket.encode()
    found: dict[str, list[Any]] = client.do_get(fl.Ticket(data)).read_all().to_pydict()
    return found


def error_of(call: Callable[[], object]) -> BarrageError:
    with pytest.raises((pa.ArrowException, OSError)) as caught:
        call()
    return from_flight(caught.value)


@contextmanager
def exchange(client: fl.FlightClient, descriptor: fl.FlightDescriptor, request: Any) -> Iterator[tuple[Any, Any]]:
    """A stream with its first request: its writer and its reader."""
    writer, reader = client.do_exchange(descriptor)
    try:
        writer.write_metadata(request.encode())
        yield writer, reader
    finally:
        reader.cancel()
        with suppress(pa.ArrowException):  # it was cancelled
            writer.close()


def follow(client: fl.FlightClient, ticket: str | bytes, viewport: RowSet | None = None) -> Any:
    """A subscription to what has that ticket."""
    return exchange(client, DPHN, asking(ticket, viewport))


def asking(ticket: str | bytes, viewport: RowSet | None = None) -> SubscriptionRequest:
    data = ticket if isinstance(ticket, bytes) else ticket.encode()
    return SubscriptionRequest(data, viewport=viewport, options=QUICK)


def end_of(reader: Any) -> BarrageError:
    """Why a stream ends: what the server says first, or the status of the call."""
    try:
        while True:
            metadata = reader.read_chunk().app_metadata
            if metadata is not None and (told := decode_end(metadata.to_pybytes())) is not None:
                return told
    except (pa.ArrowException, OSError) as error:
        return from_flight(error)


def followed(client: fl.FlightClient, ticket: str | bytes) -> None:
    with follow(client, ticket) as (_, reader):
        reader.read_chunk()


class TestWithoutALease:
    """A plan as ticket or as command: any Flight client gets its result."""

    def test_a_plan_is_a_ticket(self, client: fl.FlightClient, quotes: KeyedTable) -> None:
        assert content(client, plan_of(DEAR, BACKWARDS)) == {"sym": ["B"], "price": [2.0]}

    def test_a_plan_is_a_command(self, client: fl.FlightClient, quotes: KeyedTable) -> None:
        descriptor = fl.FlightDescriptor.for_command(plan_of(DEAR))
        info = client.get_flight_info(descriptor)
        assert (info.total_records, info.schema.names, info.descriptor) == (1, ["sym", "price"], descriptor)
        assert client.get_schema(descriptor).schema.names == ["sym", "price"]
        assert client.do_get(info.endpoints[0].ticket).read_all().num_rows == 1

    def test_a_plan_can_be_followed(self, client: fl.FlightClient, quotes: KeyedTable) -> None:
        with follow(client, plan_of(DEAR)) as (_, reader):
            assert reader.schema.names == ["sym", "price"]
            assert reader.read_chunk().data.to_pydict()["sym"] == ["B"]
            quotes.upsert({"sym": ["C"], "price": [9.0]})
            assert reader.read_chunk().data.to_pydict()["sym"] == ["C"]

    def test_filters_of_filters_are_one_table(
        self, server: Server, client: fl.FlightClient, quotes: KeyedTable
    ) -> None:
        known = {"verb": "where", "inputs": [0], "conditions": ["sym != `C`"]}
        with follow(client, plan_of(DEAR, known, {**BACKWARDS, "inputs": [1]})) as (_, reader):
            assert reader.read_chunk().data.to_pydict()["sym"] == ["B"]
            assert sorted(one.operation for one in server.statistics().results) == ["reverse", "where"]
            quotes.upsert({"sym": ["C", "D", "A"], "price": [9.0, 8.0, 7.0]})
            assert sorted(reader.read_chunk().data.to_pydict()["sym"]) == ["A", "D"]

    @pytest.mark.parametrize("wrong", [0, 1])
    def test_the_error_of_one_of_two_filters_names_it(
        self, client: fl.FlightClient, quotes: KeyedTable, wrong: int
    ) -> None:
        conditions = ["price > 1.5", "sym != `C`"]
        conditions[wrong] = "nope > 1"
        inputs: tuple[object, ...] = (QUOTES, 0)
        steps = [
            {"verb": "where", "inputs": [source], "conditions": [condition]}
            for source, condition in zip(inputs, conditions, strict=True)
        ]
        error = error_of(lambda: content(client, plan_of(*steps)))
        assert isinstance(error, UnknownColumnError)
        assert str(error).startswith(f"Operation {wrong} (where) failed: There is no column 'nope'")

    def test_what_is_computed_for_a_call_ends_with_it(
        self, server: Server, client: fl.FlightClient, quotes: KeyedTable
    ) -> None:
        assert content(client, plan_of(DEAR))["sym"] == ["B"]
        until(lambda: not server.statistics().results)
        with follow(client, plan_of(DEAR)) as (_, reader):
            assert reader.read_chunk().data.num_rows == 1
            assert [one.operation for one in server.statistics().results] == ["where"]
        until(lambda: not server.statistics().results)

    def test_it_has_one_output(self, client: fl.FlightClient, quotes: KeyedTable) -> None:
        error = error_of(lambda: content(client, plan_of(DEAR, BACKWARDS, outputs=[0, 1])))
        assert isinstance(error, InvalidRequestError) and "has one output" in str(error)


class TestOperate:
    """The action: several results, kept for their caller."""

    def test_outputs_have_tickets_schemas_and_sizes(
        self, server: Server, client: fl.FlightClient, quotes: KeyedTable
    ) -> None:
        made = {"verb": "empty_table", "rows": 4}
        numbered = {"verb": "update", "inputs": [2], "columns": ["x = i"]}
        outputs = operated(client, DEAR, BACKWARDS, made, numbered, outputs=[1, 3])
        assert [(one["size"], one["is_static"]) for one in outputs] == [(1, False), (4, True)]
        assert [schema_from_base64(one["schema"], "").names for one in outputs] == [["sym", "price"], ["x"]]
        assert [content(client, one["ticket"]) for one in outputs] == [
            {"sym": ["B"], "price": [2.0]},
            {"x": [0, 1, 2, 3]},
        ]
        assert server.statistics().exports == 2

    def test_a_ticket_works_where_tickets_do(self, client: fl.FlightClient, quotes: KeyedTable) -> None:
        ticket = ticket_of(client, DEAR)
        descriptor = fl.FlightDescriptor.for_command(ticket)
        assert client.get_schema(descriptor).schema.names == ["sym", "price"]
        assert client.get_flight_info(descriptor).endpoints[0].ticket.ticket == ticket.encode()
        for opened, named in ((DPHN, ticket.encode()), (descriptor, b"")):
            with exchange(client, opened, SnapshotRequest(named, viewport=RowSet.flat(1))) as (_, reader):
                assert reader.read_chunk().data.to_pydict()["sym"] == ["B"]
        assert content(client, ticket_of(client, {**BACKWARDS, "inputs": [{"ticket": ticket}]}))["sym"] == ["B"]
        named_input = {**BACKWARDS, "inputs": [{"ticket": "s/quotes"}]}
        assert content(client, ticket_of(client, named_input))["sym"] == ["B", "A"]

    def test_a_viewport_on_a_ticket_moves_also_after_its_release(
        self, client: fl.FlightClient, quotes: KeyedTable
    ) -> None:
        ticket = ticket_of(client, {"verb": "sort", "inputs": [QUOTES], "columns": [{"name": "sym"}]})
        with follow(client, ticket, RowSet.flat(1)) as (writer, reader):
            assert reader.read_chunk().data.to_pydict()["sym"] == ["A"]
            assert act(client, "barrage.release", {"tickets": [ticket]}) == {"released": 1}
            writer.write_metadata(asking(ticket, RowSet.from_range(1, 1)).encode())
            assert reader.read_chunk().data.to_pydict()["sym"] == ["B"]

    def test_results_tick(self, client: fl.FlightClient, quotes: KeyedTable) -> None:
        ticket = ticket_of(client, DEAR)
        quotes.upsert({"sym": ["C"], "price": [3.0]})
        assert content(client, ticket)["sym"] == ["B", "C"]

    def test_each_operation_fails_by_itself(self, client: fl.FlightClient, quotes: KeyedTable) -> None:
        wrong = {"verb": "where", "inputs": [QUOTES], "conditions": ["nope > 1"]}
        absent = {"verb": "flatten", "inputs": [{"table": "absent"}]}
        lost = {"verb": "flatten", "inputs": [{"ticket": UNKNOWN}]}
        behind = {"verb": "flatten", "inputs": [1]}
        outputs = operated(client, DEAR, wrong, behind, absent, lost, outputs=[0, 2, 1, 3, 4])
        assert outputs[0]["size"] == 1
        assert [one.get("error") for one in outputs] == [
            None,
            *["UnknownColumnError"] * 2,
            *["UnknownTableError"] * 2,
        ]
        assert outputs[1] == outputs[2]
        assert outputs[1]["text"].startswith("Operation 1 (where) failed: There is no column 'nope'")

    def test_what_no_output_needs_is_not_computed(self, client: fl.FlightClient, quotes: KeyedTable) -> None:
        wrong = {"verb": "where", "inputs": [QUOTES], "conditions": ["nope > 1"]}
        (output,) = operated(client, wrong, DEAR, outputs=[1])
        assert output["size"] == 1

    def test_equal_operations_are_one_table(self, server: Server, client: fl.FlightClient, quotes: KeyedTable) -> None:
        tickets = [ticket_of(client, DEAR) for _ in range(3)]
        assert len(set(tickets)) == 3
        assert len(server.statistics().results) == 1
        act(client, "barrage.release", {"tickets": tickets[:2]})
        assert content(client, tickets[2])["sym"] == ["B"]
        act(client, "barrage.release", {"tickets": tickets})
        assert not server.statistics().results


class TestRelease:
    """Results are there until they are released."""

    def test_a_released_ticket_is_unknown(self, server: Server, client: fl.FlightClient, quotes: KeyedTable) -> None:
        ticket = ticket_of(client, DEAR)
        assert act(client, "barrage.release", {"tickets": [ticket, UNKNOWN, "nonsense"]}) == {"released": 1}
        assert act(client, "barrage.release", {"tickets": [ticket]}) == {"released": 0}
        assert isinstance(error_of(lambda: content(client, ticket)), UnknownTableError)
        assert isinstance(refused(client, "barrage.bind", {"ticket": ticket, "table": "t"}), UnknownTableError)
        assert server.statistics().exports == 0

    @pytest.mark.parametrize(
        ("ticket", "told", "untold"),
        [
            (UNKNOWN, "There is no result under this ticket: it was released, nothing has asked for it", "no table"),
            ("r/abcdef", "There is no result under this ticket, and no table of that name", "abcdef"),
            (UNKNOWN + "x", "There is no result under this ticket, and no table of that name", "xxx"),
            (
                "quote",
                r"There is no result under this ticket\. .* There is no table 'quote'.* mean 'quotes'",
                "released",
            ),
            ("s/quote", "There is no table 'quote' on this server. Did you mean 'quotes'", "ticket"),
        ],
    )
    def test_an_unknown_ticket_in_a_plan_is_told_as_one(
        self, client: fl.FlightClient, quotes: KeyedTable, ticket: str, told: str, untold: str
    ) -> None:
        (output,) = operated(client, {"verb": "reverse", "inputs": [{"ticket": ticket}]})
        assert output["error"] == "UnknownTableError"
        assert re.match(told, output["text"]) and untold not in output["text"]

    def test_a_released_ticket_in_a_plan_is_told_as_one(self, client: fl.FlightClient, quotes: KeyedTable) -> None:
        ticket = ticket_of(client, DEAR)
        act(client, "barrage.release", {"tickets": [ticket]})
        (output,) = operated(client, {"verb": "reverse", "inputs": [{"ticket": ticket}]})
        assert output["text"].startswith("There is no result under this ticket: it was released")

    def test_half_a_ticket_is_told_as_one(self, client: fl.FlightClient, quotes: KeyedTable) -> None:
        """Where a ticket may be the name of a table, too."""
        assert str(error_of(lambda: content(client, "r/abc"))).startswith("There is no result under this ticket, and")

    def test_a_closed_server_lets_all_go(self) -> None:
        with Server() as server, fl.connect(server.uri) as client:
            server.append_table("quotes", {"price": "float64"})
            ticket_of(client, DEAR)
            assert server.statistics().exports == 1
        assert server.statistics().exports == 0


class TestBind:
    """A result under a name."""

    def test_it_is_a_table_until_it_is_dropped(
        self, server: Server, client: fl.FlightClient, quotes: KeyedTable
    ) -> None:
        ticket = ticket_of(client, DEAR)
        assert act(client, "barrage.bind", {"ticket": ticket, "table": "dear"}) == {}
        assert act(client, "barrage.bind", {"ticket": ticket, "table": "again"}) == {}
        act(client, "barrage.release", {"tickets": [ticket]})
        quotes.upsert({"sym": ["C"], "price": [3.0]})
        assert content(client, "s/dear")["sym"] == content(client, "s/again")["sym"] == ["B", "C"]
        assert [info.total_records for info in client.list_flights()] == [2, 2, 3]
        server.drop("dear")
        assert isinstance(error_of(lambda: content(client, "s/dear")), UnknownTableError)

    def test_what_cannot_be_bound(self, client: fl.FlightClient, quotes: KeyedTable) -> None:
        ticket = ticket_of(client, DEAR)
        assert isinstance(refused(client, "barrage.bind", {"ticket": ticket, "table": "quotes"}), AlreadyExistsError)
        for wrong in ("", "a\nb"):
            assert isinstance(refused(client, "barrage.bind", {"ticket": ticket, "table": wrong}), InvalidRequestError)
        for wrong in ("s/quotes", plan_of(DEAR).decode()):
            assert "barrage.operate has given" in str(refused(client, "barrage.bind", {"ticket": wrong, "table": "t"}))
        assert isinstance(refused(client, "barrage.bind", {"ticket": ticket}), WireFormatError)


def test_registered_functions_are_listed(server: Server, client: fl.FlightClient) -> None:
    assert act(client, "barrage.functions") == {"functions": []}
    server.functions.register("twice", lambda x: x, returns=pa.float64())
    server.functions.register("word", str, returns=pa.string(), kind="scalar")
    assert act(client, "barrage.functions") == {
        "functions": [
            {"name": "twice", "kind": "batch", "returns": "double"},
            {"name": "word", "kind": "scalar", "returns": "string"},
        ]
    }
    assert isinstance(refused(client, "barrage.functions", {"name": "twice"}), WireFormatError)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[1]",
        b"\xff\xfe",
        b"[" * 100_000,
        plan_of(),
        plan_of({**BACKWARDS, "inputs": [0]}),
        plan_of({**BACKWARDS, "inputs": [1]}, {**BACKWARDS, "inputs": [0]}),
        plan_of({**DEAR, "conditions": [{"kind": "nonsense"}]}),
        plan_of({"verb": "head", "inputs": [QUOTES], "rows": 1e300}),
        plan_of(*[DEAR] * 1001),
    ],
    ids=["nothing", "damaged", "list", "no text", "deep", "empty", "itself", "cycle", "kind", "huge", "many"],
)
def test_bad_plans_are_refused_and_the_server_goes_on(client: fl.FlightClient, quotes: KeyedTable, body: bytes) -> None:
    assert isinstance(refused(client, "barrage.operate", body), InvalidRequestError | LimitError)
    if body.startswith(b"{"):
        for call in (
            lambda: content(client, body),
            lambda: client.get_schema(fl.FlightDescriptor.for_command(body)),
            lambda: followed(client, body),
        ):
            error_of(call)
    assert content(client, "s/quotes")["sym"] == ["A", "B"]


def test_a_long_body_is_refused(endpoint: str) -> None:
    limits = Limits(request_bytes=1_000)
    with Server(**endpoints(endpoint), limits=limits) as server, fl.connect(address(server, endpoint)) as client:
        server.append_table("quotes", {"price": "float64"})
        long = plan_of({**DEAR, "conditions": [1_000 * " " + "price > 1"]})
        assert isinstance(refused(client, "barrage.operate", long), LimitError)
        assert isinstance(error_of(lambda: content(client, long)), LimitError)
        assert operated(client, DEAR)[0]["size"] == 0


ROLES = {
    "reader": Role(["*"], ["list", "read"]),
    "quotes": Role(["quotes"], ["list", "read"]),
    "part": Role(["quotes"], ["list", "read"], where="price > 1.5"),
    "maker": Role(["made_*"], ["create", "publish", "list", "read"]),
}


class TestCallers:
    """What belongs to whom, and the rights behind results."""

    @pytest.fixture
    def guarded(self, endpoint: str) -> Iterator[Server]:
        def principal(credentials: Any) -> Principal:
            name, *roles = credentials.secret.split(",")
            return Principal(name, roles)

        with Server(**endpoints(endpoint), token=principal, roles=ROLES) as server:
            for name in ("quotes", "secret"):
                table = server.append_table(name, {"sym": "string", "price": "float64"})
                table.append({"sym": ["A", "B"], "price": [1.0, 2.0]})
            yield server

    @pytest.fixture
    def connect(self, guarded: Server, endpoint: str) -> Iterator[Callable[[str], fl.FlightClient]]:
        made: list[fl.FlightClient] = []

        class WithToken(fl.ClientMiddleware):  # type: ignore[misc]  # pyarrow has no types
            def __init__(self, token: str) -> None:
                self.token = token

            def sending_headers(self) -> dict[str, str]:
                return {"authorization": f"Bearer {self.token}"}

        class Tokens(fl.ClientMiddlewareFactory):  # type: ignore[misc]
            def __init__(self, token: str) -> None:
                self.token = token

            def start_call(self, info: object) -> WithToken:
                return WithToken(self.token)

        def make(token: str) -> fl.FlightClient:
            made.append(fl.connect(address(guarded, endpoint), middleware=[Tokens(token)]))
            return made[-1]

        yield make
        for client in made:
            client.close()

    def test_anothers_ticket_is_unknown(self, connect: Callable[[str], fl.FlightClient]) -> None:
        ann, bob = connect("ann,reader"), connect("bob,reader,maker")
        ticket = ticket_of(ann, DEAR)
        for call in (
            lambda: content(bob, ticket),
            lambda: bob.get_schema(fl.FlightDescriptor.for_command(ticket)),
            lambda: act(bob, "barrage.bind", {"ticket": ticket, "table": "made_t"}),
            lambda: followed(bob, ticket),
        ):
            error = error_of(call)
            assert isinstance(error, UnknownTableError) and "belongs to another caller" in str(error)
        assert operated(bob, {**BACKWARDS, "inputs": [{"ticket": ticket}]})[0]["error"] == "UnknownTableError"
        assert act(bob, "barrage.release", {"tickets": [ticket]}) == {"released": 0}
        assert content(ann, ticket)["sym"] == ["B"]

    def test_inputs_are_what_the_caller_sees(self, connect: Callable[[str], fl.FlightClient]) -> None:
        ann, bob = connect("ann,part"), connect("bob,quotes")
        everything = {"verb": "flatten", "inputs": [QUOTES]}
        assert content(ann, plan_of(everything))["sym"] == ["B"]
        assert content(bob, plan_of(everything))["sym"] == ["A", "B"]
        hidden = operated(bob, {"verb": "flatten", "inputs": [{"table": "secret"}]})
        absent = operated(bob, {"verb": "flatten", "inputs": [{"table": "absent"}]})
        assert json.dumps(hidden) == json.dumps(absent).replace("absent", "secret")

    def test_a_result_needs_its_inputs_rights_later_too(
        self, guarded: Server, connect: Callable[[str], fl.FlightClient]
    ) -> None:
        ann = connect("ann,quotes,maker")
        ticket = ticket_of(ann, {"verb": "flatten", "inputs": [QUOTES]})
        with follow(ann, ticket) as (_, reader):
            assert reader.read_chunk().data.num_rows == 2
            guarded.reload(roles={**ROLES, "quotes": Role(["quotes"], ["list"])})
            assert isinstance(error_of(lambda: content(ann, ticket)), ForbiddenError)
            assert isinstance(refused(ann, "barrage.bind", {"ticket": ticket, "table": "made_t"}), ForbiddenError)
            assert isinstance(end_of(reader), ForbiddenError)

    def test_a_name_takes_the_rights_of_a_new_table(self, connect: Callable[[str], fl.FlightClient]) -> None:
        ann = connect("ann,quotes,maker")
        ticket = ticket_of(ann, DEAR)
        assert isinstance(refused(ann, "barrage.bind", {"ticket": ticket, "table": "quotes"}), ForbiddenError)
        assert isinstance(refused(ann, "barrage.bind", {"ticket": ticket, "table": "other"}), UnknownTableError)
        act(ann, "barrage.bind", {"ticket": ticket, "table": "made_dear"})
        assert content(ann, "s/made_dear")["sym"] == ["B"]

    def test_a_bound_part_stays_that_part(self, connect: Callable[[str], fl.FlightClient]) -> None:
        ann, bob = connect("ann,part,maker"), connect("bob,maker")
        ticket = ticket_of(ann, {"verb": "merge", "inputs": [QUOTES]})
        act(ann, "barrage.bind", {"ticket": ticket, "table": "made_part"})
        assert content(bob, "s/made_part")["sym"] == content(ann, "s/quotes")["sym"] == ["B"]


def test_a_caller_holds_no_more_than_it_may(endpoint: str) -> None:
    def principal(credentials: Any) -> Principal:
        return Principal("ann", ["all"])

    limits = Limits(exports_per_caller=2)
    roles = {"all": Role(["*"], ["list", "read"])}
    with (
        Server(**endpoints(endpoint), token=principal, roles=roles, limits=limits) as server,
        fl.connect(address(server, endpoint)) as client,
    ):
        server.append_table("quotes", {"price": "float64"})
        both = operated(client, DEAR, BACKWARDS, outputs=[0, 1])
        error = refused(client, "barrage.operate", plan_of(DEAR))
        assert isinstance(error, LimitError) and "(exports_per_caller)" in str(error)
        act(client, "barrage.release", {"tickets": [both[0]["ticket"]]})
        assert operated(client, DEAR)[0]["size"] == 0


def test_a_caller_that_has_gone_leaves_nothing(endpoint: str) -> None:
    """Its table is being computed when it goes: what comes of that is let go."""
    started, may_end = threading.Event(), threading.Event()

    def slow(values: pa.Array) -> pa.Array:
        started.set()
        assert may_end.wait(60)
        return values

    with Server(**endpoints(endpoint)) as server:
        server.append_table("quotes", {"price": "float64"}).append({"price": [1.0]})
        server.functions.register("slow", slow, returns=pa.float64())
        body = plan_of({"verb": "update", "inputs": [QUOTES], "columns": ["s = slow(price)"]}, DEAR, outputs=[0, 1])
        with fl.connect(address(server, endpoint)) as client:
            options = fl.FlightCallOptions(timeout=3)
            error_of(lambda: list(client.do_action(fl.Action("barrage.operate", body), options)))
            assert started.wait(60)
        may_end.set()
        until(lambda: not server.statistics().results)
        assert server.statistics().exports == 0


def table_of_nothing() -> KeyedTable:
    return KeyedTable(UpdateGraph(), "t", {"k": "int64"}, "k")


class TestLeases:
    """How long results are kept: by a clock of the test's own."""

    def leases(self) -> None:
        self.now = 0.0
        self.held: set[str] = {"ann", "bob"}
        self.counts = ExportCounts(total=10, per_caller=3)
        self.made = Leases(10.0, self.counts, lambda: self.now, lambda principal: principal.name in self.held)

    def test_a_call_renews_the_results_that_came_together(self) -> None:
        self.leases()
        table = table_of_nothing()
        first, second = self.made.keep(Principal("ann"), [table, table])
        (other,) = self.made.keep(Principal("ann"), [table])
        for self.now in (9.0, 18.0, 27.0):
            assert self.made.get(Principal("ann"), first) is table
            self.made.tidy()
        assert len(self.made) == 2
        assert self.made.get(Principal("ann"), second) is table
        for self.now in (36.999, 37.0):
            self.made.tidy()
        assert (len(self.made), self.counts.total) == (0, 0)
        with pytest.raises(UnknownTableError, match="released, nothing has asked for it within 10 s"):
            self.made.get(Principal("ann"), other)

    def test_one_that_has_run_out_is_unknown_before_it_is_removed(self) -> None:
        self.leases()
        (ticket,) = self.made.keep(Principal("ann"), [table_of_nothing()])
        self.now = 10.0
        with pytest.raises(UnknownTableError):
            self.made.get(Principal("ann"), ticket)

    def test_they_end_with_the_credentials(self) -> None:
        self.leases()
        self.made.keep(Principal("ann"), [table_of_nothing()])
        self.made.keep(Principal("bob"), [table_of_nothing()])
        self.held.remove("ann")
        self.made.tidy()
        assert len(self.made) == 1

    def test_too_many_are_refused_as_a_whole(self) -> None:
        self.leases()
        table = table_of_nothing()
        self.made.keep(Principal("ann"), [table] * 2)
        with pytest.raises(LimitError, match="exports_per_caller"):
            self.made.keep(Principal("ann"), [table] * 2)
        assert (len(self.made), self.counts.total) == (2, 2)
        self.made.keep(Principal("bob"), [table])


def test_errors_of_calls_are_typed(client: fl.FlightClient, quotes: KeyedTable) -> None:
    error = error_of(lambda: content(client, plan_of({**DEAR, "conditions": ["nope > 1"]})))
    assert isinstance(error, UnknownColumnError) and str(error).startswith("There is no column 'nope'")

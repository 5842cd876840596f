"""Every call by every right, at every port: what a principal may not do is refused, what it may not see is unknown."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from barrage_proto import deephaven_pb2 as proto

from barrage_server.errors import (
    BarrageError,
    ForbiddenError,
    NotFoundError,
    UnknownTableError,
)
from barrage_server.flight.errors import from_flight
from barrage_server.server import Principal, Right, Role, Server
from barrage_server.server.access import AccessControl
from barrage_server.server.actions import list_actions
from barrage_server.server.catalog import Catalog
from barrage_server.wire.protocol import PutOptions
from tests.server.access_calls import (
    ABSENT,
    ACTION_LINES,
    CASES,
    DEEPHAVEN_LINES,
    DESCRIBED,
    FLIGHT_LINES,
    FLIGHT_SERVICE,
    HIDDEN,
    HOLDERS,
    NAMING,
    PACKAGE,
    RESULT,
    ROLES,
    SCHEMA,
    VISIBLE,
    Caller,
    Line,
    outcome,
    path,
    principal_of,
    ticket,
)
from tests.server.conftest import DEEPHAVEN, FLIGHT, address
from tests.server.follower import Follower
from tests.waiting import until


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(token=principal_of, roles=ROLES, deephaven_port=0, console=True) as server:
        yield server


@pytest.fixture(autouse=True)
def tables(server: Server) -> None:
    """The tables that calls are about, made anew: some calls drop or change theirs."""
    for table in server.tables():
        server.drop(table.name)
    for name in (VISIBLE, HIDDEN):
        server.append_table(name, SCHEMA).append({"x": [1, 2, 3]})


def test_every_call_has_a_line() -> None:
    """The services are those of the descriptors, which the handlers implement."""
    flight = {f"{FLIGHT_SERVICE}/{name}" for name in FLIGHT_LINES}
    assert flight | set(DEEPHAVEN_LINES) == DESCRIBED
    assert {name for name, _ in list_actions()} == set(ACTION_LINES)


def test_the_lines_are_those_of_the_handlers(server: Server) -> None:
    service: Any = server._endpoints._deephaven
    flight = {f"{FLIGHT_SERVICE}/{name}" for name in FLIGHT_LINES}
    assert set(service._service._methods) == flight | set(DEEPHAVEN_LINES)
    assert (
        len(fl.FlightMethod.__members__) - 1 == len(FLIGHT_LINES) if hasattr(fl.FlightMethod, "__members__") else True
    )


def calling(server: Server, endpoint: str, holder: str) -> Caller:
    place = address(server, endpoint)
    return Caller(fl.connect(place), grpc.insecure_channel(place.removeprefix("grpc://")), holder)


@pytest.fixture
def connected(server: Server) -> Iterator[Callable[[str, str], Caller]]:
    made: list[Caller] = []

    def connect(endpoint: str, holder: str) -> Caller:
        made.append(calling(server, endpoint, holder))
        return made[-1]

    yield connect
    for caller in made:
        caller.flight.close()
        caller.channel.close()


Connect = Callable[[str, str], Caller]


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize(("endpoint", "line"), CASES)
def test_a_call_is_allowed_by_its_rights_alone(connected: Connect, endpoint: str, line: Line, holder: str) -> None:
    caller = connected(endpoint, holder)
    role = ROLES.get(holder, Role([], []))
    held = frozenset(Right(right) for right in role.rights)
    on_table = held if "vis*" in role.tables else frozenset()
    kind, text = outcome(line.call, caller, VISIBLE)
    if line.everything:
        assert kind is ForbiddenError
        assert "every right on all tables" in text
    elif line.needs is None:
        if line.somewhere is None or line.somewhere in held:
            assert kind is None, text
        else:
            assert kind is ForbiddenError
            assert f"The right '{line.somewhere}' is missing" in text
    elif not on_table:
        assert kind is UnknownTableError, text
    elif missing := [right for right in line.needs if right not in on_table]:
        assert kind is ForbiddenError, text
        assert f"The right '{missing[0]}' on table '{VISIBLE}' is missing" in text
    else:
        assert kind not in (ForbiddenError, UnknownTableError, NotFoundError), text


@pytest.mark.parametrize("holder", ["all", "elsewhere", "no role"])
@pytest.mark.parametrize(("endpoint", "line"), NAMING)
def test_a_hidden_table_is_like_one_that_does_not_exist(
    connected: Connect, server: Server, endpoint: str, line: Line, holder: str
) -> None:
    caller = connected(endpoint, holder)
    hidden, absent = outcome(line.call, caller, HIDDEN), outcome(line.call, caller, ABSENT)
    assert hidden[0] is UnknownTableError
    assert hidden == (absent[0], absent[1].replace(ABSENT, HIDDEN))
    assert ABSENT not in [table.name for table in server.tables()]
    assert server.table(HIDDEN).size == 3


STEPS: dict[str, Callable[[AccessControl, Principal, str], object]] = {
    "get": lambda access, holder, name: access.get(holder, name, Right.READ),
    "find": AccessControl.find,
    "check": lambda access, holder, name: access.check(holder, name, Right.READ),
    "takes_long": AccessControl.takes_long,
    "check_publish": AccessControl.check_publish,
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("roles", [["elsewhere"], ["part"], []])
def test_a_hidden_table_takes_the_same_steps_as_one_that_does_not_exist(
    server: Server, step: str, roles: list[str]
) -> None:
    """So that no time tells of it, but that of steps within libraries."""
    parts = Role(["vis*"], ["list", "read"], where="x > 1")
    server_state: Any = server._server_state
    access = AccessControl(server_state.catalog, {"elsewhere": ROLES["elsewhere"], "part": parts})
    holder = Principal("someone", roles)

    def steps(name: str) -> list[str]:
        made: list[str] = []

        def note(frame: Any, event: str, _argument: object) -> None:
            if event == "call" and "barrage_server" in frame.f_code.co_filename:
                made.append(frame.f_code.co_qualname)

        sys.setprofile(note)
        try:
            STEPS[step](access, holder, name)
        except BarrageError as error:
            made.append(f"{type(error).__name__}: {str(error).replace(name, '')}")
        finally:
            sys.setprofile(None)
        return made

    steps("another")  # what is computed once
    found = steps(HIDDEN)
    assert found == steps(ABSENT)
    assert found


@pytest.mark.parametrize("endpoint", [FLIGHT, DEEPHAVEN])
def test_listings_suggestions_and_figures_have_what_is_allowed(
    connected: Connect, server: Server, endpoint: str
) -> None:
    server.append_table("other_one", SCHEMA)

    def names(caller: Caller) -> list[list[str]]:
        flights = caller.flight.list_flights(b"", caller.options)
        tables = [fl.FlightInfo.deserialize(result) for result in caller.action("barrage.tables")]
        return [[info.descriptor.path[1].decode() for info in infos] for infos in (flights, tables)]

    seen = {"only list": [VISIBLE], "only read": [], "all": [VISIBLE], "elsewhere": ["other_one"], "no role": []}
    for holder, expected in seen.items():
        caller = connected(endpoint, holder)
        assert names(caller) == [expected, expected], holder
        assert f'"tables":{len(expected)}'.encode() in caller.action("barrage.health")[0].replace(b" ", b"")
        _, text = outcome(FLIGHT_LINES["DoGet"][0].call, caller, "other_on")
        # a name of its own role is not there; one of no role is unknown, whatever is like it
        assert ("other_one" in text) == (holder == "elsewhere")
    with Follower(connected(endpoint, "all").flight, VISIBLE, headers=[(b"authorization", b"Bearer all")]) as follower:
        follower.wait(lambda follower: follower.rows)
        for holder, expected in {"only statistics": [VISIBLE], "elsewhere": ["other_one"]}.items():
            (figures,) = connected(endpoint, holder).action("barrage.statistics")
            assert (VISIBLE.encode() in figures) == (VISIBLE in expected)
            assert (b"other_one" in figures) == ("other_one" in expected)
            assert HIDDEN.encode() not in figures


def test_listed_fields_are_those_that_may_be_listed(connected: Connect) -> None:
    for holder, expected in {"only list": [VISIBLE], "only read": [], "elsewhere": [], "all": [VISIBLE]}.items():
        update = connected(DEEPHAVEN, holder).call(
            f"{PACKAGE}.ApplicationService/ListFields", proto.ListFieldsRequest(), proto.FieldsChangeUpdate
        )
        assert [field.field_name for field in update.created] == expected


@pytest.mark.parametrize("endpoint", [FLIGHT, DEEPHAVEN])
def test_making_a_table_by_rows_takes_the_right_to_make_it(connected: Connect, server: Server, endpoint: str) -> None:
    """By plain rows, and by a commit."""
    commit = ACTION_LINES["barrage.commit"][0].call
    for call in (FLIGHT_LINES["DoPut"][0].call, commit):
        kind, text = outcome(call, connected(endpoint, "only publish"), "visible too")
        assert kind is ForbiddenError
        assert "the right 'create' on it is missing" in text
        assert outcome(call, connected(endpoint, "all"), "visible too") == (None, "")
        server.drop("visible too")


@pytest.mark.parametrize("endpoint", [FLIGHT, DEEPHAVEN])
def test_options_in_a_schema_do_not_lead_elsewhere(connected: Connect, server: Server, endpoint: str) -> None:
    """Whatever a publisher says of its rows, the name decides."""
    schema = SCHEMA.with_metadata({b"barrage:put": PutOptions(mode=None).to_json()})
    caller = connected(endpoint, "all")
    with pytest.raises((pa.ArrowException, OSError)) as caught:
        caller.put(path(HIDDEN), schema=schema)
    assert type(from_flight(caught.value)) is UnknownTableError


def test_a_shared_ticket_does_not_lead_to_what_is_hidden(server: Server) -> None:
    """A session with the right shares a table; for others its ticket is one under which nothing is shared."""
    place = address(server, DEEPHAVEN).removeprefix("grpc://")
    with grpc.insecure_channel(place) as channel:
        calls: Any = channel

        def log_in(token: str) -> tuple[tuple[str, str], ...]:
            call: Any = calls.unary_unary(f"{PACKAGE}.SessionService/NewSession").with_call(
                proto.HandshakeRequest().SerializeToString(),
                timeout=20,
                metadata=(("authorization", f"Bearer {token}"),),
            )
            return (("authorization", dict(call[1].initial_metadata())["authorization"]),)

        def call(method: str, request: Any, session: tuple[tuple[str, str], ...]) -> str:
            try:
                calls.unary_unary(method)(request.SerializeToString(), timeout=20, metadata=session)
            except grpc.RpcError as error:
                return str(error.details())
            return ""

        owner, other, peer = log_in("all"), log_in("elsewhere"), log_in("only read")
        share = proto.PublishRequest(source_id=ticket(VISIBLE), result_id=proto.Ticket(ticket=b"hone"))
        assert call(f"{PACKAGE}.SessionService/PublishFromTicket", share, owner) == ""

        def export(shared: bytes, session: tuple[tuple[str, str], ...]) -> str:
            request = proto.ExportRequest(source_id=proto.Ticket(ticket=shared), result_id=RESULT)
            return call(f"{PACKAGE}.SessionService/ExportFromTicket", request, session)

        assert export(b"hone", other) == export(b"htwo", other) != ""
        assert export(b"hone", peer) == ""


@pytest.mark.parametrize("endpoint", [FLIGHT, DEEPHAVEN])
def test_streams_end_with_the_rights_that_they_take(endpoint: str) -> None:
    """A subscription ends soon after its role has changed; one that is still allowed goes on."""
    roles = {"reader": Role(["*"], ["read"]), "other": Role(["*"], ["read"])}
    with Server(token=principal_of, roles=roles, deephaven_port=0) as server:
        table = server.append_table("t", SCHEMA)
        table.append({"x": [1]})
        with fl.connect(address(server, endpoint)) as client:
            following = {
                role: Follower(client, "t", headers=[(b"authorization", f"Bearer {role}".encode())]) for role in roles
            }
            for follower in following.values():
                follower.wait(lambda follower: follower.rows)
            server.reload(roles={"reader": Role(["t"], ["list"]), "other": Role(["t"], ["read"])})
            until(lambda: following["reader"].ended)
            assert type(following["reader"].error) is ForbiddenError
            table.append({"x": [2]})
            following["other"].wait(lambda follower: len(follower.rows) == 2)
            server.reload(roles={"other": Role(["u"], ["read"])})
            until(lambda: following["other"].ended)
            assert type(following["other"].error) is UnknownTableError
            for follower in following.values():
                follower.close()


def test_without_roles_everything_is_allowed(server: Server) -> None:
    access = AccessControl(Catalog(server.graph))
    anyone = Principal("anyone")
    assert access.is_open
    assert access.rights(anyone, "t") == frozenset(Right)
    access.check(anyone, "t", *Right)
    access.check_publish(anyone, "t")
    access.check_any(anyone, Right.STATISTICS)


@pytest.mark.parametrize(
    ("pattern", "fitting", "other"),
    [
        ("fx", ["fx"], ["fx1", "afx", "FX", ""]),
        ("fx_*", ["fx_", "fx_eur", "fx_\n"], ["fx", "a fx_eur"]),
        ("*", ["anything", "a\nb"], []),
        ("t?", ["t1", "tt"], ["t", "t12"]),
        ("t[ab]", ["ta", "tb"], ["tc", "t[ab]"]),
        ("a.b", ["a.b"], ["axb"]),
        ("a|b", ["a|b"], ["a", "b"]),
    ],
)
def test_patterns_match_whole_names(server: Server, pattern: str, fitting: list[str], other: list[str]) -> None:
    access = AccessControl(Catalog(server.graph), {"r": Role([pattern, "zz"], ["read"])})
    holder = Principal("p", ["r"])
    assert [name for name in [*fitting, *other] if access.allows(holder, name, Right.READ)] == fitting

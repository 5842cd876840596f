"""The actions about plans: operate, release, bind, and functions."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from barrage_server.engine import Table
from barrage_server.engine.alias import alias
from barrage_server.errors import AlreadyExistsError, BarrageError, InvalidRequestError, UnavailableError
from barrage_server.flight.errors import error_name
from barrage_server.log import note
from barrage_server.plan.json_form import plan_from_json
from barrage_server.server.access import Right
from barrage_server.server.plans import compute, table_of_ticket
from barrage_server.server.principal import Principal
from barrage_server.server.server_state import ServerState
from barrage_server.wire.json_message import json_bytes
from barrage_server.wire.plan_messages import (
    BindRequest,
    FunctionsResult,
    OperateResult,
    PlanOutput,
    ReleaseRequest,
    ReleaseResult,
)
from barrage_server.wire.schema import barrage_schema
from barrage_server.wire.tickets import ResultTicket, parse_computed, path_of_name

__all__ = ["bind", "flight_schema", "functions", "operate", "release"]


def operate(server_state: ServerState, principal: Principal, body: bytes, is_gone: Callable[[], bool]) -> bytes:
    """Compute a plan, and keep its outputs for the caller."""
    outcomes = compute(server_state, principal, plan_from_json(body), is_gone)
    if is_gone():  # nothing is kept for it
        raise UnavailableError("The caller has gone.")
    leases = server_state.leases
    tickets = iter(leases.keep(principal, [one for one in outcomes if isinstance(one, Table)]))
    outputs = [
        PlanOutput(error=error_name(one), text=str(one))
        if isinstance(one, BarrageError)
        else PlanOutput(next(tickets), flight_schema(one), one.size, not one.is_refreshing)
        for one in outcomes
    ]
    return OperateResult(tuple(outputs), int(1000 * leases.seconds)).to_json()


def release(server_state: ServerState, principal: Principal, body: bytes) -> bytes:
    """Release results."""
    tickets = ReleaseRequest.from_json(body).tickets
    return ReleaseResult(server_state.leases.release(principal, tickets)).to_json()


def bind(server_state: ServerState, principal: Principal, body: bytes) -> bytes:
    """Serve a result under a name."""
    request = BindRequest.from_json(body)
    name, catalog, access = request.table, server_state.catalog, server_state.access
    note(table=name)
    path_of_name(name)
    access.check(principal, name, Right.CREATE, Right.PUBLISH)
    ticket = parse_computed(request.ticket.encode())
    if not isinstance(ticket, ResultTicket):
        raise InvalidRequestError("The ticket must be one that barrage.operate has given: 'r/' and 32 characters.")
    table = table_of_ticket(server_state, principal, ticket)
    if catalog.find(name) is not None:
        raise AlreadyExistsError(f"There is a table '{name}' already; drop it first, or use another name.")
    with server_state.making(principal) as check_new:
        check_new({name: table.schema})
        catalog.add(alias(table, name), name)  # the result itself may have other users, with rights on its inputs
    return json_bytes({})


def functions(server_state: ServerState) -> bytes:
    """The registered functions that formulas may name."""
    return FunctionsResult(server_state.catalog.graph.functions.signatures).to_json()


def flight_schema(table: Table) -> pa.Schema:
    """The schema of a table for clients of Arrow Flight."""
    return barrage_schema(table.schema, attributes=table.attributes, key_columns=table.key_columns)

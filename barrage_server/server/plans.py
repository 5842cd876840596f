"""Plans of clients: the tables they compute, and the tables of their tickets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from barrage_server.engine import Table
from barrage_server.engine.restricted import source_of
from barrage_server.errors import BarrageError, InvalidRequestError, UnavailableError, UnknownTableError
from barrage_server.flight.errors import error_name, error_of
from barrage_server.log import note
from barrage_server.plan.fusing import filters_together
from barrage_server.plan.json_form import plan_from_json
from barrage_server.plan.operation import Operation
from barrage_server.plan.plan import NamedTable, Plan, Result, Source, Step, TicketTable
from barrage_server.server.access import Right
from barrage_server.server.principal import Principal
from barrage_server.server.server_state import ServerState
from barrage_server.server.translate import safe_error
from barrage_server.wire.tickets import (
    RESULT_FORM,
    PlanTicket,
    ResultTicket,
    begins_as_result,
    name_of_ticket,
    parse_computed,
)

__all__ = ["compute", "compute_from", "computed_table", "table_of_ticket"]

_SHOWN: Final = 200
"""Most characters of the names of a plan's tables in the log."""

_GONE: Final = "The caller has gone, or the server is shutting down."

IsGone = Callable[[], bool]
"""Whether the caller has gone, which stops the computation."""
Outcome = Table | BarrageError


def compute(server_state: ServerState, principal: Principal, plan: Plan, is_gone: IsGone) -> list[Outcome]:
    """The outputs of a plan: tables, or errors of the operations that failed.

    Reads the tables. Operations on which no output depends are not computed.

    Raises:
        UnavailableError: the caller has gone, or the server is shutting down.

    """
    note(table=", ".join(plan.tables)[:_SHOWN])
    fewer = filters_together(plan)
    outcomes = _outcomes(server_state, principal, fewer, is_gone)
    if fewer is not plan and any(isinstance(outcome, BarrageError) for outcome in outcomes):
        # without fusing, so that the text of the error names the operation that the caller wrote
        outcomes = _outcomes(server_state, principal, plan, is_gone)
    return outcomes


def _outcomes(server_state: ServerState, principal: Principal, plan: Plan, is_gone: IsGone) -> list[Outcome]:
    needed = _needed(plan)
    outcomes: dict[int, Outcome] = {}
    for number in range(len(plan.steps)):
        if number in needed:
            if is_gone() or server_state.streams.closing:
                raise UnavailableError(_GONE)
            outcomes[number] = _outcome(server_state, principal, plan, number, outcomes, is_gone)
    return [outcomes[output] for output in plan.outputs]


def compute_from(
    server_state: ServerState, principal: Principal, table: Table, operations: Iterable[Operation], is_gone: IsGone
) -> Table:
    """The result of a chain of operations on a table that ``principal`` holds.

    Raises:
        BarrageError: the error of the operation that failed.
        UnavailableError: the caller has gone, or the server is shutting down.

    """
    note(table=table.name)
    for operation in operations:
        if is_gone() or server_state.streams.closing:
            raise UnavailableError(_GONE)
        table = server_state.results.compute(principal, operation, [table], is_gone)
    return table


def _needed(plan: Plan) -> set[int]:
    needed = set(plan.outputs)
    for number in range(len(plan.steps) - 1, -1, -1):
        if number in needed:
            needed.update(source.step for source in plan.steps[number].inputs if isinstance(source, Result))
    return needed


def _outcome(
    server_state: ServerState,
    principal: Principal,
    plan: Plan,
    number: int,
    before: dict[int, Outcome],
    is_gone: IsGone,
) -> Outcome:
    """The result of one operation, or an error whose text names the failed operation."""
    step = plan.steps[number]
    for source in step.inputs:
        if isinstance(source, Result) and isinstance(failed := before[source.step], BarrageError):
            return failed
    try:
        return _result(server_state, principal, step, before, is_gone)
    except Exception as error:  # a fault of one operation must not stop the others
        safe = safe_error(error, f"the operation '{step.operation.verb}'", principal.name)
        if len(plan.steps) == 1:
            return safe
        return error_of(error_name(safe), f"Operation {number} ({step.operation.verb}) failed: {safe}")


def _result(
    server_state: ServerState, principal: Principal, step: Step, before: dict[int, Outcome], is_gone: IsGone
) -> Table:
    inputs = [_input(server_state, principal, source, before) for source in step.inputs]
    return server_state.results.compute(principal, step.operation, inputs, is_gone)


def _input(server_state: ServerState, principal: Principal, source: Source, before: dict[int, Outcome]) -> Table:
    match source:
        case Result(step):
            made = before[step]
            assert isinstance(made, Table)
            return made
        case NamedTable(name):
            return server_state.access.get(principal, name, Right.READ)
        case TicketTable(ticket):
            parsed = parse_computed(ticket.encode())
            if isinstance(parsed, PlanTicket):
                raise InvalidRequestError("The input of an operation is a table or a result, and no plan.")
            if parsed is None:
                return _named_by(server_state, principal, ticket)
            return table_of_ticket(server_state, principal, parsed)


def _named_by(server_state: ServerState, principal: Principal, ticket: str) -> Table:
    """The table that a ticket names.

    The error for another text says which tickets results have.
    """
    name = name_of_ticket(ticket.encode())
    try:
        return server_state.access.get(principal, name, Right.READ)
    except UnknownTableError as error:
        if name != ticket or begins_as_result(name):
            raise
        raise UnknownTableError(
            f"There is no result under this ticket. The ticket of a result is {RESULT_FORM}. As the name of a table: "
            f"{error}"
        ) from None


def table_of_ticket(server_state: ServerState, principal: Principal, ticket: ResultTicket) -> Table:
    """The result that is kept for ``principal`` under a ticket; its lease is renewed.

    Raises:
        UnknownTableError: there is no result, or one of its tables was dropped, or the caller has no right on such a
            table any more.
        ForbiddenError, UnavailableError: the caller may not read its tables any more, or sees another part of one.

    """
    table = server_state.leases.get(principal, ticket.text)
    note(table=table.name)
    server_state.private.check(principal, table, Right.READ)
    for origin in server_state.private.origins(table):
        if server_state.catalog.find(origin.name) is not source_of(origin):
            raise UnknownTableError(
                f"There is no result under this ticket any more: table '{origin.name}', which it is computed from, was "
                f"dropped."
            )
    return table


def computed_table(
    server_state: ServerState, principal: Principal, ticket: ResultTicket | PlanTicket, is_gone: IsGone
) -> Table:
    """The table of a ticket: a kept result, or the output of a plan computed now.

    Raises what :func:`table_of_ticket` does, and:
        InvalidRequestError: the ticket is not a plan, or its plan has several outputs.
        BarrageError: the error of the operation that failed.

    """
    if isinstance(ticket, ResultTicket):
        return table_of_ticket(server_state, principal, ticket)
    limit = server_state.limits.request_bytes
    plan = plan_from_json(ticket.json, limit)
    if len(plan.outputs) != 1:
        raise InvalidRequestError(
            f"A plan as a ticket or command has one output, and this one has {len(plan.outputs)}. Use the action "
            "barrage.operate."
        )
    (outcome,) = compute(server_state, principal, plan, is_gone)
    if isinstance(outcome, BarrageError):
        raise outcome
    return outcome

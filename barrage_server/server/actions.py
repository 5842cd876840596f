"""The actions of DoAction: commits, plans and administration.

Bodies and results are messages of :mod:`barrage_server.wire.protocol`.
"""

from __future__ import annotations

import dataclasses
import difflib
import logging
from collections.abc import Callable
from typing import Final

from barrage_server.errors import LimitError, NotFoundError, UnknownTableError, WireFormatError
from barrage_server.log import count, note
from barrage_server.server import plan_actions
from barrage_server.server.access import Right
from barrage_server.server.figures import shown_to
from barrage_server.server.principal import Principal
from barrage_server.server.server_state import ServerState
from barrage_server.wire.commit_messages import (
    AbortRequest,
    AbortResult,
    CommitRequest,
    KeepRequest,
    KeepResult,
    LastBatchRequest,
)
from barrage_server.wire.json_message import MESSAGES, json_bytes, parse_object
from barrage_server.wire.plan_messages import BIND_ACTION, FUNCTIONS_ACTION, OPERATE_ACTION, RELEASE_ACTION
from barrage_server.wire.protocol import (
    ABORT_ACTION,
    COMMIT_ACTION,
    CREATE_ACTION,
    DROP_ACTION,
    HEALTH_ACTION,
    KEEP_ACTION,
    LAST_BATCH_ACTION,
    STATISTICS_ACTION,
    TABLES_ACTION,
    CreateRequest,
    DropRequest,
)
from barrage_server.wire.table_spec import TableSpec

__all__ = ["CHANGING_ACTIONS", "check_empty", "list_actions", "run_action"]

logger = logging.getLogger("barrage_server.server")

_EMPTY_BYTES: Final = 1000
"""Most bytes of the body of an action without fields."""


def _commit(server_state: ServerState, principal: Principal, body: bytes) -> bytes:
    request = CommitRequest.from_json(body)
    tables = ", ".join(part.table for part in request.parts)
    note(table=tables)
    for part in request.parts:
        server_state.access.check_publish(principal, part.table)
    with server_state.making(principal) as check_new:
        result = server_state.committer.commit(request, principal.owner, server_state.wall_clock(), check_new)
    note(step=result.step)
    if not result.duplicate:
        server_state.counters.published("commit", result.rows)
        rows = count(result.rows, "rows")
        logger.debug("batch %d of %s committed into %s, %s", request.batch, request.publisher, tables, rows)
    return result.to_json()


def _abort(server_state: ServerState, principal: Principal, body: bytes) -> bytes:
    request = AbortRequest.from_json(body)
    _check_staged(server_state, principal, request.table)
    staging, user = server_state.staging, principal.owner
    dropped = staging.drop(request.tokens, user)
    if request.batch is not None:
        dropped += staging.drop_batch(request.publisher or "", request.table or "", request.batch, user, request.epoch)
    return AbortResult(dropped).to_json()


def _keep(server_state: ServerState, principal: Principal, body: bytes) -> bytes:
    request = KeepRequest.from_json(body)
    _check_staged(server_state, principal, request.table)
    staging, now, user = server_state.staging, server_state.clock(), principal.owner
    kept = staging.keep(request.tokens, now, user)
    if request.batch is not None:
        publisher, table = request.publisher or "", request.table or ""
        kept += staging.keep_batch(publisher, table, request.batch, now, user, request.epoch)
    return KeepResult(kept, int(1000 * staging.limits.expiry_seconds)).to_json()


def _check_staged(server_state: ServerState, principal: Principal, table: str | None) -> None:
    """Check that the caller may publish to ``table``."""
    if table is not None:
        server_state.access.check(principal, table, Right.PUBLISH)
    else:  # the batches are named by tokens, which only their publisher knows
        server_state.access.check_any(principal, Right.PUBLISH)


def _last_batch(server_state: ServerState, principal: Principal, body: bytes) -> bytes:
    request = LastBatchRequest.from_json(body)
    server_state.access.check(principal, request.table, Right.PUBLISH)
    return server_state.committer.last_batch(request, principal.owner).to_json()


def _create(server_state: ServerState, principal: Principal, body: bytes) -> bytes:
    request = CreateRequest.from_json(body)
    note(table=request.table)
    server_state.access.check(principal, request.table, Right.CREATE)
    with server_state.making(principal) as check_new:
        if server_state.catalog.find(request.table) is None:
            check_new({request.table: request.schema})
        spec = TableSpec.implied(request.kind, request.key, request.capacity, durable=request.durable)
        server_state.catalog.ensure(request.table, request.schema, spec)
    return json_bytes({})


def _drop(server_state: ServerState, principal: Principal, body: bytes) -> bytes:
    name = DropRequest.from_json(body).table
    note(table=name)
    if server_state.access.is_open:
        server_state.drop(name)
        return json_bytes({})
    server_state.access.check(principal, name, Right.DROP)
    try:
        server_state.drop(name)
    except UnknownTableError:  # the text must not suggest tables that this caller may not see
        raise server_state.access.unknown(principal, name) from None
    return json_bytes({})


def _statistics(server_state: ServerState, principal: Principal, body: bytes) -> bytes:
    check_empty(body, "statistics request")
    figures = shown_to(server_state, principal)
    return json_bytes(dataclasses.asdict(figures))


def _health(server_state: ServerState, principal: Principal, body: bytes) -> bytes:
    check_empty(body, "health request")
    server_state.access.call_functions(principal)
    tables = server_state.access.named(principal)
    return json_bytes({"status": "serving", "step": server_state.catalog.graph.step, "tables": len(tables)})


def _functions(server_state: ServerState, _principal: Principal, body: bytes) -> bytes:
    check_empty(body, "functions request")
    return plan_actions.functions(server_state)


_ACTIONS: Final[dict[str, tuple[str, Callable[[ServerState, Principal, bytes], bytes]]]] = {
    COMMIT_ACTION: ("Make staged batches visible as one delta, once per batch number.", _commit),
    ABORT_ACTION: ("Drop staged batches.", _abort),
    KEEP_ACTION: ("Keep staged batches from expiring.", _keep),
    LAST_BATCH_ACTION: ("The last batch that a publisher has committed to a table.", _last_batch),
    CREATE_ACTION: ("Make an empty table.", _create),
    DROP_ACTION: ("Take a table away, and end the streams that follow it.", _drop),
    STATISTICS_ACTION: ("Figures of the server, its tables and its subscriptions.", _statistics),
    HEALTH_ACTION: ("Whether the server serves.", _health),
    RELEASE_ACTION: ("Let results of plans go.", plan_actions.release),
    BIND_ACTION: ("Serve the result of a plan under a name.", plan_actions.bind),
    FUNCTIONS_ACTION: ("The registered functions that formulas may name.", _functions),
}


CHANGING_ACTIONS: Final = frozenset({COMMIT_ACTION, CREATE_ACTION, DROP_ACTION, BIND_ACTION})
"""Actions that may wait for a cycle or for the disk."""


def check_empty(body: bytes, what: str) -> None:
    """Raise WireFormatError unless ``body``, of an action without fields, has none."""
    if len(body) > _EMPTY_BYTES:
        raise WireFormatError(f"A {what} has no fields, and this body has {len(body):,} bytes.")
    if body:
        MESSAGES.refuse_others(parse_object(body, what, is_request=True), (), what)


def list_actions() -> list[tuple[str, str]]:
    """Name and description of every action."""
    own = [(name, description) for name, (description, _) in _ACTIONS.items()]
    others = [
        (OPERATE_ACTION, "Compute tables from tables, by a plan, and keep them for the caller."),
        (TABLES_ACTION, "The tables, as ListFlights lists them."),
    ]
    return [*own, *others]


def run_action(
    server_state: ServerState,
    principal: Principal,
    name: str,
    body: bytes,
    is_gone: Callable[[], bool] = lambda: False,
) -> bytes:
    """Run one action, except ``tables``, which each endpoint answers in its own way.

    Args:
        server_state: the server's state.
        principal: the caller.
        name: the name of the action.
        body: its body.
        is_gone: returns whether the caller has gone, which stops a computation.

    Raises:
        NotFoundError: there is no action of that name.
        UnknownTableError: there is no such table, or the caller has no right on it.
        ForbiddenError: the caller lacks the right that the action needs.
        LimitError: ``body`` has more than ``limits.request_bytes``.
        BarrageError: the error of the action.

    """
    if name not in _ACTIONS and name != OPERATE_ACTION:
        known = [action for action, _ in list_actions()]
        close = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean '{close[0]}'?" if close else f" There are: {', '.join(known)}."
        raise NotFoundError(f"There is no action '{name[:100]}'.{hint}")
    if len(body) > server_state.limits.request_bytes:
        most = server_state.limits.request_bytes
        raise LimitError(
            f"The body of an action may have {most:,} bytes (request_bytes), and this one has {len(body):,}."
        )
    if name == OPERATE_ACTION:
        return plan_actions.operate(server_state, principal, body, is_gone)
    return _ACTIONS[name][1](server_state, principal, body)

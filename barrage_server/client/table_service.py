"""The table service of a Deephaven server: plans are batches, results exports."""

from __future__ import annotations

import logging
import os
import re
import secrets
import threading
from collections.abc import Sequence
from typing import Final

from barrage_proto import console_pb2, deephaven_pb2

from barrage_server.client.channel import Channel
from barrage_server.client.grpc_channel import GrpcChannel
from barrage_server.client.names import ticket_of
from barrage_server.client.plan_calls import Computed, PlanCalls
from barrage_server.client.server_kind import ServerKind
from barrage_server.deephaven.requests import Batch, batch_of
from barrage_server.errors import (
    AlreadyExistsError,
    BarrageError,
    DeadlineError,
    InvalidRequestError,
    UnavailableError,
    UnknownColumnError,
    UnknownTableError,
    UnsupportedTypeError,
    WireFormatError,
)
from barrage_server.flight.errors import from_status, from_tagged
from barrage_server.plan.plan import Plan
from barrage_server.wire.arrow_message import read_schema
from barrage_server.wire.tickets import export_ticket

__all__ = ["ExportNumbers", "TableService"]

logger = logging.getLogger("barrage_server.client")

_PACKAGE: Final = "io.deephaven.proto.backplane"
_TABLES: Final = f"/{_PACKAGE}.grpc.TableService"
_RELEASE: Final = f"/{_PACKAGE}.grpc.SessionService/Release"
_BIND: Final = f"/{_PACKAGE}.script.grpc.ConsoleService/BindTableToVariable"
_CAUSE: Final = re.compile(r"cause: (?P<status>[A-Z_]+): (?P<text>.*)", re.DOTALL)
_LOGGED: Final = re.compile(r"Details Logged w/ID '([0-9a-f-]+)'")
_NO_COLUMN: Final = "column(s) not found"
_MOST_EXPORTS: Final = 1 << 30

Creation = deephaven_pb2.ExportedTableCreationResponse


class ExportNumbers:
    """Numbers for the exports of one connection.

    A forked process shares the session of its parent. It begins at a random number, so that their numbers differ.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = -1
        self._last = 0

    def next(self) -> int:
        """Return an unused number."""
        with self._lock:
            if self._pid != os.getpid() or self._last >= 2 * _MOST_EXPORTS - 1:
                self._pid, self._last = os.getpid(), secrets.randbelow(_MOST_EXPORTS)
            self._last += 1
            return self._last


class TableService(PlanCalls):
    """The calls of a Deephaven server. Results are lost with their session.

    Args:
        channel: the connection, which has the session.

    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._grpc = GrpcChannel(channel)
        self._numbers = ExportNumbers()

    def compute(self, plan: Plan) -> Computed:
        """Compute a plan with one output, as an export."""

        def ask() -> Computed:
            session, number = self._channel.login.sessions_lost, self._numbers.next()
            ticket = export_ticket(number)
            batch = batch_of(plan, ticket, lambda name: ticket_of(name, ServerKind.DEEPHAVEN))
            try:
                created = self._run(batch)
                schema = read_schema(created.schema_header)
            except (DeadlineError, UnsupportedTypeError, WireFormatError):
                self.release([ticket])  # the server may have it, or make it later
                raise
            return Computed(ticket, ("export", str(number)), schema, created.size, created.is_static, session)

        return self._channel.logged_in(ask)

    def is_known(self, computed: Computed) -> bool:
        """Whether the session of the result is the present one."""
        return computed.session == self._channel.login.sessions_lost

    def size(self, computed: Computed) -> int:
        """Ask for the present number of rows of a result.

        Raises:
            UnknownTableError: it was lost with its session.

        """

        def ask() -> int:
            if not self.is_known(computed):
                raise UnknownTableError("The result was lost with the session that it was made in.")
            ticket = deephaven_pb2.Ticket(ticket=computed.ticket)
            found: Creation = self._grpc.unary(f"{_TABLES}/GetExportedTableCreationResponse", ticket, Creation)
            return found.size

        return self._channel.logged_in(ask)

    def bind(self, computed: Computed, name: str) -> None:
        """Make a result a global variable of the server.

        Raises:
            AlreadyExistsError: there is a table of that name.

        """
        self._check_free(name)
        request = console_pb2.BindTableToVariableRequest(
            variable_name=name, table_id=deephaven_pb2.Ticket(ticket=computed.ticket)
        )

        def ask() -> None:
            if not self.is_known(computed):
                raise UnknownTableError("The result was lost with the session that it was made in.")
            self._grpc.unary(_BIND, request, console_pb2.BindTableToVariableResponse)

        self._channel.logged_in(ask)

    def release(self, tickets: Sequence[bytes]) -> None:
        """Release exports of this session."""
        for ticket in tickets:
            request = deephaven_pb2.ReleaseRequest(id=deephaven_pb2.Ticket(ticket=ticket))
            try:
                self._grpc.unary(_RELEASE, request, deephaven_pb2.ReleaseResponse)
            except BarrageError as error:  # an export of another session, or no connection
                logger.debug("an export was not released: %s", error)

    def close(self) -> None:
        """Close the connection of these calls."""
        self._grpc.close()

    def _run(self, batch: Batch) -> Creation:
        """Run a batch, and return the response for its last operation."""
        responses, end = self._grpc.responses(f"{_TABLES}/Batch", batch.request, Creation)
        failed = [response for response in responses if not response.success]
        if failed:
            # Operations that depend on the failed one report no cause of their own.
            cause = next((one for one in failed if _CAUSE.search(one.error_info)), failed[0])
            raise _refused(_verb(cause, batch), cause.error_info)
        if type(end) is InvalidRequestError:  # about the batch as a whole
            verbs = ", ".join(f"'{verb}'" for verb in dict.fromkeys(batch.verbs))
            raise InvalidRequestError(f"The Deephaven server refused {verbs}: {str(end).rstrip('.')}.")
        if end is not None:
            raise end
        if not responses:
            raise UnavailableError(f"{self._channel.address} ended the call without a result.")
        return responses[-1]

    def _check_free(self, name: str) -> None:
        reference = deephaven_pb2.TableReference(
            ticket=deephaven_pb2.Ticket(ticket=ticket_of(name, ServerKind.DEEPHAVEN))
        )
        ticket = export_ticket(self._numbers.next())
        request = deephaven_pb2.FetchTableRequest(source_id=reference, result_id=deephaven_pb2.Ticket(ticket=ticket))
        try:
            self._channel.logged_in(lambda: self._grpc.unary(f"{_TABLES}/FetchTable", request, Creation))
        except UnknownTableError:
            return
        self.release([ticket])
        raise AlreadyExistsError(f"There is a table '{name}' on {self._channel.address}; choose another name.")


def _verb(response: Creation, batch: Batch) -> str:
    """Return the method whose operation failed; only the last operation has a ticket."""
    reference = response.result_id
    if reference.WhichOneof("ref") == "batch_offset" and 0 <= reference.batch_offset < len(batch.verbs):
        return batch.verbs[reference.batch_offset]
    return batch.verbs[-1]


def _refused(verb: str, told: str) -> BarrageError:
    """Return the error for an operation that a Deephaven server did not compute."""
    ours, found = from_tagged(told), _CAUSE.search(told)
    if ours is not None:  # a server of this project, at its port for Deephaven's clients
        return ours
    if found is None:
        return InvalidRequestError(f"The Deephaven server did not compute '{verb}': {told}.")
    status, text = found["status"], found["text"]
    logged = _LOGGED.search(text)
    error = from_status(status, text)
    if logged is not None:
        if status == "INVALID_ARGUMENT":
            return InvalidRequestError(
                f"The Deephaven server refused '{verb}'. It tells clients no reason: its log does, under the id "
                f"{logged[1]}. Look for columns, formulas and types that it does not know."
            )
        return error
    if isinstance(error, UnknownTableError):
        return error
    kind = UnknownColumnError if _NO_COLUMN in text else type(error)
    return kind(f"The Deephaven server refused '{verb}': {text.rstrip('.')}.")

"""Scripts, and names for tables: Deephaven's ConsoleService."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from barrage_proto import console_pb2
from barrage_proto import deephaven_pb2 as proto

from barrage_server.errors import (
    BarrageError,
    DeadlineError,
    ForbiddenError,
    InvalidRequestError,
    LimitError,
    UnsupportedOperationError,
)
from barrage_server.server.access import Right
from barrage_server.server.deephaven.application_service import table_fields
from barrage_server.server.deephaven.call import Call
from barrage_server.server.deephaven.service import Methods, read_request, unary
from barrage_server.server.deephaven.sessions import Session
from barrage_server.server.deephaven.state import EndpointState, exported_number
from barrage_server.wire.tickets import ExportTicket, parse_ticket

if TYPE_CHECKING:
    from barrage_server.server.console.console import Command, Console, Outcome

__all__ = ["ConsoleService"]

_CONSOLE: Final = "/io.deephaven.proto.backplane.script.grpc.ConsoleService"
_PYTHON: Final = "python"
_MOST_CONSOLES: Final = 100
"""Most consoles of one session."""
_STOP_SECONDS: Final = 5.0
"""Seconds within which a script must stop when it is told to."""
_OFF: Final = (
    "This server runs no scripts, as they can do whatever its process may. To have callers with every right run them, "
    "start it with console=True (--console on the command line)."
)


class ConsoleService:
    """Runs scripts of callers with every right, and binds names for all callers.

    Scripts must be switched on.
    """

    def __init__(self, state: EndpointState) -> None:
        self._state = state

    def methods(self) -> Methods:
        """The handlers by method name."""
        return {
            f"{_CONSOLE}/GetConsoleTypes": unary(console_pb2.GetConsoleTypesRequest, self._types),
            f"{_CONSOLE}/StartConsole": unary(console_pb2.StartConsoleRequest, self._start),
            f"{_CONSOLE}/ExecuteCommand": unary(console_pb2.ExecuteCommandRequest, self._execute),
            f"{_CONSOLE}/CancelCommand": unary(console_pb2.CancelCommandRequest, self._cancel),
            f"{_CONSOLE}/SubscribeToLogs": self._logs,
            f"{_CONSOLE}/BindTableToVariable": unary(console_pb2.BindTableToVariableRequest, self._bind),
        }

    def _console(self, session: Session) -> Console:
        """The console, for a caller who may use it.

        Raises:
            UnsupportedOperationError: there is none.
            ForbiddenError: the caller lacks a right.
        """
        console = self._state.console
        if console is None:
            raise UnsupportedOperationError(_OFF)
        self._state.server_state.access.check_everything(session.principal, "run scripts")
        return console

    async def _types(
        self, _call: Call, session: Session, _request: console_pb2.GetConsoleTypesRequest
    ) -> console_pb2.GetConsoleTypesResponse:
        """The languages that this caller may use."""
        try:
            self._console(session)
        except (UnsupportedOperationError, ForbiddenError):
            return console_pb2.GetConsoleTypesResponse()
        return console_pb2.GetConsoleTypesResponse(console_types=[_PYTHON])

    async def _start(
        self, _call: Call, session: Session, request: console_pb2.StartConsoleRequest
    ) -> console_pb2.StartConsoleResponse:
        self._console(session)
        if request.session_type.lower() != _PYTHON:
            raise InvalidRequestError(f"Scripts here are {_PYTHON}, not '{request.session_type[:100]}'.")
        number = exported_number(request.result_id.ticket)
        if number in session.consoles or number in session.exports:
            raise InvalidRequestError(f"Export {number} is in use; release it first, or use another number.")
        if len(session.consoles) >= _MOST_CONSOLES:
            raise LimitError(f"This session has {_MOST_CONSOLES} consoles, as many as it may. Release some.")
        session.consoles[number] = set()
        return console_pb2.StartConsoleResponse(result_id=request.result_id)

    async def _execute(
        self, _call: Call, session: Session, request: console_pb2.ExecuteCommandRequest
    ) -> console_pb2.ExecuteCommandResponse:
        from barrage_server.server.console.console import Command  # only where it is switched on

        console = self._console(session)
        commands = _commands(session, request.console_id.ticket)
        watch = _Watch(console, self._state.server_state.limits.console_seconds)
        command = Command(session.principal, request.code, watch.begin)
        commands.add(command)
        try:
            outcome = await watch.outcome(command)
        except asyncio.CancelledError:
            console.stop(command, "The caller has gone.")
            raise
        finally:
            commands.discard(command)
            watch.end()
        changes = outcome.changes
        return console_pb2.ExecuteCommandResponse(
            error_message=outcome.error,
            changes=proto.FieldsChangeUpdate(
                created=table_fields(changes.created),
                updated=table_fields(changes.updated),
                removed=table_fields(changes.removed),
            ),
            start_timestamp=outcome.started,
            end_timestamp=outcome.ended,
        )

    async def _cancel(
        self, _call: Call, session: Session, request: console_pb2.CancelCommandRequest
    ) -> console_pb2.CancelCommandResponse:
        console = self._console(session)
        for command in tuple(_commands(session, request.console_id.ticket)):
            console.stop(command, "The command was cancelled.")
        return console_pb2.CancelCommandResponse()

    async def _logs(self, call: Call, session: Session) -> None:
        """Send the recent output of scripts, then further output."""
        from barrage_server.server.console.output import Signal  # only where it is switched on

        request = await read_request(call, console_pb2.LogSubscriptionRequest)
        output = self._console(session).output
        loop, changed = asyncio.get_running_loop(), asyncio.Event()
        signal = Signal(lambda: loop.call_soon_threadsafe(changed.set))
        stop, stop_rights = output.watch(signal), self._state.server_state.access.watch(signal)
        levels, last = set(request.levels), request.last_seen_log_timestamp
        try:
            while not self._state.stopping.is_set():
                changed.clear()
                signal.rearm()
                self._console(session)  # the caller may have lost the right
                for line in output.after(last):
                    self._console(session)  # a slow caller may have lost it meanwhile
                    last = line.micros
                    if not levels or line.level in levels:
                        message = console_pb2.LogSubscriptionData(
                            micros=line.micros, log_level=line.level, message=line.text
                        )
                        await call.write(message.SerializeToString())
                await changed.wait()
        finally:
            stop()
            stop_rights()

    async def _bind(
        self, _call: Call, session: Session, request: console_pb2.BindTableToVariableRequest
    ) -> console_pb2.BindTableToVariableResponse:
        """Bind a table to a name.

        A name bound by a client may be bound again; the names of the server's tables may not.
        """
        state, name = self._state, request.variable_name
        state.server_state.access.check(session.principal, name, Right.CREATE)
        table = await state.resolve(session, request.table_id.ticket, Right.READ)
        await state.writers.run(state.names.bind, session.principal, name, table)
        # a name bound by a caller without every right replaces no variable of the scripts
        if state.console is not None and state.server_state.access.allows_everything(session.principal):
            await state.workers.run(state.console.bound, name)
        return console_pb2.BindTableToVariableResponse()


class _Watch:
    """Stops a command that takes too long. Used on the event loop.

    Args:
        console: the console that runs the command.
        seconds: the most time that the command may run.
    """

    def __init__(self, console: Console, seconds: float) -> None:
        self._console = console
        self._command: Command | None = None
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._late: asyncio.Future[None] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._has_ended = False

    def begin(self) -> None:
        """Start the time limit. Called on the thread of the command."""
        try:
            self._loop.call_soon_threadsafe(self._start)
        except RuntimeError:  # the loop is closed: so is the server
            return

    def end(self) -> None:
        """Cancel the time limit: the call has ended."""
        self._has_ended = True
        if self._timer is not None:
            self._timer.cancel()
        self._late.cancel()

    async def outcome(self, command: Command) -> Outcome:
        """Run the command, and return its outcome.

        Raises:
            DeadlineError: the command does not stop when it is told to.
        """
        from barrage_server.server.console.console import never_run

        self._command = command
        running = asyncio.wrap_future(self._console.submit(command))
        waited: set[asyncio.Future[Any]] = {running, self._late}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            running.add_done_callback(_taken)
            raise DeadlineError(
                f"The command took longer than {self._seconds:g} s (console_seconds), was told to stop, and does not. "
                f"No other one can run until it ends: it may be within a call that is not of Python."
            )
        if running.cancelled():
            return never_run(command)
        return running.result()

    def _start(self) -> None:
        if not self._has_ended:
            self._timer = self._loop.call_later(self._seconds, self._stop)

    def _stop(self) -> None:
        assert self._command is not None
        self._console.stop(self._command, f"The command took longer than {self._seconds:g} s (console_seconds).")
        self._timer = self._loop.call_later(_STOP_SECONDS, self._give_up)

    def _give_up(self) -> None:
        assert self._command is not None
        self._console.give_up(self._command)
        if not self._late.done():
            self._late.set_result(None)


def _taken(future: asyncio.Future[Outcome]) -> None:
    """Fetch the error of an abandoned command, so that asyncio does not log it."""
    if not future.cancelled():
        future.exception()


def _commands(session: Session, ticket: bytes) -> set[Command]:
    """The running commands of a console of the session.

    Raises:
        InvalidRequestError: there is no such console.
    """
    try:
        parsed = parse_ticket(ticket)
    except BarrageError:
        parsed = ""
    found = session.consoles.get(parsed.number) if isinstance(parsed, ExportTicket) else None
    if found is None:
        raise InvalidRequestError("There is no such console in this session. Start one, and give its ticket.")
    return found

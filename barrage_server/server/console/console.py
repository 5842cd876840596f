"""The console: it runs commands of clients one at a time, with common variables."""

from __future__ import annotations

import linecache
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

from barrage_server.errors import LimitError, UnavailableError
from barrage_server.log import count
from barrage_server.server.bound_names import BoundNames
from barrage_server.server.console.context import ScriptContext
from barrage_server.server.console.error_text import error_text, unshown_text
from barrage_server.server.console.modules import script_builtins
from barrage_server.server.console.output import Output, encodable
from barrage_server.server.console.scope import Changes, Scope, ServedBuiltins
from barrage_server.server.console.script_table import ScriptTable
from barrage_server.server.console.stop_switch import ScriptStop, StopSwitch
from barrage_server.server.principal import Principal
from barrage_server.server.server_state import ServerState
from barrage_server.server.workers import Workers

__all__ = ["Command", "Console", "Outcome", "never_run"]

logger = logging.getLogger("barrage_server.server")

_MOST_CODE: Final = 1 << 20
"""Most characters of one command."""
_MOST_ERROR: Final = 16 << 10
"""Most characters of the text of an error; the middle of a longer text is left out."""
_SOURCES: Final = 64
"""Number of commands whose text is kept, for tracebacks of functions that they have defined."""
_FILE: Final = "<command"
_STUCK: Final = (
    "A command of the console was told to stop, and does not. No other one can run until it ends, or the server is "
    "started anew."
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a command.

    Attributes:
        error: the traceback, or the reason of a stop, followed by the problems of variables; empty without an error.
        changes: the changes to the tables of the server.
        started: time at which it began to run, in nanoseconds since 1970.
        ended: time at which it ended, in nanoseconds since 1970.

    """

    error: str
    changes: Changes
    started: int
    ended: int


@dataclass(slots=True, eq=False)
class Command:
    """A command that runs or waits.

    Attributes:
        principal: the caller.
        code: the Python code.
        started: called on the console's thread when the command begins.
        switch: stops the code.
        future: the future of the outcome, after it was submitted.

    """

    principal: Principal
    code: str
    started: Callable[[], object]
    switch: StopSwitch = field(default_factory=StopSwitch)
    future: Future[Outcome] | None = None


class Console:
    """The one interpreter of a server. Methods may be called from any thread.

    Args:
        state: the server's state.
        names: gives names to tables.

    Attributes:
        output: the printed lines of scripts.

    """

    def __init__(self, state: ServerState, names: BoundNames) -> None:
        self.output: Final = Output()
        self._most = state.limits.console_commands
        self._namespace: dict[str, Any] = {}
        self._context = ScriptContext(state.catalog.graph, state.results, self._namespace)
        self._access = state.access
        self._builtins = script_builtins(self._context, self.output)
        self._scope = Scope(
            state.catalog, names, self._namespace, lambda table: ScriptTable(table, self._context), self._builtins
        )
        self._workers = Workers(1, "barrage-console")
        self._lock = threading.Lock()
        self._commands: list[Command] = []
        self._stuck: Command | None = None
        self._sources: OrderedDict[str, None] = OrderedDict()
        self._number = 0
        self._is_closed = False

    def submit(self, command: Command) -> Future[Outcome]:
        """Run a command after all earlier ones have ended.

        Raises:
            LimitError: too many commands wait, or the code is too long.
            UnavailableError: the server is shutting down, or a command does not stop.

        """
        if len(command.code) > _MOST_CODE:
            raise LimitError(f"A command has at most {_MOST_CODE:,} characters, not {len(command.code):,}.")
        with self._lock:
            if self._is_closed:
                raise UnavailableError("The server is shutting down.")
            if self._stuck is not None:
                raise UnavailableError(_STUCK)
            if len(self._commands) > self._most:
                raise LimitError(
                    f"The console runs one command at a time, and {count(self._most, 'commands')} wait for their turn "
                    f"(console_commands). Try again later."
                )
            self._commands.append(command)
        try:
            command.future = future = self._workers.submit(self._run, command)
        except BaseException:
            self._ended(command)
            raise
        future.add_done_callback(lambda _: self._ended(command))
        return future

    def stop(self, command: Command, reason: str) -> None:
        """Stop a command; a waiting command is never run."""
        command.switch.stop(reason)
        if command.future is not None and command.future.cancel():
            command.code = ""  # frees the text: the queue still has the command

    def give_up(self, command: Command) -> None:
        """Run no other command until this one, which does not stop, has ended.

        Waiting commands are not run at all.
        """
        with self._lock:
            if command not in self._commands:
                return
            self._stuck = command
            waiting = [other for other in self._commands if other is not command]
        for other in waiting:
            self.stop(other, _STUCK)

    def bound(self, name: str) -> None:
        """Note that a client has bound a table to a name; see :meth:`Scope.bound`."""
        self._scope.bound(name)

    def tidy(self) -> None:
        """Forget dropped tables, and stop commands. Called about twice a second."""
        self._scope.tidy()
        with self._lock:
            commands = tuple(self._commands)
        for command in commands:
            self._check(command)
            command.switch.insist()

    def close(self) -> None:
        """Stop all commands, and forget all variables.

        A script that does not stop keeps its thread.
        """
        with self._lock:
            self._is_closed = True
            commands = tuple(self._commands)
        for command in commands:
            self.stop(command, "The server is shutting down.")
        self._workers.shutdown()
        self._scope.close()
        for name in self._sources:
            linecache.cache.pop(name, None)

    def _check(self, command: Command) -> None:
        """Stop a command whose caller has lost the right to run it."""
        if not self._access.allows_everything(command.principal):
            self.stop(command, "The caller may not run scripts any more.")

    def _ended(self, command: Command) -> None:
        with self._lock:
            if command in self._commands:
                self._commands.remove(command)
            if self._stuck is command:
                self._stuck = None

    def _run(self, command: Command) -> Outcome:
        """Run a command, on the thread of the console."""
        self._check(command)
        command.started()
        self._scope.tidy()
        self._output_begins(command)
        self._context.begin(command.principal, command.switch)
        started = time.time_ns()
        try:
            error = self._execute(command)
        except ScriptStop:  # raised a second time, at the end
            command.switch.end()
            error = command.switch.reason
        self._context.end()
        self.output.end()
        changes = self._scope.serve(command.principal) if not self._is_closed else Changes()
        text = _shortened("\n".join(filter(None, (error, *changes.problems))))
        ended = time.time_ns()
        logger.info(
            "console: the command of %s %s after %.3f s",
            command.principal.name,
            "failed" if text else "ended",
            (ended - started) / 1e9,
        )
        return Outcome(text, changes, started, ended)

    def _output_begins(self, command: Command) -> None:
        self.output.begin()
        logger.info(
            "console: a command of %s begins, %s", command.principal.name, count(len(command.code), "characters")
        )

    def _execute(self, command: Command) -> str:
        """Run the code; return the text of its error, or an empty one."""
        switch, name = command.switch, self._source(command.code)
        try:
            try:
                # set for each command, because a script may have deleted them
                own = ServedBuiltins(self._builtins, self._scope.find)
                self._namespace.update({"__name__": "__main__", "__builtins__": own})
                code = compile(command.code, name, "exec", dont_inherit=True)
                switch.begin()
                exec(code, self._namespace)
            finally:
                switch.end()
        except BaseException as error:  # whatever a script raises, SystemExit too, is the answer
            switch.end()
            is_stop = switch.is_stopped() or issubclass(type(error), ScriptStop)
            return switch.reason if is_stop else _told(error, switch)
        return switch.reason

    def _source(self, code: str) -> str:
        """Register the code for tracebacks, which show its lines; return its file name."""
        self._number += 1
        name = f"{_FILE} {self._number}>"
        lines = f"{code}\n".splitlines(keepends=True)  # with line ends, which linecache expects
        linecache.cache[name] = (len(code), None, lines, name)
        self._sources[name] = None
        if len(self._sources) > _SOURCES:
            linecache.cache.pop(self._sources.popitem(last=False)[0], None)
        return name


def never_run(command: Command) -> Outcome:
    """The outcome of a command that was stopped before its turn."""
    now = time.time_ns()
    return Outcome(command.switch.reason, Changes(), now, now)


def _told(error: BaseException, switch: StopSwitch) -> str:
    """The text of an error. Code of the script may run for it, and can be stopped."""
    try:
        try:
            switch.begin()
            text = error_text(error, _FILE)
        finally:
            switch.end()
    except BaseException:  # an error of a script may fail to be formatted
        switch.end()
        text = unshown_text(error)
    return "\n".join(filter(None, (text, switch.reason)))


def _shortened(text: str) -> str:
    text = encodable(text)
    if len(text) <= _MOST_ERROR:
        return text
    left = _MOST_ERROR // 4
    return f"{text[:left]}\n... ({len(text) - _MOST_ERROR:,} characters are left out) ...\n{text[left - _MOST_ERROR :]}"

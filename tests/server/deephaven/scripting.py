"""A Deephaven client that runs scripts, over raw calls."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from barrage_proto import console_pb2
from barrage_proto import deephaven_pb2 as proto

from barrage_server.server import Server
from barrage_server.wire.tickets import export_ticket
from tests.server.deephaven.computing import Computing

GATE = threading.Event()
"""What scripts of tests may wait for, which does not let them be stopped."""
PASSED = threading.Event()
"""What scripts of tests may set."""
CONSOLE = "/io.deephaven.proto.backplane.script.grpc.ConsoleService"


def place(server: Server) -> str:
    """Host and port for Deephaven's clients."""
    return (server.deephaven_uri or "").removeprefix("dh+plain://")


@dataclass
class Outcome:
    """What became of a command."""

    error: str
    created: list[str]
    updated: list[str]
    removed: list[str]
    kinds: set[str]
    seconds: float


class Scripting(Computing):
    """A session of one client, with a console."""

    def __init__(self, place: str, header: str = "Anonymous", *, start: bool = True) -> None:
        super().__init__(place, header)
        self.console = proto.Ticket(ticket=export_ticket(1_000))
        if start:
            self.start_console()

    def console_call(self, method: str, request: Any, timeout: float = 30.0) -> Any:
        """A call of the console service that is under way."""
        call: Any = self.channel.unary_unary(f"{CONSOLE}/{method}")
        return call.future(request.SerializeToString(), timeout=timeout, metadata=(("authorization", self.bearer),))

    def start_console(self, language: str = "python") -> None:
        """Start the console."""
        request = console_pb2.StartConsoleRequest(result_id=self.console, session_type=language)
        answer = console_pb2.StartConsoleResponse.FromString(self.console_call("StartConsole", request).result())
        assert answer.result_id == self.console

    def types(self) -> Sequence[str]:
        """The languages that this client may use."""
        answer = self.console_call("GetConsoleTypes", console_pb2.GetConsoleTypesRequest()).result()
        return list(console_pb2.GetConsoleTypesResponse.FromString(answer).console_types)

    def begin(self, code: str) -> Any:
        """A command that is under way."""
        return self.console_call(
            "ExecuteCommand", console_pb2.ExecuteCommandRequest(console_id=self.console, code=code)
        )

    def run(self, code: str) -> Outcome:
        """Run a command to its end."""
        return outcome(self.begin(code).result())

    def cancel(self) -> None:
        """Cancel what runs."""
        self.console_call("CancelCommand", console_pb2.CancelCommandRequest(console_id=self.console)).result()

    def logs(self, last_seen: int = 0, levels: Sequence[str] = ()) -> Any:
        """A subscription to what scripts print."""
        request = console_pb2.LogSubscriptionRequest(last_seen_log_timestamp=last_seen, levels=levels)
        call: Any = self.channel.unary_stream(f"{CONSOLE}/SubscribeToLogs")
        return call(request.SerializeToString(), timeout=30, metadata=(("authorization", self.bearer),))


def outcome(answer: bytes) -> Outcome:
    """The answer of a command."""
    found = console_pb2.ExecuteCommandResponse.FromString(answer)
    changes = found.changes
    fields = (*changes.created, *changes.updated, *changes.removed)

    def names(entries: Any) -> list[str]:
        return sorted(entry.field_name for entry in entries)

    assert {field.application_id for field in fields} <= {"scope"}
    return Outcome(
        found.error_message,
        names(changes.created),
        names(changes.updated),
        names(changes.removed),
        {field.typed_ticket.type for field in fields},
        (found.end_timestamp - found.start_timestamp) / 1e9,
    )

"""Deephaven's Python clients, from the test's side."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from barrage_server import Server

from .peer import CALL_SECONDS, Peer
from .peers.arrow_text import from_text, to_text

__all__ = ["Pydeephaven", "port_of"]


def port_of(server: Server) -> int:
    """The port for Deephaven's clients."""
    assert server.deephaven_uri is not None
    return int(server.deephaven_uri.rpartition(":")[2])


class Pydeephaven:
    """pydeephaven and pydeephaven-ticking in a process of their own, and what tests do with them."""

    def __init__(self) -> None:
        self.peer = Peer.python("ticking", "pydeephaven_client")

    def execute(self, code: str, timeout: float = CALL_SECONDS) -> None:
        """Run Python statements there."""
        self.peer.call("execute", timeout, code=code)

    def evaluate(self, expression: str, timeout: float = CALL_SECONDS) -> Any:
        """The value of a Python expression there, as far as JSON can say it."""
        return self.peer.call("evaluate", timeout, expression=expression)

    def fetch(self, expression: str, timeout: float = CALL_SECONDS) -> pa.Table:
        """The Arrow table that a Python expression gives there; of a schema, the empty table."""
        return from_text(self.peer.call("fetch", timeout, expression=expression))

    def give(self, name: str, table: pa.Table) -> None:
        """Put an Arrow table into a variable there."""
        self.peer.call("give", name=name, table=to_text(table))

    def log_in(self, server: Server, *arguments: object, name: str = "session", **keywords: object) -> None:
        """Open a session of that name; the arguments are those of ``pydeephaven.Session`` behind host and port."""
        shown = [repr(argument) for argument in ("127.0.0.1", port_of(server), *arguments)]
        shown += [f"{key}={value!r}" for key, value in keywords.items()]
        self.execute(f"{name} = Session({', '.join(shown)})")

    def close(self) -> None:
        """End the process."""
        self.peer.close()

"""A real Deephaven server, from the test's side."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from .peer import CALL_SECONDS, Peer
from .peers.arrow_text import from_text, to_text

__all__ = ["PSK_TYPE", "DeephavenServer"]

PSK_TYPE: Final = "io.deephaven.authentication.psk.PskAuthenticationHandler"


class DeephavenServer:
    """A Deephaven server in a process of its own, and what tests do with it.

    Args:
        settings: as ``peers/deephaven_server.py`` describes them.
    """

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        self.peer = Peer.python("deephaven", "deephaven_server", settings)
        self.port: int = self.peer.hello["port"]

    @property
    def uri(self) -> str:
        """Where it is, in the way that Deephaven writes it."""
        return f"dh+plain://127.0.0.1:{self.port}"

    def execute(self, code: str, timeout: float = CALL_SECONDS) -> None:
        """Run Python statements in the server. Tables that they leave in global variables are visible to clients."""
        self.peer.call("execute", timeout, code=code)

    def evaluate(self, expression: str, timeout: float = CALL_SECONDS) -> Any:
        """The value of a Python expression in the server, as far as JSON can say it."""
        return self.peer.call("evaluate", timeout, expression=expression)

    def content(self, expression: str, timeout: float = CALL_SECONDS) -> pa.Table:
        """The present content of the table that a Python expression gives there."""
        return from_text(self.peer.call("content", timeout, expression=expression))

    def read(self, name: str, timeout: float = CALL_SECONDS) -> pa.Table:
        """What pydeephaven reads of a global table of the server."""
        return from_text(self.peer.call("read", timeout, name=name))

    def upload(self, name: str, table: pa.Table) -> None:
        """Make ``table`` a global table of the server."""
        self.peer.call("upload", name=name, table=to_text(table))

    def end_all_sessions(self) -> None:
        """End the sessions of all clients, as if they had run out."""
        server = 'jpy.get_type("io.deephaven.server.runner.DeephavenApiServer").getInstance()'
        self.execute(f"import jpy\n{server}.sessionService().closeAllSessions()\n_session = None\ndel _session")

    def restarted(self) -> DeephavenServer:
        """Kill this one, and start another in its place: same port, nothing in it."""
        self.peer.kill()
        return DeephavenServer(**{**self.settings, "port": self.port})

    def close(self) -> None:
        """End it."""
        self.peer.close()

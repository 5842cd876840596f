"""Tables of a server of ours, as a Deephaven server sees them that subscribes to them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from barrage_server import Server
from barrage_server.server import Limits
from tests.waiting import until

from .deephaven import DeephavenServer
from .python_client import port_of

__all__ = ["PATIENCE", "Remote"]

PATIENCE: Final = Limits(session_seconds=6)
"""For servers of ours whose sessions are counted: Java shuts its channel down as soon as it has asked to close its
session, and then the call may never leave. The session ends when it was not used for its time."""

_PREFIX: Final = "ours_"
_NUMBERS = itertools.count()

_PRELUDE: Final = """
import jpy
from deephaven import agg, uri
from deephaven.barrage import _JBarrageTableResolver, _JTableSpec, barrage_session
from deephaven.liveness_scope import LivenessScope
from deephaven.table import Table
from deephaven.table_listener import listen
from deephaven.update_graph import shared_lock

def locked(table, make):
    with shared_lock(table):  # between two cycles
        return make()
"""


class Remote:
    """A Barrage session of the Deephaven server with a server of ours, and the tables that it follows.

    What it makes lives in a scope there until :meth:`release`: Deephaven keeps tables that are made outside of one.

    Args:
        deephaven: the Deephaven server.
        server: ours.
        login: further arguments of ``barrage_session``.
    """

    def __init__(self, deephaven: DeephavenServer, server: Server, **login: object) -> None:
        self.deephaven = deephaven
        self.server = server
        self.session = self.variable()
        self._is_open = False
        self._scope = self.variable()
        arguments = ["'127.0.0.1'", str(port_of(server)), *(f"{key}={value!r}" for key, value in login.items())]
        deephaven.execute(_PRELUDE)
        deephaven.execute(f"{self._scope} = LivenessScope()")
        deephaven.execute(f"{self.session} = barrage_session({', '.join(arguments)})")
        self._is_open = True

    def variable(self) -> str:
        """A name that is not in use there."""
        return f"{_PREFIX}{next(_NUMBERS)}"

    def make(self, expression: str) -> str:
        """Evaluate there; the variable that has the value."""
        name = self.variable()
        self.deephaven.execute(f"with {self._scope}.open(): {name} = {expression}")
        return name

    def subscribe(self, table: str, *, session: str = "") -> str:
        """Subscribe to a table of ours; the variable that follows it there."""
        return self.make(f"{session or self.session}.subscribe({f's/{table}'.encode()!r})")

    def validated(self, name: str) -> str:
        """Have Deephaven check every update of a table against its content before and after."""
        validator = "jpy.get_type('io.deephaven.engine.table.impl.TableUpdateValidator')"
        return self.make(f"locked({name}, lambda: {validator}.make({name!r}, {name}.j_table))")

    def content(self, expression: str) -> pa.Table:
        """What a table has there."""
        return self.deephaven.content(expression)

    def wait_for(self, expression: str, rows: Iterable[dict[str, Any]], timeout: float = 20.0) -> None:
        """Wait until a table has these rows there."""
        wanted = list(rows)
        found: list[Any] = []

        def has_come() -> bool:
            found[:] = self.content(expression).to_pylist()
            return found == wanted

        try:
            until(has_come, timeout)
        except AssertionError:
            assert found == wanted
            raise

    def release(self) -> None:
        """Let go of the tables."""
        self.deephaven.execute(f"{self._scope}.release(); {self._scope} = LivenessScope()")

    def close(self) -> None:
        """Let go of the tables, and close the session. May be called repeatedly."""
        if self._is_open:
            self._is_open = False
            self.release()
            self.deephaven.execute(f"{self.session}.close()")
            mine = f"[name for name in globals() if name.startswith({_PREFIX!r})]"
            self.deephaven.execute(f"for name in {mine}: del globals()[name]")

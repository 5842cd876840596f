"""A Flight server that keeps sessions as Deephaven servers do, and knows nothing of Barrage's actions."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl

SCHEMA = pa.schema([("x", pa.int64())])


class _Answer(fl.ServerMiddleware):  # type: ignore[misc]  # pyarrow has no types
    def __init__(self, token: str) -> None:
        self._token = token

    def sending_headers(self) -> dict[str, str]:
        return {"authorization": self._token}


class Sessions(fl.ServerMiddlewareFactory):  # type: ignore[misc]  # pyarrow has no types
    """Lets in who shows the credentials or a token of its own making.

    Attributes:
        credentials: the header that begins a session.
        begun: how many sessions were begun.
        shown: every header that was shown.
    """

    def __init__(self, credentials: str) -> None:
        super().__init__()
        self.credentials = credentials
        self.begun = 0
        self.shown: list[str] = []
        self._calls = 0
        self._good: set[str] = set()
        self._lock = threading.Lock()

    def end_all(self) -> None:
        """Forget every session."""
        with self._lock:
            self._good.clear()

    def start_call(self, info: fl.CallInfo, headers: Mapping[str, Sequence[str]]) -> _Answer:
        (header,) = headers["authorization"]
        with self._lock:
            self.shown.append(header)
            if header == self.credentials:
                self.begun += 1
            elif header not in self._good:
                raise fl.FlightUnauthenticatedError("Authentication details invalid")
            self._calls += 1
            token = f"Bearer {self.begun}-{self._calls // 3}"  # another one with every third call
            self._good.add(token)
            return _Answer(token)


class SessionServer(fl.FlightServerBase):  # type: ignore[misc]  # pyarrow has no types
    """One static table, ``t``."""

    def __init__(self, credentials: str = "Anonymous") -> None:
        self.sessions = Sessions(credentials)
        super().__init__("grpc://127.0.0.1:0", middleware={"sessions": self.sessions})

    @property
    def uri(self) -> str:
        return f"dh+plain://127.0.0.1:{self.port}"

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        return [("CreatePreparedStatement", "of Flight SQL")]

    def list_flights(self, context: Any, criteria: Any) -> Iterator[fl.FlightInfo]:
        for path in (("scope", "t"), ("app", "books", "field", "orders"), ("export", "3")):
            yield fl.FlightInfo(SCHEMA, fl.FlightDescriptor.for_path(*path), [], 3, -1)

    def get_schema(self, context: Any, descriptor: Any) -> fl.SchemaResult:
        return fl.SchemaResult(SCHEMA)

    def do_get(self, context: Any, ticket: fl.Ticket) -> fl.RecordBatchStream:
        assert ticket.ticket == b"s/t"
        return fl.RecordBatchStream(pa.table({"x": [1, 2, 3]}, schema=SCHEMA))

"""Live tables over Arrow Flight: publish from Spark or Python, subscribe from anywhere.

::

    import barrage_server as bs

    with bs.Server(port=0) as server, bs.connect(server.uri) as client:
        trades = server.append_table("trades", schema)
        with client.subscribe("trades") as live:
            trades.append(batch)

What is named here is the public interface. The names load on first use: ``import barrage_server`` costs nothing, and a
client needs neither Spark nor Java.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import barrage_server.log  # noqa: F401  (guards all loggers)

if TYPE_CHECKING:
    from barrage_server.client import (
        Client,
        Dialect,
        LiveState,
        LiveTable,
        Publication,
        RetryPolicy,
        TableInfo,
        Update,
        connect,
    )
    from barrage_server.engine.standalone import table
    from barrage_server.errors import (
        AlreadyExistsError,
        AuthenticationError,
        BarrageError,
        DeadlineError,
        DependencyError,
        InternalError,
        InvalidRequestError,
        KeyMismatchError,
        LimitError,
        MessageTooLargeError,
        NotFoundError,
        PublishError,
        RowSetError,
        SchemaMismatchError,
        UnavailableError,
        UnknownColumnError,
        UnknownTableError,
        UnsupportedOperationError,
        UnsupportedTypeError,
        WireFormatError,
    )
    from barrage_server.relay import Followed, FollowedState, Server
    from barrage_server.rowset import RowSet, RowSetShiftData

__version__: Final = "0.1.0"

__all__ = [
    "AlreadyExistsError",
    "AuthenticationError",
    "BarrageError",
    "Client",
    "DeadlineError",
    "DependencyError",
    "Dialect",
    "Followed",
    "FollowedState",
    "InternalError",
    "InvalidRequestError",
    "KeyMismatchError",
    "LimitError",
    "LiveState",
    "LiveTable",
    "MessageTooLargeError",
    "NotFoundError",
    "Publication",
    "PublishError",
    "RetryPolicy",
    "RowSet",
    "RowSetError",
    "RowSetShiftData",
    "SchemaMismatchError",
    "Server",
    "TableInfo",
    "UnavailableError",
    "UnknownColumnError",
    "UnknownTableError",
    "UnsupportedOperationError",
    "UnsupportedTypeError",
    "Update",
    "WireFormatError",
    "__version__",
    "connect",
    "table",
]

_ROOMS: Final = {
    "barrage_server.client": frozenset(
        {
            "Client",
            "Dialect",
            "LiveState",
            "LiveTable",
            "Publication",
            "RetryPolicy",
            "TableInfo",
            "Update",
            "connect",
        }
    ),
    "barrage_server.engine.standalone": frozenset({"table"}),
    "barrage_server.rowset": frozenset({"RowSet", "RowSetShiftData"}),
    "barrage_server.relay": frozenset({"Followed", "FollowedState", "Server"}),
}


def __getattr__(name: str) -> Any:
    """Load a public name from its room on first use (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next((room for room, names in _ROOMS.items() if name in names), "barrage_server.errors")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

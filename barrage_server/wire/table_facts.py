"""What a server tells of a table beside its schema and size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from barrage_server.errors import BarrageError
from barrage_server.wire.json_message import JsonMessage

__all__ = ["TableFacts"]


@dataclass(frozen=True, slots=True)
class TableFacts(JsonMessage):
    """JSON in the ``app_metadata`` of a table's ``FlightInfo``.

    Attributes:
        durable: whether the table is in the server's data directory; ``None`` if the server does not say.
    """

    message_name: ClassVar[str] = "table facts"
    refuses_others: ClassVar[bool] = False

    durable: bool | None = None

    @classmethod
    def received(cls, app_metadata: bytes) -> TableFacts:
        """The facts in received ``app_metadata``; no facts in that of other servers."""
        try:
            return cls.from_json(app_metadata) if app_metadata else cls()
        except BarrageError:
            return cls()

"""What a client says of the messages that it has read: so that few of them are under way when it is slow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from barrage_server.errors import WireFormatError
from barrage_server.wire.json_object import JsonObject, json_bytes

__all__ = ["ReadingReport"]

_READ: Final = b"barrage-read:"
_MOST_BYTES: Final = 256  # both numbers at their longest take 70; reports are read where others wait


@dataclass(frozen=True, slots=True)
class ReadingReport:
    """app_metadata of a client's message in ``DoExchange``, beside its requests.

    Attributes:
        messages: how many messages it has read since its last report.
        unread: the most messages that it wants to be sent ahead of its reports, from now on; ``None``: as before.

    """

    messages: int = 0
    unread: int | None = None

    def encode(self) -> bytes:
        """The finished app_metadata."""
        fields = (
            {"messages": self.messages} if self.unread is None else {"messages": self.messages, "unread": self.unread}
        )
        return _READ + json_bytes(fields)

    @classmethod
    def decode(cls, app_metadata: bytes) -> ReadingReport | None:
        """The report in ``app_metadata``; ``None`` when it is something else.

        Raises:
            WireFormatError: it is damaged, longer than a report can be, or a number is out of its range.

        """
        if not app_metadata.startswith(_READ):
            return None
        if len(app_metadata) > _MOST_BYTES:
            raise WireFormatError(
                f"A reading report has {_MOST_BYTES} bytes at most, and this one {len(app_metadata):,}."
            )
        fields = JsonObject.parse(app_metadata[len(_READ) :], "reading report")
        fields.refuse_others(("messages", "unread"))
        report = cls(fields.integer("messages"), fields.optional_integer("unread"))
        if report.messages < 0 or (report.unread is not None and report.unread < 1):
            raise WireFormatError("A reading report counts messages: 0 or more that were read, 1 or more ahead.")
        return report

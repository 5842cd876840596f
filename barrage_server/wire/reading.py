"""Reports of a client about messages that it has read, to bound those in flight."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

from barrage_server.errors import WireFormatError
from barrage_server.typed_json import REQUIRED
from barrage_server.wire.json_message import JsonMessage

__all__ = ["ReadingReport"]

_READ: Final = b"barrage-read:"
_MOST_BYTES: Final = 256  # the longest valid report has about 70; reports are parsed on the event loop


@dataclass(frozen=True, slots=True)
class ReadingReport(JsonMessage):
    """A client's report, in app_metadata of a message of ``DoExchange``.

    Attributes:
        messages: number of messages read since the last report.
        unread: most messages that the server may send ahead of the reports from now on; ``None`` leaves it unchanged.

    """

    message_name: ClassVar[str] = "reading report"

    messages: int = field(default=0, metadata=REQUIRED)
    unread: int | None = None

    def encode(self) -> bytes:
        """Encode the app_metadata."""
        return _READ + self.to_json()

    @classmethod
    def decode(cls, app_metadata: bytes) -> ReadingReport | None:
        """Decode the report in ``app_metadata``; ``None`` for other app_metadata.

        Raises:
            WireFormatError: the report is damaged or too long, or a number is out of its range.

        """
        if not app_metadata.startswith(_READ):
            return None
        if len(app_metadata) > _MOST_BYTES:
            raise WireFormatError(
                f"A reading report has {_MOST_BYTES} bytes at most, and this one {len(app_metadata):,}."
            )
        return cls.from_json(app_metadata[len(_READ) :])

    def check(self) -> None:
        """Raise WireFormatError when a number is out of its range."""
        if self.messages < 0 or (self.unread is not None and self.unread < 1):
            raise WireFormatError("A reading report counts messages: 0 or more that were read, 1 or more ahead.")

"""How tests compare ways of reading metadata, of damaged bytes too."""

from __future__ import annotations

from collections.abc import Callable

from barrage_server.errors import WireFormatError
from barrage_server.wire.metadata import BarrageMessage


def read_or_none(read: Callable[[bytes], BarrageMessage], data: bytes) -> BarrageMessage | None:
    """The message that ``read`` finds; ``None`` where it says that the bytes are damaged."""
    try:
        return read(data)
    except WireFormatError:
        return None

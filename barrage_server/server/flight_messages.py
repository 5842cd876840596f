"""The messages of a call over ``pyarrow.flight``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.flight as fl

from barrage_server.errors import WireFormatError

__all__ = ["flight_messages"]


def flight_messages(
    reader: fl.MetadataRecordBatchReader, expected: str, is_over: Callable[[], bool] = lambda: False
) -> Iterator[fl.FlightStreamChunk]:
    """The messages until the client half-closes, or the call is over.

    Args:
        reader: the source of messages.
        expected: what the client should send, for the error.
        is_over: whether the call has ended, so that nothing more can be read.

    Raises:
        WireFormatError: a message is damaged, or the connection broke.

    """
    while not is_over():
        try:
            chunk = reader.read_chunk()
        except StopIteration:
            return
        except (pa.ArrowException, OSError) as error:
            if is_over():
                return
            raise WireFormatError(f"What came is not {expected}: {error}") from error
        yield chunk

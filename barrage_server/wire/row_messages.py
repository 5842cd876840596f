"""The rows of a record batch as messages of their own."""

from __future__ import annotations

import struct
from typing import Final

import pyarrow as pa

from barrage_server.wire.flat import FlatTable

__all__ = ["row_messages"]

_PREFIX: Final = struct.Struct("<II")
"""The continuation mark, and the length of the header behind it."""
_BODY_LENGTH: Final = 3
"""The slot of the body's length in a header."""


def row_messages(batch: pa.RecordBatch) -> list[bytes]:
    """Encode each row of ``batch`` alone, as an encapsulated IPC message.

    pyarrow releases the interpreter lock once for all rows, where a call for each row would hand it to another thread
    each time: that takes longer than the encoding.

    Args:
        batch: the rows; none of its types has a dictionary.
    """
    if batch.num_rows == 1 or not batch.num_columns:  # a table without columns writes nothing
        return [batch.slice(row, 1).serialize().to_pybytes() for row in range(batch.num_rows)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_table(pa.Table.from_batches([batch]), max_chunksize=1)
    data = memoryview(sink.getvalue())
    messages, at = [], 0
    for _ in range(1 + batch.num_rows):  # the schema comes first
        header = at + _PREFIX.size
        body = header + _PREFIX.unpack_from(data, at)[1]
        end = body + FlatTable.root(data[header:body]).int64(_BODY_LENGTH)
        messages.append(bytes(data[at:end]))
        at = end
    return messages[1:]

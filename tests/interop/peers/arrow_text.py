"""Arrow tables as text, to travel in JSON. Used on both sides, so it imports nothing but pyarrow."""

from __future__ import annotations

import base64

import pyarrow as pa

__all__ = ["from_text", "to_text"]


def to_text(table: pa.Table) -> str:
    """``table`` as an Arrow stream in base64."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue()).decode()


def from_text(text: str) -> pa.Table:
    """What :func:`to_text` was given."""
    with pa.ipc.open_stream(base64.b64decode(text)) as reader:
        return reader.read_all()

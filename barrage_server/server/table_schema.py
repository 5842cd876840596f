"""The schema of a table that a client makes: its bounds and its plain form."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from barrage_server.engine.types import plain_type
from barrage_server.wire.protocol import PUT_OPTIONS_KEY
from barrage_server.wire.schema import DEEPHAVEN_PREFIX, TYPE_KEY

__all__ = ["count_columns", "count_fields", "has_at_most", "message_bytes", "own_schema"]

_COLUMN_BYTES: Final = 1024
_NUMBERS_IN_BYTES = (b"java.math.BigDecimal", b"java.math.BigInteger")


def has_at_most(schema: pa.Schema, fields: int, entries: int) -> bool:
    """Whether a schema is within bounds. Stops counting soon after one is passed.

    Args:
        schema: the schema.
        fields: most fields, nested ones included.
        entries: most entries of metadata.

    """
    if count_fields(schema, fields) > fields:
        return False
    return len(schema.metadata or ()) + sum(len(field.metadata or ()) for field in schema) <= entries


def count_fields(schema: pa.Schema, most: int) -> int:
    """The number of fields of a schema at all depths, at most ``most + 1``."""
    left = most - len(schema)
    types = [field.type for field in schema] if left >= 0 else []
    while types and left >= 0:
        data_type = types.pop()
        if isinstance(data_type, pa.BaseExtensionType):
            types.append(data_type.storage_type)
        elif pa.types.is_dictionary(data_type):
            types.append(data_type.value_type)
        elif data_type.num_fields:
            left -= data_type.num_fields
            if left >= 0:
                types += [data_type.field(number).type for number in range(data_type.num_fields)]
    return min(most - left, most + 1)


def count_columns(schema: pa.Schema, most: int) -> int:
    """The number of columns that a schema counts for where tables are bounded.

    These are its fields at all depths, at most ``most + 1``; or one for each KiB of its message, if that is more: names
    and metadata may be long.
    """
    return max(count_fields(schema, most), (message_bytes(schema) or 0) // _COLUMN_BYTES)


def message_bytes(schema: pa.Schema) -> int | None:
    """The bytes of a schema as an Arrow message; ``None`` if no message can have it."""
    try:
        return int(schema.serialize().size)
    except pa.ArrowException:  # 2 GiB, about
        return None


def own_schema(schema: pa.Schema) -> pa.Schema:
    """The schema that a table keeps: plain types, and no metadata of the protocol.

    Tags of big numbers, whose cells are bytes, are kept: nothing else distinguishes them from bytes.
    """

    def own(metadata: dict[bytes, bytes] | None) -> dict[bytes, bytes] | None:
        kept = {
            key: value
            for key, value in (metadata or {}).items()
            if (key != PUT_OPTIONS_KEY and not key.startswith(DEEPHAVEN_PREFIX))
            or (key == TYPE_KEY and value in _NUMBERS_IN_BYTES)
        }
        return kept or None

    fields = [field.with_type(plain_type(field.type)).with_metadata(own(field.metadata)) for field in schema]
    return pa.schema(fields, metadata=own(schema.metadata))

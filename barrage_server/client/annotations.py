"""Schemas without the annotations that they carry on the wire."""

from __future__ import annotations

import pyarrow as pa

from barrage_server.wire.resume import LINEAGE_KEY
from barrage_server.wire.schema import DEEPHAVEN_PREFIX, TYPE_KEY, java_type

__all__ = ["user_schema"]


def user_schema(schema: pa.Schema) -> pa.Schema:
    """``schema`` with the user's own metadata only.

    One annotation is kept: a Java type that is not the usual one for the Arrow type. It describes the data, such as
    decimals in a binary column.
    """
    fields = []
    for field in schema:
        usual = (java_type(field.type) or "").encode()
        kept = {
            key: value
            for key, value in (field.metadata or {}).items()
            if not key.startswith(DEEPHAVEN_PREFIX) or (key == TYPE_KEY and value != usual)
        }
        fields.append(field.with_metadata(kept or None))
    metadata = {key: value for key, value in (schema.metadata or {}).items() if not key.startswith(DEEPHAVEN_PREFIX)}
    metadata.pop(LINEAGE_KEY, None)
    return pa.schema(fields, metadata=metadata or None)

"""Conversion of published rows to the schema of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as pa

from barrage_server.engine.frames import arrow_column, arrow_rows, column_name
from barrage_server.engine.types import normalise
from barrage_server.errors import InvalidRequestError, SchemaMismatchError
from barrage_server.public import public

__all__ = ["ArrowStream", "Rows", "conform", "conform_key", "conform_parts"]


_PART_ROWS: Final = 1 << 14
"""Rows from which a part is written by itself: writing one costs what copying some thousand rows does."""


@public
class ArrowStream(Protocol):
    """An object with Arrow's PyCapsule interface for streams, as data frames have."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A capsule of an ``ArrowArrayStream``."""


Rows: TypeAlias = pa.RecordBatch | pa.Table | Mapping[str, Any] | ArrowStream
"""Rows to publish: a pyarrow table, record batch or reader, a pandas or polars data frame or another that offers Arrow
streams, or a mapping of column names to values."""


def conform(schema: pa.Schema, rows: Rows, *, table: str, only: Sequence[str] | None = None) -> list[pa.Array]:
    """The columns of ``rows`` in the order and the types of ``schema``.

    Columns are matched by name; their order does not matter. Dictionary-encoded columns are decoded.

    Args:
        schema: the table's schema.
        rows: a record batch, a table, a data frame, or a mapping of column names to arrays or sequences.
        table: the table's name, for messages.
        only: take just these columns, and ignore any others.

    Raises:
        SchemaMismatchError: columns are missing, unknown, of another type or of different lengths.
    """
    if only is None and isinstance(rows, pa.RecordBatch | pa.Table) and rows.schema.names == schema.names:
        return [_typed(values, field, table) for values, field in zip(rows.columns, schema, strict=True)]
    chosen = None if only is None else frozenset(only)
    fields = [field for field in schema if chosen is None or field.name in chosen]
    given = _columns_of(rows, {field.name: field.type for field in fields}, table)
    missing = [field.name for field in fields if field.name not in given]
    known = frozenset(schema.names)
    unknown = [] if only is not None else [name for name in given if name not in known]
    if missing or unknown:
        raise SchemaMismatchError(
            f"These rows do not fit table '{table}': "
            + "; ".join(
                [f"missing columns {', '.join(missing)}"] * bool(missing)
                + [f"unknown columns {', '.join(unknown)}"] * bool(unknown)
            )
            + f". The table has: {', '.join(f'{field.name} {field.type}' for field in schema)}."
        )
    arrays = [_typed(given[field.name], field, table) for field in fields]
    if len({len(array) for array in arrays}) > 1:
        raise SchemaMismatchError(f"All columns of a batch for table '{table}' must have the same length.")
    return arrays


def conform_parts(schema: pa.Schema, rows: Rows, *, table: str) -> list[list[pa.Array]]:
    """The parts of ``rows`` in order, each as :func:`conform` returns it.

    Without rows there is no part. Of a table in large chunks, each chunk is a part, and is not copied. Small
    chunks are put together.

    Takes and raises what :func:`conform` does.
    """
    found = rows if isinstance(rows, Mapping) else _read(rows, table)
    if not isinstance(found, pa.Table) or not found.num_rows:
        batch = conform(schema, found, table=table)
        return [batch] if len(batch[0]) else []
    groups: list[list[pa.RecordBatch]] = []
    count = _PART_ROWS
    for chunk in found.to_batches():
        if count >= _PART_ROWS:
            groups.append([])
            count = 0
        groups[-1].append(chunk)
        count += chunk.num_rows
    parts = (group[0] if len(group) == 1 else pa.Table.from_batches(group) for group in groups)
    return [conform(schema, part, table=table) for part in parts if part.num_rows]


def conform_key(schema: pa.Schema, key_values: Any, *, table: str) -> list[pa.Array]:
    """One key as arrays of one value each, in the types of ``schema``.

    Args:
        schema: the key columns.
        key_values: the value of the key column; of several columns a list of their values, in their order.
        table: the table's name, for messages.

    Raises:
        InvalidRequestError: these are no values of the key columns.
    """
    names = schema.names
    values = list(key_values) if isinstance(key_values, list | tuple) else [key_values]
    if len(values) != len(names):
        raise InvalidRequestError(
            f"key_values must be one value for each key column ({', '.join(names)}), not {len(values)}."
        )
    try:
        return conform(schema, {name: [value] for name, value in zip(names, values, strict=True)}, table=table)
    except SchemaMismatchError as error:
        raise InvalidRequestError(f"key_values must be values of the key columns: {error}") from None


def _columns_of(rows: Rows, types: Mapping[str, pa.DataType], table: str) -> dict[str, Any]:
    if isinstance(rows, Mapping):
        try:
            return {column_name(name): arrow_column(name, values, types.get(name)) for name, values in rows.items()}
        except SchemaMismatchError as error:
            raise SchemaMismatchError(f"Rows for table '{table}': {error}") from None
    found = _read(rows, table)
    if len(set(found.schema.names)) != len(found.schema.names):
        raise SchemaMismatchError(f"The batch for table '{table}' has two columns of one name.")
    return dict(zip(found.schema.names, found.columns, strict=True))


def _read(rows: Rows, table: str) -> pa.Table | pa.RecordBatch:
    if isinstance(rows, pa.RecordBatch | pa.Table):
        return rows
    try:
        found = arrow_rows(rows)
        return found.read_all() if isinstance(found, pa.RecordBatchReader) else found
    except (SchemaMismatchError, pa.ArrowException) as error:
        raise SchemaMismatchError(f"Rows for table '{table}': {error}") from None


def _typed(values: Any, field: pa.Field, table: str) -> pa.Array:
    try:
        array = normalise(values, field.type)
    except SchemaMismatchError as error:
        raise SchemaMismatchError(f"Column '{field.name}' of table '{table}': {error}") from None
    if not field.nullable and array.null_count:
        raise SchemaMismatchError(
            f"Column '{field.name}' of table '{table}' is declared without nulls, and the batch has some."
        )
    return array

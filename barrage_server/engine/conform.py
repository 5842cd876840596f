"""What publishers hand over, brought into the shape of a table's schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from barrage_server.engine.types import normalise
from barrage_server.errors import SchemaMismatchError

__all__ = ["Rows", "conform"]

Rows: TypeAlias = pa.RecordBatch | pa.Table | Mapping[str, Any]


def conform(schema: pa.Schema, rows: Rows, *, table: str, only: Sequence[str] | None = None) -> list[pa.Array]:
    """The columns of ``rows`` in the order and the types of ``schema``.

    Columns are matched by name; their order does not matter. Dictionary-encoded columns are decoded.

    Args:
        schema: the table's schema.
        rows: a record batch, a table, or a mapping of column names to arrays or sequences.
        table: the table's name, for messages.
        only: take just these columns, and ignore any others.

    Raises:
        SchemaMismatchError: columns are missing, unknown, of another type or of different lengths.

    """
    fields = [field for field in schema if only is None or field.name in only]
    given = _columns_of(rows, {field.name: field.type for field in fields}, table)
    missing = [field.name for field in fields if field.name not in given]
    unknown = [] if only is not None else [name for name in given if name not in schema.names]
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


def _columns_of(rows: Rows, types: Mapping[str, pa.DataType], table: str) -> dict[str, Any]:
    if isinstance(rows, pa.RecordBatch | pa.Table):
        if len(set(rows.schema.names)) != len(rows.schema.names):
            raise SchemaMismatchError(f"The batch for table '{table}' has two columns of one name.")
        return dict(zip(rows.schema.names, rows.columns, strict=True))
    if isinstance(rows, Mapping):
        return {name: _array(name, values, types.get(name), table) for name, values in rows.items()}
    raise SchemaMismatchError(
        f"Rows for table '{table}' must be a pyarrow RecordBatch or Table, or a mapping of column names to values, "
        f"not {type(rows).__name__}."
    )


def _array(name: str, values: Any, data_type: pa.DataType | None, table: str) -> Any:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    try:
        return pa.array(values, type=data_type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        raise SchemaMismatchError(f"Column '{name}' of table '{table}' takes {data_type}: {error}") from error


def _typed(values: Any, field: pa.Field, table: str) -> pa.Array:
    try:
        array = normalise(values, field.type)
    except SchemaMismatchError as error:
        raise SchemaMismatchError(f"Column '{field.name}' of table '{table}': {error}") from error
    if not field.nullable and array.null_count:
        raise SchemaMismatchError(
            f"Column '{field.name}' of table '{table}' is declared without nulls, and the batch has some."
        )
    return array

"""Schemas in the forms that users write, and schemas inferred from rows."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from itertools import islice
from typing import Any, Final, TypeAlias

import pyarrow as pa

from barrage_server.arguments import shown, unbroken
from barrage_server.engine.types import plain_type
from barrage_server.errors import InvalidRequestError, SchemaMismatchError, UnknownColumnError
from barrage_server.type_names import as_type

__all__ = ["SchemaLike", "as_schema", "inferred_schema", "unknown_column"]

SchemaLike: TypeAlias = pa.Schema | Mapping[str, Any]
"""A schema as users write it: Arrow's own, or a mapping of column names to types: names of Arrow types such as
``"float64"`` or ``"timestamp[us, tz=UTC]"``, Arrow types, numpy dtypes, or ``int``, ``float``, ``str``, ``bool``,
``bytes`` and the classes of :mod:`datetime`."""

_MOST_COMPARED: Final = 1_000
_MOST_LISTED: Final = 20
_LONGEST: Final = 100
_EXAMPLE: Final = '{"sym": "string", "price": "float64"}'


def as_schema(given: SchemaLike) -> pa.Schema:
    """The Arrow schema of ``given``; see :data:`SchemaLike`.

    Raises:
        InvalidRequestError: it cannot be read as a schema.
        UnsupportedTypeError: a type is unknown; the text names its column.
    """
    if isinstance(given, pa.Schema):
        return given
    if isinstance(given, Mapping):
        return pa.schema([_field(name, kind) for name, kind in given.items()])
    hint = ""
    if hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__"):
        hint = " To make a table of rows, write bs.table(rows)."
    raise InvalidRequestError(
        f"A schema is a pyarrow.Schema or a mapping of column names to types, such as {_EXAMPLE}; "
        f"not {shown(given)}.{hint}"
    )


def inferred_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of a table for rows of ``schema``: plain, nullable types.

    Raises:
        SchemaMismatchError: a column has no values to infer its type from.
    """
    fields = []
    for field in schema:
        if pa.types.is_null(field.type):
            raise SchemaMismatchError(
                f"Column '{field.name}' has no values to tell its type from: pass schema=, such as {_EXAMPLE}."
            )
        fields.append(pa.field(field.name, plain_type(field.type), metadata=field.metadata))
    return pa.schema(fields, metadata=schema.metadata)


def unknown_column(name: str, columns: Collection[str], table: str) -> UnknownColumnError:
    """The error for a missing column, with the nearest name or all names."""
    close = difflib.get_close_matches(name[:_LONGEST], list(islice(columns, _MOST_COMPARED)), n=1)
    if close:
        return UnknownColumnError(f"Table '{table}' has no column {name[:_LONGEST]!r}. Did you mean {close[0]!r}?")
    listed = ", ".join(islice(columns, _MOST_LISTED)) + (", ..." if len(columns) > _MOST_LISTED else "")
    return UnknownColumnError(f"Table '{table}' has no column {name[:_LONGEST]!r}. Its columns are: {listed}.")


def _field(name: Any, kind: Any) -> pa.Field:
    if not isinstance(name, str):
        raise InvalidRequestError(f"Column names are strings, not {shown(name)}; a schema is such as {_EXAMPLE}.")
    unbroken(name, f"The column name {shown(name)}")
    if isinstance(kind, pa.Field):
        return kind.with_name(name)
    return pa.field(name, as_type(kind, f"Column '{name}'"))

"""Tables as CSV and JSON lines, which read back with the target table's types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import pyarrow as pa
from pyarrow import csv, types
from pyarrow import json as arrow_json

from barrage_server.cli.json_values import array_of_json, is_binary, json_of_array
from barrage_server.errors import SchemaMismatchError

__all__ = ["read_csv", "read_json_lines", "write_csv", "write_json_lines"]

_BLOCK_BYTES: Final = 16 << 20
"""Bytes that Arrow parses at a time, and most bytes of a line of JSON."""
_ROWS: Final = 16_384
"""Rows converted at a time."""


def read_csv(source: BinaryIO, schema: pa.Schema | None) -> pa.RecordBatchReader:
    """The rows of CSV text with a header line, read lazily.

    Args:
        source: the text, in UTF-8.
        schema: types by column name; other columns, and all columns without a schema, get the type that their values
            suggest. With a schema, only an empty cell without quotes is null.

    Raises:
        pyarrow.ArrowInvalid: the text is not CSV, or a cell is not of its column's type.
    """
    if schema is None:
        return _open_csv(source, None, None)
    parsed = {field.name: _csv_type(field.type) for field in schema}
    options = csv.ConvertOptions(
        column_types=parsed, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    reader = _open_csv(source, options, schema)
    if reader.schema.equals(schema):
        return reader
    wanted = {field.name: field.type for field in schema}
    fields = [field.with_type(wanted.get(field.name, field.type)) for field in reader.schema]

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            columns = [_of_csv(batch.column(number), field) for number, field in enumerate(fields)]
            yield pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    return pa.RecordBatchReader.from_batches(pa.schema(fields), batches())


def write_csv(table: pa.Table, sink: BinaryIO) -> None:
    """Write ``table`` as CSV with a header line; nested cells are JSON."""
    columns = [_to_csv(column) for column in table.columns]
    csv.write_csv(pa.Table.from_arrays(columns, names=table.column_names), sink)


def read_json_lines(source: BinaryIO, schema: pa.Schema | None) -> pa.Table:
    """The rows of JSON text with one object per line.

    Args:
        source: the text, in UTF-8.
        schema: types by column name; columns that the text does not name are omitted. Other columns, and all columns
            without a schema, get the type that their values suggest.

    Raises:
        pyarrow.ArrowInvalid: the text is not JSON, or the values of a column have no common type.
        SchemaMismatchError: a value is not of its column's type; the text names the column.
    """
    text = source.read()
    if not text.strip():
        return _no_rows(schema)
    named = None if schema is None else _fields_of_json(text, schema)
    if named is None or all(_is_plain_json(field.type) for field in named):
        options = arrow_json.ParseOptions(explicit_schema=named)
        blocks = arrow_json.ReadOptions(block_size=_BLOCK_BYTES)
        try:
            found = arrow_json.read_json(pa.BufferReader(text), read_options=blocks, parse_options=options)
            if named is None or all(found.schema.field(field.name).type == field.type for field in named):
                return found  # types differ where Arrow added fields that a struct lacks
        except pa.ArrowInvalid:
            if named is None:
                raise  # with a schema, the code below names the value and column
    return _table_of_objects(text, named)


def write_json_lines(table: pa.Table, sink: BinaryIO) -> None:
    """Write ``table`` as JSON, one object per line."""
    names = [json.dumps(name, ensure_ascii=False) for name in table.column_names]
    for batch in table.to_batches(max_chunksize=_ROWS):
        columns = [map(_json_text, json_of_array(column)) for column in batch.columns]
        lines = (
            "{" + ", ".join(f"{name}: {text}" for name, text in zip(names, row, strict=True)) + "}\n"
            for row in zip(*columns, strict=True)
        )
        sink.write("".join(lines).encode())


def _no_rows(schema: pa.Schema | None) -> pa.Table:
    if schema is None:
        raise SchemaMismatchError(
            "There is no row and no header to name the columns of a new table. Create the table first, with "
            "'barrage-server create', or use CSV with a header line."
        )
    return schema.empty_table()


def _json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


# CSV


def _open_csv(source: BinaryIO, options: csv.ConvertOptions | None, schema: pa.Schema | None) -> pa.RecordBatchReader:
    try:
        return csv.open_csv(source, convert_options=options)
    except pa.ArrowInvalid as error:
        if "Empty CSV file" not in str(error):
            raise
        return _no_rows(schema).to_reader()


def _csv_type(kind: pa.DataType) -> pa.DataType:
    """The type to parse cells as: text for types that Arrow cannot parse."""
    if types.is_dictionary(kind):
        return _csv_type(kind.value_type)
    if types.is_float16(kind):
        return pa.float32()
    direct = (
        types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_temporal(kind)
        or types.is_decimal128(kind)
        or types.is_large_string(kind)
    )
    return kind if direct else pa.string()


def _of_csv(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type == field.type:
        return column
    if is_binary(field.type) or types.is_null(field.type):
        return _named(column.to_pylist(), field)
    if types.is_nested(field.type):
        try:
            values = [None if text is None else json.loads(text) for text in column.to_pylist()]
        except ValueError as error:
            raise SchemaMismatchError(f"Column {field.name!r}: a cell of {field.type} holds JSON: {error}") from None
        return _named(values, field)
    return column.cast(field.type)


def _to_csv(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _to_csv(pa.chunked_array([chunk.storage for chunk in column.chunks], kind.storage_type))
    if types.is_dictionary(kind):
        return _to_csv(column.cast(kind.value_type))
    if types.is_nested(kind) or is_binary(kind):
        values = [value for chunk in column.chunks for value in json_of_array(chunk)]
        texts = [value if value is None or isinstance(value, str) else _json_text(value) for value in values]
        return pa.array(texts, pa.string())
    if types.is_timestamp(kind) and kind.tz is not None:
        return column.cast(pa.timestamp(kind.unit, "UTC"))  # historical offsets have seconds, which texts cannot hold
    if types.is_string_view(kind):
        return column.cast(pa.string())
    if types.is_decimal(kind) and not types.is_decimal128(kind):
        return column.cast(pa.string())
    return column


# JSON


def _fields_of_json(text: bytes, schema: pa.Schema) -> pa.Schema:
    """The columns of ``schema`` that the text names; others are absent, not null."""
    return pa.schema([field for field in schema if any(name in text for name in _spellings(field.name))])


def _spellings(name: str) -> set[bytes]:
    return {json.dumps(name).encode(), json.dumps(name, ensure_ascii=False).encode()}


def _is_plain_json(kind: pa.DataType) -> bool:
    """Whether Arrow's JSON reader reads a type as :func:`write_json_lines` writes."""
    if types.is_list(kind):
        return _is_plain_json(kind.value_type)
    if types.is_struct(kind):
        return all(_is_plain_json(field.type) for field in kind)
    return bool(
        types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_float32(kind)
        or types.is_float64(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_timestamp(kind)
    )


def _table_of_objects(text: bytes, schema: pa.Schema | None) -> pa.Table:
    fields = list(schema or ())
    names = {field.name for field in fields}
    batches: list[pa.RecordBatch] = []
    rows: list[dict[str, Any]] = []

    def convert() -> None:
        columns = [_named([row.get(field.name) for row in rows], field) for field in fields]
        batches.append(pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)))
        rows.clear()

    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise SchemaMismatchError(f"Line {number} is not JSON: {error}") from None
        if not isinstance(row, dict):
            raise SchemaMismatchError(f"Line {number} is not a JSON object; write one object per line.")
        for name in row.keys() - names:
            raise SchemaMismatchError(f"Line {number} has a field {name!r}, which the table lacks.")
        rows.append(row)
        if len(rows) == _ROWS:
            convert()
    convert()
    return pa.Table.from_batches(batches, pa.schema(fields))


def _named(values: list[Any], field: pa.Field) -> pa.Array:
    try:
        return array_of_json(values, field.type)
    except SchemaMismatchError as error:
        raise SchemaMismatchError(f"Column {field.name!r}: {error}") from None

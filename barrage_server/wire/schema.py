"""Schemas on the wire: Arrow types with Deephaven's metadata.

Field metadata has the Java type and the role of each column; schema metadata has the table's attributes. Deephaven's
Java and JavaScript clients need both. Columns are plain, or lists.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyarrow import types

from barrage_server.errors import SchemaMismatchError, UnknownColumnError, WireFormatError

__all__ = [
    "DEEPHAVEN_PREFIX",
    "EXTENSION_PREFIX",
    "TYPE_KEY",
    "barrage_schema",
    "is_list_like",
    "is_list_schema",
    "java_type",
    "key_columns",
    "list_schema",
    "plain_schema",
    "table_attributes",
    "unwrapped_type",
    "without_extension",
]

DEEPHAVEN_PREFIX: Final = b"deephaven:"
"""The beginning of Deephaven's keys in metadata."""
TYPE_KEY: Final = b"deephaven:type"
"""The key of a column's Java type in the metadata of its field."""
_COMPONENT_TYPE: Final = b"deephaven:componentType"
_SORTABLE: Final = b"deephaven:isSortable"
_KEY: Final = b"deephaven:inputtable.isKey"
_VALUE: Final = b"deephaven:inputtable.isValue"
_ATTRIBUTE: Final = b"deephaven:attribute."
_ATTRIBUTE_TYPE: Final = b"deephaven:attribute_type."
EXTENSION_PREFIX: Final = b"ARROW:extension:"
"""The beginning of the keys in metadata that tell the extension type of a column."""
_UNSENT: Final = b"deephaven:unsent.attribute."

_JAVA_TYPES: Final[Mapping[pa.DataType, str]] = {
    pa.null(): "java.lang.Object",
    pa.bool_(): "java.lang.Boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.uint8(): "short",
    pa.uint16(): "char",
    pa.uint32(): "long",
    pa.uint64(): "java.math.BigInteger",
    pa.float16(): "float",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "java.lang.String",
    pa.large_string(): "java.lang.String",
    pa.binary(): "byte[]",
    pa.large_binary(): "byte[]",
}


def unwrapped_type(data_type: pa.DataType) -> pa.DataType:
    """Return the storage type of an extension type; any other type itself."""
    while isinstance(data_type, pa.BaseExtensionType):
        data_type = data_type.storage_type
    return data_type


def is_list_like(data_type: pa.DataType) -> bool:
    """Whether values are lists of items of one type, in any layout; maps are not."""
    return bool(
        types.is_list(data_type)
        or types.is_large_list(data_type)
        or types.is_fixed_size_list(data_type)
        or types.is_list_view(data_type)
        or types.is_large_list_view(data_type)
    )


def java_type(data_type: pa.DataType) -> str | None:
    """Return Deephaven's Java type of an Arrow type; None where the client decides."""
    if isinstance(data_type, pa.BaseExtensionType):
        return None  # extension types defined in Python are not hashable
    known = _JAVA_TYPES.get(data_type)
    if known is not None:
        return known
    if types.is_timestamp(data_type):
        return "java.time.Instant" if data_type.tz in (None, "UTC") else "java.time.ZonedDateTime"
    if is_list_like(data_type):
        component = java_type(data_type.value_type)
        return None if component is None else f"{component}[]"
    for matches, name in _JAVA_FAMILIES:
        if matches(data_type):
            return name
    return None


_JAVA_FAMILIES: Final = (
    (types.is_date, "java.time.LocalDate"),
    (types.is_time, "java.time.LocalTime"),
    (types.is_duration, "java.time.Duration"),
    (types.is_decimal, "java.math.BigDecimal"),
    (types.is_fixed_size_binary, "byte[]"),
    (types.is_map, "java.util.Map"),
)


def barrage_schema(
    schema: pa.Schema, *, attributes: Mapping[str, object] | None = None, key_columns: Sequence[str] = ()
) -> pa.Schema:
    """Return the schema of a table on the wire, with Deephaven's metadata.

    All columns are nullable, because a batch may pad columns outside of the subscription. An existing
    ``deephaven:type`` of a field is kept, so that binary columns can be tagged ``java.math.BigDecimal``; so is all
    other metadata.

    Args:
        schema: the table's schema.
        attributes: the table's attributes, such as ``{"AppendOnly": True}``. False ones are not sent; those that are
            not a bool, int, float or str are only listed as unsent.
        key_columns: columns marked as keys of an input table; all others are marked as its values.

    Raises:
        UnknownColumnError: a key column is not in the schema.

    """
    keys, known = frozenset(key_columns), frozenset(schema.names)
    for name in key_columns:
        if name not in known:
            raise UnknownColumnError(f"key column {name!r} is not in the table; it has {', '.join(schema.names)}")
    fields = [
        field.with_nullable(True).with_metadata(_field_metadata(field, _key_mark(field.name, keys))) for field in schema
    ]
    metadata = {
        key: value
        for key, value in (schema.metadata or {}).items()
        if not key.startswith((_ATTRIBUTE, _ATTRIBUTE_TYPE, _UNSENT))
    }
    for name, value in (attributes or {}).items():
        metadata.update(_attribute(name, value))
    return pa.schema(fields, metadata=metadata or None)


def _key_mark(name: str, keys: Collection[str]) -> bytes | None:
    if not keys:
        return None
    return _KEY if name in keys else _VALUE


def _field_metadata(field: pa.Field, key_mark: bytes | None) -> dict[bytes, bytes]:
    given: dict[bytes, bytes] = dict(field.metadata or {})
    metadata = {key: value for key, value in given.items() if not key.startswith(DEEPHAVEN_PREFIX)}
    kept = given.get(TYPE_KEY)
    name = kept.decode(errors="replace") if kept is not None else java_type(field.type)
    if name is not None:
        metadata[TYPE_KEY] = name.encode()
        if name.endswith("[]"):
            metadata[_COMPONENT_TYPE] = name[:-2].encode()
    if not types.is_nested(field.type) or name is not None:
        metadata[_SORTABLE] = b"true"
    if key_mark is not None:
        metadata[key_mark] = b"true"
    return metadata


def _attribute(name: str, value: object) -> dict[bytes, bytes]:
    """Return the metadata of one attribute: its text and its Java class."""
    key = name.encode()
    match value:
        case None | False:
            return {}
        case True:
            java, text = "java.lang.Boolean", "true"
        case int():
            java = "java.lang.Integer" if -(1 << 31) <= value < 1 << 31 else "java.lang.Long"
            text = str(value)
        case float():
            java, text = "java.lang.Double", repr(value)
        case str():
            java, text = "java.lang.String", value
        case _:
            return {_UNSENT + key: b""}
    return {_ATTRIBUTE + key: text.encode(), _ATTRIBUTE_TYPE + key: java.encode()}


def table_attributes(schema: pa.Schema) -> dict[str, object]:
    """Return the attributes in a received schema by name, without unsent ones.

    Values are bool, int, float or str.
    """
    metadata: dict[bytes, bytes] = dict(schema.metadata or {})
    found: dict[str, object] = {}
    for key, value in metadata.items():
        if key.startswith(_ATTRIBUTE):
            name = key[len(_ATTRIBUTE) :]
            java = metadata.get(_ATTRIBUTE_TYPE + name, b"java.lang.String").decode(errors="replace")
            found[name.decode(errors="replace")] = _attribute_value(java, value.decode(errors="replace"))
    return found


def _attribute_value(java: str, text: str) -> object:
    try:
        match java:
            case "java.lang.Boolean":
                return text.lower() == "true"
            case "java.lang.Byte" | "java.lang.Short" | "java.lang.Integer" | "java.lang.Long":
                return int(text)
            case "java.lang.Float" | "java.lang.Double":
                return float(text)
    except ValueError as error:
        raise WireFormatError(f"a table attribute of type {java} does not read as one: {text[:40]!r}") from error
    return text


def key_columns(schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns marked as keys of an input table in a received schema."""
    return tuple(field.name for field in schema if (field.metadata or {}).get(_KEY) == b"true")


def list_schema(schema: pa.Schema) -> pa.Schema:
    """Convert a schema to the ``columns_as_list`` form: non-null lists of each field.

    The list and the field both have the metadata, except that of an extension type, which only the field has.
    """
    return pa.schema(
        [
            pa.field(field.name, pa.list_(field), nullable=False, metadata=without_extension(field.metadata))
            for field in schema
        ],
        metadata=schema.metadata,
    )


def without_extension(metadata: Mapping[bytes, bytes] | None) -> dict[bytes, bytes] | None:
    """Return a field's metadata without the keys of an extension type."""
    kept = {key: value for key, value in (metadata or {}).items() if not key.startswith(EXTENSION_PREFIX)}
    return kept or None


def is_list_schema(schema: pa.Schema) -> bool:
    """Whether a received schema has the ``columns_as_list`` form.

    Lists of this form are not nullable, and plain columns are.
    """
    return len(schema) > 0 and all(
        types.is_list(field.type) and not field.nullable and field.type.value_field.name == field.name
        for field in schema
    )


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Undo :func:`list_schema`; SchemaMismatchError when a column is not a list."""
    for field in schema:
        if not types.is_list(field.type):
            raise SchemaMismatchError(f"column {field.name!r} is not a list: this is not a columns_as_list schema")
    return pa.schema([field.type.value_field for field in schema], metadata=schema.metadata)

"""Families of clients: the column types that they read, and conversions to these.

``docs/types.md`` has the rules as a table; comments give their sources. A type that a family reads only without nulls,
or reads correctly for some values only, counts as unreadable.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
from pyarrow import types

from barrage_server.wire.browser_types import browser_reading
from barrage_server.wire.conversions import (
    DAY_MILLISECONDS,
    NANOSECONDS,
    Convert,
    hex_text,
    in_a_day,
    lists,
    maps,
    scaled,
    unsized,
    whole_days,
    with_null_values,
)
from barrage_server.wire.java_names import java_names
from barrage_server.wire.java_numbers import big_decimal_text, big_decimals, big_integer_text, big_integers
from barrage_server.wire.nulls import has_deephaven_null
from barrage_server.wire.schema import TYPE_KEY, is_list_like, java_type, unwrapped_type, without_extension

__all__ = ["ClientFamily", "FamilyColumns", "attributes_for"]

_BIG_DECIMAL: Final = "java.math.BigDecimal"
_BIG_INTEGER: Final = "java.math.BigInteger"
_INSTANT: Final = pa.timestamp("ns", "UTC")
_OFFSET: Final = re.compile(r"[+-](0\d|1[0-7]):[0-5]\d")

_SAME: Final = frozenset(
    {
        types.lib.Type_BOOL,
        types.lib.Type_INT8,
        types.lib.Type_INT16,
        types.lib.Type_INT32,
        types.lib.Type_INT64,
        types.lib.Type_UINT16,
        types.lib.Type_FLOAT,
        types.lib.Type_DOUBLE,
        types.lib.Type_STRING,
    }
)
"""Types that every family reads. A uint16 is Java's char."""

# Java and JavaScript read unsigned bytes and ints as signed ones, so that 128 and 2^31 read as null. No reader uses
# validity bits of numbers, and half floats have no null value.
_WIDENED: Final = {
    types.lib.Type_UINT8: pa.int16(),
    types.lib.Type_UINT32: pa.int64(),
    types.lib.Type_HALF_FLOAT: pa.float32(),
}


class ClientFamily(Enum):
    """A kind of client, by the types that it reads.

    ``ARROW``: Arrow Flight clients and this project's client; they read all types of tables.
    ``TICKING``: Deephaven's clients on the C++ core (Python, C++, C#, Go, R); they read the fewest types.
    ``JAVA``: a Deephaven server, or its Java client.
    ``JAVASCRIPT``: Deephaven's browser and Node client.
    ``BROWSER``: the page of this project; :mod:`~barrage_server.wire.browser_types` has its types.
    """

    ARROW = "arrow"
    TICKING = "ticking"
    JAVA = "java"
    JAVASCRIPT = "javascript"
    BROWSER = "browser"


@dataclass(frozen=True, slots=True)
class FamilyColumns:
    """The columns of a table as one family sees them.

    Attributes:
        schema: the schema on the wire: converted types, with the ``deephaven:type`` that the family's readers need, and
            names that they accept. All other metadata is the table's.
        sources: the table's column number of each column sent.
        left_out: names of the columns without a conversion.
        is_plain: whether all columns are sent unchanged; then ``schema`` is the table's.
        converters: the conversion of each column sent; None for none.

    """

    schema: pa.Schema
    sources: tuple[int, ...]
    left_out: tuple[str, ...] = ()
    is_plain: bool = True
    converters: tuple[Convert | None, ...] = ()

    @classmethod
    def of(cls, schema: pa.Schema, family: ClientFamily) -> FamilyColumns:
        """Make the view of ``family`` on a table with ``schema``."""
        plain = cls(schema, tuple(range(len(schema))))
        if family is ClientFamily.ARROW:
            return plain
        if family is ClientFamily.BROWSER:
            readings = [browser_reading(data_type) for data_type in schema.types]
            return cls(
                pa.schema([pa.field(name, target) for name, (target, _) in zip(schema.names, readings, strict=True)]),
                plain.sources,
                is_plain=False,
                converters=tuple(convert for _, convert in readings),
            )
        fields, sources, left_out, converters = [], [], [], []
        for number, field in enumerate(schema):
            reading = _reading(field.type, _tag_of(field), family)
            if reading is None:
                left_out.append(field.name)
            else:
                fields.append(_tagged(field, reading))
                sources.append(number)
                converters.append(reading.convert)
        if family is ClientFamily.JAVA:
            names = java_names([field.name for field in fields])
            fields = [field.with_name(name) for field, name in zip(fields, names, strict=True)]
        sent = pa.schema(fields, metadata=schema.metadata)
        if not any(converters) and sent.equals(schema, check_metadata=True):
            return plain
        return cls(sent, tuple(sources), tuple(left_out), False, tuple(converters))

    def only(self, numbers: Sequence[int]) -> FamilyColumns:
        """Select columns by their numbers in this view; they get the numbers 0, 1, 2 ..."""
        return FamilyColumns(
            pa.schema([self.schema.field(number) for number in numbers], metadata=self.schema.metadata),
            tuple(self.sources[number] for number in numbers),
            is_plain=False,
            converters=tuple(None if self.is_plain else self.converters[number] for number in numbers),
        )

    def convert(self, number: int, array: pa.Array) -> pa.Array:
        """Convert values of the view's column ``number`` to its type on the wire.

        Raises:
            MessageTooLargeError: the values have more than 2 GiB in a type that cannot hold more.

        """
        converter = None if self.is_plain else self.converters[number]
        return array if converter is None else converter(array)


def attributes_for(attributes: Mapping[str, object], family: ClientFamily) -> Mapping[str, object]:
    """Select the attributes of a table that ``family`` interprets correctly.

    JavaScript (42.7) stores the rows of a blink table at 0, 1, 2 …, and then looks them up by their keys, which
    continue from cycle to cycle here. Without the attribute it reads the table correctly.
    """
    if family is not ClientFamily.JAVASCRIPT:
        return attributes
    return {name: value for name, value in attributes.items() if name != "BlinkTable"}


@dataclass(frozen=True, slots=True)
class _Reading:
    """The reading of a type by a family.

    Attributes:
        data_type: the type on the wire.
        convert: the conversion; None for none.
        tag: the ``deephaven:type`` that the reader needs, if any.

    """

    data_type: pa.DataType
    convert: Convert | None = None
    tag: str | None = None


def _tag_of(field: pa.Field) -> str:
    """Return the Java type in a field's metadata; empty if absent."""
    metadata: dict[bytes, bytes] = field.metadata or {}
    return metadata.get(TYPE_KEY, b"").decode(errors="replace")


def _tagged(field: pa.Field, reading: _Reading) -> pa.Field:
    """Return the field on the wire; an extension type becomes its storage.

    An unexpected tag is dropped, because readers would refuse the table.
    """
    metadata = without_extension(field.metadata) or {}
    given = metadata.pop(TYPE_KEY, None)
    if reading.tag is not None:
        metadata[TYPE_KEY] = reading.tag.encode()
    elif given is not None and given.decode(errors="replace") == java_type(reading.data_type):
        metadata[TYPE_KEY] = given
    if reading.convert is not None:
        field = field.with_nullable(True)
    return field.with_type(reading.data_type).with_metadata(metadata or None)


def _reading(data_type: pa.DataType, tag: str, family: ClientFamily) -> _Reading | None:
    """Return the reading of a column by ``family``; None if it cannot be sent."""
    if isinstance(data_type, pa.BaseExtensionType):
        stored = _reading(data_type.storage_type, tag, family)
        return stored and _Reading(stored.data_type, _chain(lambda array: array.storage, stored.convert), stored.tag)
    if is_list_like(data_type):
        return _list(data_type, tag, family)
    if types.is_map(data_type):
        return _map(data_type) if family is ClientFamily.JAVA else None
    return _scalar(data_type, tag, family)


def _scalar(data_type: pa.DataType, tag: str, family: ClientFamily) -> _Reading | None:
    if data_type.id in _SAME:
        return _Reading(data_type)
    if data_type.id in _WIDENED:
        wide = _WIDENED[data_type.id]
        return _Reading(wide, lambda array: array.cast(wide))
    if types.is_null(data_type):
        return _Reading(pa.string(), lambda array: pa.nulls(len(array), pa.string()))
    if types.is_large_string(data_type):
        return _Reading(pa.string(), partial(unsized, target=pa.string()))
    if types.is_uint64(data_type) or types.is_decimal(data_type):
        return _big_number(data_type, family)
    if types.is_timestamp(data_type):
        return _timestamp(data_type, tag, family)
    if types.is_duration(data_type):
        # Java multiplies other units without checking for overflow; the other families have no reader
        target = pa.duration("ns") if family is ClientFamily.JAVA else pa.int64()
        return _rescaled(data_type, target, NANOSECONDS[data_type.unit])
    if types.is_date(data_type) or types.is_time(data_type):
        return _date_or_time(data_type, family)
    if types.is_binary(data_type) or types.is_large_binary(data_type) or types.is_fixed_size_binary(data_type):
        return _binary(data_type, tag, family)
    return None  # structs, unions, and intervals; Java's reader of intervals expects validity bits that it has skipped


def _big_number(data_type: pa.DataType, family: ClientFamily) -> _Reading:
    # Java's reader of Arrow decimals expects validity bits that it has skipped (FixedWidthChunkReader), and its reader
    # of uint64 reads 2^63 as null.
    if family is ClientFamily.TICKING:
        return _Reading(pa.string(), lambda array: array.cast(pa.string()))
    if types.is_decimal(data_type):
        return _Reading(pa.binary(), big_decimals, _BIG_DECIMAL)
    return _Reading(pa.binary(), big_integers, _BIG_INTEGER)


def _timestamp(data_type: pa.DataType, tag: str, family: ClientFamily) -> _Reading:
    zoned = tag if tag in ("java.time.Instant", "java.time.ZonedDateTime") else None
    target = _INSTANT
    if family is ClientFamily.JAVA and (data_type.tz is None or _is_zone(data_type.tz)):
        target = pa.timestamp("ns", data_type.tz)
    reading = _rescaled(data_type, target, NANOSECONDS[data_type.unit])
    return _Reading(reading.data_type, reading.convert, zoned)


def _date_or_time(data_type: pa.DataType, family: ClientFamily) -> _Reading:
    # Java refuses the table for a time outside of the day; the C++ core refuses negative times and parts of a day.
    if types.is_time(data_type):
        target = pa.time64("ns") if family is ClientFamily.TICKING else data_type
        scaling = _rescaled(data_type, target, 1 if target == data_type else NANOSECONDS[data_type.unit])
        return _Reading(target, _chain(in_a_day, scaling.convert))
    if family is not ClientFamily.TICKING:
        return _Reading(data_type)
    if types.is_date64(data_type):
        return _Reading(data_type, whole_days)
    return _rescaled(data_type, pa.date64(), DAY_MILLISECONDS)


def _rescaled(data_type: pa.DataType, target: pa.DataType, factor: int) -> _Reading:
    return _Reading(target, None if data_type == target else partial(scaled, target=target, factor=factor))


def _binary(data_type: pa.DataType, tag: str, family: ClientFamily) -> _Reading:
    number = tag if tag in (_BIG_DECIMAL, _BIG_INTEGER) else None
    if family is ClientFamily.TICKING and number is not None:
        return _Reading(pa.string(), big_decimal_text if number == _BIG_DECIMAL else big_integer_text)
    if family is ClientFamily.TICKING or (family is ClientFamily.JAVASCRIPT and number is None):
        return _Reading(pa.string(), hex_text)
    convert = None if types.is_binary(data_type) else partial(unsized, target=pa.binary())
    return _Reading(pa.binary(), convert, number)


def _list(data_type: pa.DataType, tag: str, family: ClientFamily) -> _Reading | None:
    field = data_type.value_field
    stored = unwrapped_type(field.type)
    if types.is_nested(stored) and (family is not ClientFamily.JAVA or types.is_map(stored)):
        return None
    element = _reading(field.type, tag.removesuffix("[]"), family)
    if element is not None and family is ClientFamily.JAVASCRIPT:
        if types.is_int8(element.data_type):  # its reader of byte[] expects the buffers of a binary column
            element = _Reading(pa.int16(), _chain(element.convert, lambda array: array.cast(pa.int16())))
        elif element.tag in (_BIG_DECIMAL, _BIG_INTEGER):  # its reader of lists does not find their tag
            element = _reading(field.type, element.tag, ClientFamily.TICKING)
    if element is None:
        return None
    name = None if element.tag is None else f"{element.tag}[]"
    target = pa.list_(_tagged(field, element))
    if element.convert is None and types.is_list(data_type):
        return _Reading(target, None, name)
    return _Reading(target, partial(lists, target=target, convert=element.convert), name)


def _map(data_type: pa.DataType) -> _Reading | None:
    """Return the reading of a map of scalars by Java.

    Java derives the types of keys and items from Arrow's, so maps of types that need a tag are left out.
    """
    fields, converters = [], []
    for field in (data_type.key_field, data_type.item_field):
        if types.is_nested(unwrapped_type(field.type)):
            return None
        reading = _reading(field.type, "", ClientFamily.JAVA)
        if reading is None or reading.tag is not None:
            return None
        # The writer encodes nulls of columns and list elements, but not nulls in maps.
        nulls = with_null_values if has_deephaven_null(reading.data_type) else None
        fields.append(field.with_type(reading.data_type))
        converters.append(_chain(reading.convert, nulls))
    if converters == [None, None]:
        return _Reading(data_type)
    target = pa.map_(fields[0], fields[1], keys_sorted=data_type.keys_sorted)
    return _Reading(target, partial(maps, target=target, key=converters[0], item=converters[1]))


def _chain(first: Convert | None, second: Convert | None) -> Convert | None:
    if first is None or second is None:
        return first or second
    return partial(_both, first=first, second=second)


def _both(array: pa.Array, first: Convert, second: Convert) -> pa.Array:
    return second(first(array))


def _is_zone(name: str) -> bool:
    """Whether Java knows a time zone: an offset such as +02:00, or a place."""
    if _OFFSET.fullmatch(name):
        return True
    if "/" not in name or name.startswith(("posix/", "right/")):
        return False
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True

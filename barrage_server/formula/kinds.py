"""Kinds: the types of the language, which are Java's, and their Arrow types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

__all__ = [
    "BOOLEAN",
    "BYTE",
    "CHAR",
    "DOUBLE",
    "DURATION",
    "FLOAT",
    "INSTANT",
    "INT",
    "INTEGERS",
    "LOCAL_DATE",
    "LOCAL_TIME",
    "LONG",
    "NULL",
    "NUMBERS",
    "PERIOD",
    "SHORT",
    "STRING",
    "ZONE",
    "Kind",
    "is_opaque",
    "kind_of",
    "list_of",
]


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of the language.

    Attributes:
        name: its name in Java, which messages use.
        arrow: the Arrow type of a result of this kind.
        dtype: of its cells, if its values are evaluated by numpy; ``None`` if they are Arrow arrays.
        item: the kind of the items of a list.

    """

    name: str
    arrow: pa.DataType
    dtype: np.dtype[Any] | None = None
    item: Kind | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def is_number(self) -> bool:
        """Whether arithmetic takes the kind; decimals are not included."""
        return self in NUMBERS

    @property
    def is_decimal(self) -> bool:
        """Whether the kind is BigDecimal."""
        return bool(pat.is_decimal(self.arrow) and self.arrow.scale >= 0)  # Arrow does not compute with others


BOOLEAN: Final = Kind("boolean", pa.bool_(), np.dtype(np.bool_))
BYTE: Final = Kind("byte", pa.int8(), np.dtype(np.int8))
SHORT: Final = Kind("short", pa.int16(), np.dtype(np.int16))
CHAR: Final = Kind("char", pa.uint16(), np.dtype(np.uint16))
INT: Final = Kind("int", pa.int32(), np.dtype(np.int32))
LONG: Final = Kind("long", pa.int64(), np.dtype(np.int64))
FLOAT: Final = Kind("float", pa.float32(), np.dtype(np.float32))
DOUBLE: Final = Kind("double", pa.float64(), np.dtype(np.float64))
STRING: Final = Kind("String", pa.string())
INSTANT: Final = Kind("Instant", pa.timestamp("ns", "UTC"), np.dtype(np.int64))
LOCAL_DATE: Final = Kind("LocalDate", pa.date32(), np.dtype(np.int32))
LOCAL_TIME: Final = Kind("LocalTime", pa.time64("ns"), np.dtype(np.int64))
DURATION: Final = Kind("Duration", pa.duration("ns"), np.dtype(np.int64))
NULL: Final = Kind("null", pa.null())
ZONE: Final = Kind("ZoneId", pa.null())
"""A time zone, which only literals have."""
PERIOD: Final = Kind("Period", pa.null(), np.dtype(np.int32))
"""A number of days, which only literals have."""

INTEGERS: Final = (BYTE, SHORT, CHAR, INT, LONG)
NUMBERS: Final = (*INTEGERS, FLOAT, DOUBLE)

_PLAIN: Final[dict[pa.DataType, Kind]] = {
    pa.bool_(): BOOLEAN,
    pa.int8(): BYTE,
    pa.int16(): SHORT,
    pa.int32(): INT,
    pa.int64(): LONG,
    pa.uint8(): SHORT,
    pa.uint16(): CHAR,
    pa.uint32(): LONG,
    pa.float16(): FLOAT,
    pa.float32(): FLOAT,
    pa.float64(): DOUBLE,
    pa.string(): STRING,
    pa.large_string(): STRING,
    pa.null(): NULL,
}


def list_of(item: Kind) -> Kind:
    """The kind of lists of ``item``."""
    return Kind(f"{item}[]", pa.list_(item.arrow), None, item)


def is_opaque(kind: Kind) -> bool:
    """Whether values can only be passed on, and compared with null."""
    return kind.dtype is None and kind.item is None and kind not in (STRING, NULL, ZONE) and not kind.is_decimal


def kind_of(arrow: pa.DataType) -> Kind:
    """The kind that a column of a plain Arrow type is evaluated as."""
    found = _PLAIN.get(arrow)
    if found is not None:
        return found
    if pat.is_uint64(arrow):
        return Kind("BigDecimal", pa.decimal128(20, 0))
    if pat.is_decimal(arrow) and arrow.scale >= 0:
        return Kind("BigDecimal", arrow)
    if pat.is_timestamp(arrow):
        return INSTANT
    if pat.is_date(arrow):
        return LOCAL_DATE
    if pat.is_time(arrow):
        return LOCAL_TIME
    if pat.is_duration(arrow):
        return DURATION
    if pat.is_list(arrow) or pat.is_large_list(arrow) or pat.is_fixed_size_list(arrow):
        return Kind(f"{kind_of(arrow.value_type)}[]", arrow, None, kind_of(arrow.value_type))
    return Kind(str(arrow), arrow)

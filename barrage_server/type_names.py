"""Arrow types as users write them: by name, as ``str(type)`` gives it, or class."""

from __future__ import annotations

import datetime
import decimal
import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from barrage_server.arguments import shown
from barrage_server.errors import UnsupportedTypeError

__all__ = ["TypeLike", "as_type", "parse_type"]

TypeLike: TypeAlias = pa.DataType | str | type | np.dtype[Any]
"""A type as users write it: Arrow's own; its name, such as ``"float64"`` or ``"timestamp[us, tz=UTC]"``; a numpy dtype;
or ``int``, ``float``, ``str``, ``bool``, ``bytes`` and the classes of :mod:`datetime`."""

_PYTHON_TYPES: Final[Mapping[type, pa.DataType]] = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bool: pa.bool_(),
    bytes: pa.binary(),
    datetime.datetime: pa.timestamp("us"),
    datetime.date: pa.date32(),
    datetime.time: pa.time64("us"),
    datetime.timedelta: pa.duration("us"),
}

_TOKEN: Final = re.compile(r"\s*([A-Za-z0-9_+\-/ ]*[A-Za-z0-9_+\-/]|[<>\[\](),:])")
_UNITS: Final[dict[str, Callable[[str], pa.DataType]]] = {
    "timestamp": pa.timestamp,
    "duration": pa.duration,
    "time32": pa.time32,
    "time64": pa.time64,
    "date32": lambda _unit: pa.date32(),
    "date64": lambda _unit: pa.date64(),
}
_ALIASES: Final = {"double": "float64", "float": "float32", "halffloat": "float16", "str": "string", "boolean": "bool"}
_INTEGERS: Final = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (64, 32, 16, 8))
_NAMES: Final = (*_INTEGERS, *_ALIASES, "float64", "float32", "float16", "string", "bool", "binary", "date32", "date64")
_ELSEWHERE: Final = {
    "byte": "int8",
    "bytes": "binary",
    "date": "date32",
    "datetime": "timestamp[us, tz=UTC]",
    "decimal": "decimal128(18, 4)",
    "decimal128": "decimal128(18, 4)",
    "duration": "duration[us]",
    "instant": "timestamp[ns, tz=UTC]",
    "int": "int64",
    "integer": "int64",
    "list": "list<int64>",
    "long": "int64",
    "object": "string",
    "short": "int16",
    "text": "string",
    "time": "time64[us]",
    "timedelta": "duration[us]",
    "timestamp": "timestamp[us, tz=UTC]",
    "varchar": "string",
}
"""Types by their names in other libraries, or without their parameters."""


def parse_type(text: str) -> pa.DataType:
    """The Arrow type with the name ``text``.

    Every name that ``str()`` returns for a supported type is understood: ``int64``, ``timestamp[us, tz=UTC]``,
    ``decimal128(10, 2)``, ``fixed_size_binary[16]``, ``list<item: int64>`` or just ``list<int64>``, ``struct<a: int64,
    b: string>``, ``map<string, int64>``.

    Raises:
        UnsupportedTypeError: there is no such type.
    """
    parser = _Parser(text)
    try:
        parsed = parser.type()
    except RecursionError:
        raise UnsupportedTypeError(f"{shown(text)} is nested deeper than any type is.") from None
    parser.end()
    return parsed


def as_type(kind: TypeLike, what: str) -> pa.DataType:
    """The Arrow type of ``kind``.

    Args:
        kind: what the caller passed.
        what: what has the type, as the beginning of a text: ``"Column 'price'"``.

    Raises:
        UnsupportedTypeError: there is no such type.
    """
    if isinstance(kind, pa.DataType):
        return kind
    if isinstance(kind, str):
        try:
            return parse_type(kind)
        except UnsupportedTypeError as error:
            raise UnsupportedTypeError(f"{what}: {error}") from None
    if isinstance(kind, type) and kind in _PYTHON_TYPES:
        return _PYTHON_TYPES[kind]
    if kind is decimal.Decimal:
        raise UnsupportedTypeError(f'{what}: decimals need their digits: write "decimal128(18, 4)".')
    if isinstance(kind, np.dtype) or (isinstance(kind, type) and issubclass(kind, np.generic)):
        try:
            return pa.from_numpy_dtype(kind)
        except (pa.ArrowException, TypeError):
            pass
    raise UnsupportedTypeError(
        f'{what}: {shown(kind)} is no type. Name an Arrow type, such as "float64", or pass int, float, str, bool, '
        f"bytes or a class of datetime."
    )


def _nearest(name: str) -> str:
    """The nearest known name, as the end of a text; empty without one."""
    wanted = _ELSEWHERE.get(name.lower())
    close = [wanted] if wanted else difflib.get_close_matches(name.lower(), _NAMES, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


class _Parser:
    """A reader of one type expression, token by token."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[str] = []
        position = 0
        stripped = text.rstrip().replace("=", ":")
        while position < len(stripped):
            match = _TOKEN.match(stripped, position)
            if match is None:
                raise self.error()
            self.tokens.append(match.group(1).strip())
            position = match.end()

    def error(self, name: str = "") -> UnsupportedTypeError:
        nearest = _nearest(name)
        return UnsupportedTypeError(
            f"{shown(self.text)} is not an Arrow type that is known here; examples: int64, double, string, bool, "
            f"date32, timestamp[us, tz=UTC], decimal128(10, 2), list<int64>, struct<a: int64, b: string>.{nearest}"
        )

    def peek(self) -> str:
        return self.tokens[0] if self.tokens else ""

    def take(self, expected: str | None = None) -> str:
        if not self.tokens or (expected is not None and self.tokens[0] != expected):
            raise self.error()
        return self.tokens.pop(0)

    def end(self) -> None:
        if self.tokens:
            raise self.error()

    def number(self) -> int:
        word = self.take()
        try:
            return int(word)
        except ValueError:
            raise self.error() from None

    def size(self) -> int:
        """A number in brackets."""
        self.take("[")
        size = self.number()
        self.take("]")
        if size < 0:  # which Arrow takes for no fixed size
            raise self.error()
        return size

    def type(self) -> pa.DataType:
        name = self.take()
        if not self.tokens and name.lower() in _ELSEWHERE:
            raise self.error(name)
        try:
            match name:
                case "list" | "large_list":
                    self.take("<")
                    field = self.field()
                    self.take(">")
                    return pa.list_(field) if name == "list" else pa.large_list(field)
                case "fixed_size_list":
                    self.take("<")
                    field = self.field()
                    self.take(">")
                    return pa.list_(field, self.size())
                case "struct":
                    return pa.struct(self.fields())
                case "map":
                    self.take("<")
                    key = self.field()
                    self.take(",")
                    item = self.field()
                    self.take(">")
                    return pa.map_(key.type, item.type)
                case "decimal" | "decimal32" | "decimal64" | "decimal128" | "decimal256":
                    self.take("(")
                    precision = self.number()
                    scale = 0
                    if self.peek() == ",":
                        self.take()
                        scale = self.number()
                    self.take(")")
                    make = getattr(pa, "decimal128" if name == "decimal" else name)
                    return make(precision, scale)
                case "fixed_size_binary":
                    return pa.binary(self.size())
            if name in _UNITS and self.peek() == "[":
                return self.with_unit(name)
            return pa.type_for_alias(_ALIASES.get(name, name))
        except (ValueError, OverflowError, pa.ArrowException, AttributeError):
            raise self.error(name) from None

    def with_unit(self, name: str) -> pa.DataType:
        self.take("[")
        unit = self.take()
        zone = None
        if self.peek() == ",":
            self.take()
            zone = self.take()
            if zone == "tz":
                self.take(":")
                zone = self.take()
            while self.peek() == ":":  # an offset such as +02:00
                zone += self.take() + self.take()
        self.take("]")
        return pa.timestamp(unit, tz=zone) if name == "timestamp" else _UNITS[name](unit)

    def field(self) -> pa.Field:
        """Parse ``name: type`` or ``type``, each optionally with ``not null``."""
        name = "item"
        if len(self.tokens) > 1 and self.tokens[1] == ":":
            name = self.take()
            self.take(":")
        nullable = True
        if self.peek().endswith(" not null"):
            nullable = False
            self.tokens[0] = self.tokens[0].removesuffix(" not null")
        parsed = self.type()
        if self.peek() == "not null":
            self.take()
            nullable = False
        return pa.field(name, parsed, nullable=nullable)

    def fields(self) -> list[pa.Field]:
        self.take("<")
        fields = [self.field()]
        while self.peek() == ",":
            self.take()
            fields.append(self.field())
        self.take(">")
        return fields

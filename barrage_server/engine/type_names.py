"""Arrow types by name: the inverse of ``str(type)``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import pyarrow as pa

from barrage_server.arguments import shown
from barrage_server.errors import UnsupportedTypeError

__all__ = ["parse_type"]

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

    def error(self) -> UnsupportedTypeError:
        return UnsupportedTypeError(
            f"{shown(self.text)} is not an Arrow type that is known here; examples: int64, double, string, bool, "
            "date32, timestamp[us, tz=UTC], decimal128(10, 2), list<int64>, struct<a: int64, b: string>."
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

    def type(self) -> pa.DataType:
        name = self.take()
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
                    self.take("[")
                    size = self.number()
                    self.take("]")
                    return pa.list_(field, size)
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
                    self.take("[")
                    width = self.number()
                    self.take("]")
                    return pa.binary(width)
            if name in _UNITS and self.peek() == "[":
                return self.with_unit(name)
            return pa.type_for_alias(_ALIASES.get(name, name))
        except (ValueError, pa.ArrowException, AttributeError):
            raise self.error() from None

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

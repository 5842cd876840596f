"""Messages that are one JSON object: dataclasses, whose fields define the encoding.

A field is a string, a 64-bit integer, a boolean, a list of strings or of such integers (``tuple[str, ...]``), a member
of a ``StrEnum``, an Arrow schema, a further such dataclass, or a list of them. A field without a default is required.
For others an absent field and a null mean the default, and None is omitted. ``Annotated`` adds :class:`AtLeast` to
numbers, :data:`MAY_BE_EMPTY` to strings, and to an enumeration the name of its values in errors.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Final, Self, TypeVar

import pyarrow as pa

from barrage_server.errors import WireFormatError
from barrage_server.wire.json_object import JsonObject, json_bytes, schema_to_base64

__all__ = ["MAY_BE_EMPTY", "REQUIRED", "AtLeast", "JsonMessage", "json_fields", "read_json_fields"]

REQUIRED: Final[Mapping[str, bool]] = {"required": True}
"""Metadata of a field that must be sent although it has a default in Python."""

MAY_BE_EMPTY: Final = object()
"""In ``Annotated``: the string may be empty."""

Message = TypeVar("Message")


@dataclass(frozen=True, slots=True)
class AtLeast:
    """The range of a number. ``text`` begins the error for numbers below it."""

    minimum: int
    text: str


class JsonMessage:
    """Base of the frozen dataclasses that are JSON objects on the wire.

    Attributes:
        message_name: name of the message in errors.
        refuses_others: whether unknown fields are refused, as in requests. Results ignore them, so that newer servers
            may add fields.

    """

    __slots__ = ()

    message_name: ClassVar[str]
    refuses_others: ClassVar[bool] = True

    def to_json(self) -> bytes:
        """The JSON of this message; a schema is base64 of its encapsulated IPC message."""
        return json_bytes(json_fields(self))

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Read :meth:`to_json`.

        Raises:
            WireFormatError: a field is missing, unknown, of another type, or out of its range; the text names it.
            UnsupportedTypeError: a schema has unsupported types.
            LimitError: a request has too many values.

        """
        is_request = cls.refuses_others
        fields = JsonObject.parse(data, cls.message_name, is_request=is_request)
        message = read_json_fields(cls, fields, refuse_others=is_request)
        message.check()
        return message

    def check(self) -> None:
        """Raise WireFormatError when fields of a received message contradict each other."""


def json_fields(message: object) -> dict[str, object]:
    """The fields of a dataclass as JSON values."""
    return {entry.name: _json_value(getattr(message, entry.name)) for entry in dataclasses.fields(message)}  # type: ignore[arg-type]


def _json_value(value: object) -> object:
    if isinstance(value, pa.Schema):
        return schema_to_base64(value)
    if isinstance(value, tuple) and any(map(dataclasses.is_dataclass, value)):
        fields = map(json_fields, value)
        return [{name: part for name, part in each.items() if part is not None} for each in fields]
    return value


def read_json_fields(kind: type[Message], fields: JsonObject, *, refuse_others: bool) -> Message:
    """The dataclass ``kind`` with the values of ``fields``.

    Raises:
        WireFormatError: a field is missing, of another type, or out of its range; or unknown, if others are refused.
        UnsupportedTypeError: a schema has unsupported types.

    """
    readers = _readers(typing.cast("Any", kind))
    if refuse_others:
        fields.refuse_others(readers)
    return kind(
        **{name: read(fields, name) for name, (read, required) in readers.items() if required or name in fields}
    )


_Reader = Callable[[JsonObject, str], Any]
_READERS: Final[dict[object, _Reader]] = {
    str: JsonObject.text,
    int: JsonObject.integer,
    bool: JsonObject.boolean,
    tuple[str, ...]: JsonObject.texts,
    tuple[int, ...]: JsonObject.integers,
    pa.Schema: JsonObject.schema,
}


@functools.cache
def _readers(kind: type) -> dict[str, tuple[_Reader, bool]]:
    """For each field, the reader of its value, and whether it is required."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return {
        entry.name: (
            _reader(entry.name, hints[entry.name]),
            "required" in entry.metadata or entry.default is dataclasses.MISSING,
        )
        for entry in dataclasses.fields(kind)
    }


def _reader(name: str, hint: Any) -> _Reader:
    notes: tuple[object, ...] = ()
    while True:
        if typing.get_origin(hint) is typing.Annotated:
            hint, *more = typing.get_args(hint)
            notes += tuple(more)
        elif typing.get_origin(hint) in (typing.Union, types.UnionType):
            (hint,) = (part for part in typing.get_args(hint) if part is not types.NoneType)
        else:
            break
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        called = next((note for note in notes if isinstance(note, str)), name)
        return functools.partial(_member, hint, called)
    if hint not in _READERS and typing.get_origin(hint) is tuple:
        return functools.partial(_objects, typing.get_args(hint)[0])
    if dataclasses.is_dataclass(hint):
        return functools.partial(_object, hint)
    reader = JsonObject.any_text if MAY_BE_EMPTY in notes else _READERS[hint]
    for note in notes:
        if isinstance(note, AtLeast):
            reader = functools.partial(_at_least, note)
    return reader


def _member(kind: type[StrEnum], called: str, fields: JsonObject, name: str) -> StrEnum:
    text = fields.text(name)
    try:
        return kind(text)
    except ValueError as error:
        raise WireFormatError(f"{called} {text!r} is unknown; use one of {', '.join(kind)}") from error


def _object(kind: Any, fields: JsonObject, name: str) -> Any:
    found = fields.optional_object(name)
    return None if found is None else read_json_fields(kind, found, refuse_others=True)


def _objects(kind: type[Any], fields: JsonObject, name: str) -> tuple[Any, ...]:
    return tuple(read_json_fields(kind, each, refuse_others=True) for each in fields.objects(name))


def _at_least(limit: AtLeast, fields: JsonObject, name: str) -> int:
    number = fields.integer(name)
    if number < limit.minimum:
        raise WireFormatError(f"{limit.text}, got {number}")
    return number

"""JSON objects from the other side, read field by field with checks."""

from __future__ import annotations

import base64
import binascii
import difflib
import json
from collections.abc import Collection, Mapping
from typing import Final

import pyarrow as pa

from barrage_server.errors import LimitError, WireFormatError
from barrage_server.wire.arrow_message import read_schema

__all__ = ["MOST_VALUES", "JsonObject", "json_bytes", "schema_from_base64", "schema_to_base64"]

MAX_JSON_BYTES = 64 * 1024 * 1024
MOST_VALUES: Final = 200_000
"""Values of a request: no thread runs while they are read."""
_INT64 = 1 << 63


class JsonObject:
    """A JSON object whose fields are read by name and type; WireFormatError names a wrong field.

    Other fields are ignored, so that newer servers may add some; requests refuse them.
    """

    __slots__ = ("_fields", "_what")

    def __init__(self, fields: Mapping[str, object], what: str) -> None:
        self._fields = fields
        self._what = what

    @classmethod
    def parse(cls, data: bytes | str, what: str, *, is_request: bool = False) -> JsonObject:
        """Parse UTF-8 JSON.

        Args:
            data: the JSON.
            what: names the message in error texts.
            is_request: whether it is from a caller, and not from a server that this process has asked.

        Raises:
            WireFormatError: it is not one JSON object.
            LimitError: a request has more values than :data:`MOST_VALUES`.

        """
        if is_request and (values := _most_values(data)) > MOST_VALUES:
            raise LimitError(f"{what}: it may have {MOST_VALUES:,} values, and has up to {values:,}; send less at once")
        if len(data) > MAX_JSON_BYTES:
            raise WireFormatError(f"{what}: {len(data)} bytes of JSON are more than the {MAX_JSON_BYTES} allowed")
        try:
            value = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise WireFormatError(f"{what}: not valid JSON; send one UTF-8 JSON object") from error
        if not isinstance(value, dict):
            raise WireFormatError(f"{what}: expected a JSON object, got {_json_type(value)}")
        return cls(value, what)

    def __contains__(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def _wrong(self, name: str, expected: str) -> WireFormatError:
        if self._fields.get(name) is None:
            return WireFormatError(f"{self._what}: field {name!r} is missing; expected {expected}")
        return WireFormatError(f"{self._what}: field {name!r} must be {expected}, got {_json_type(self._fields[name])}")

    def refuse_others(self, known: Collection[str]) -> None:
        """Raise WireFormatError for a field that is not ``known``: a misspelt option would have no effect."""
        for name in self._fields:
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                others = f"there are {', '.join(known)}" if known else "it has no fields"
                hint = f"did you mean {close[0]!r}?" if close else others
                raise WireFormatError(f"{self._what}: unknown field {name[:100]!r}; {hint}")

    def text(self, name: str) -> str:
        """A string that is not empty."""
        value = self._fields.get(name)
        if not isinstance(value, str) or not value:
            raise self._wrong(name, "a string that is not empty")
        return value

    def any_text(self, name: str) -> str:
        """A string, which may be empty."""
        value = self._fields.get(name)
        if not isinstance(value, str):
            raise self._wrong(name, "a string")
        return value

    def integer(self, name: str) -> int:
        """An integer within int64."""
        value = self._fields.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not -_INT64 <= value < _INT64:
            raise self._wrong(name, "a 64-bit integer")
        return value

    def boolean(self, name: str) -> bool:
        """``true`` or ``false``."""
        value = self._fields.get(name)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def without(self, name: str, what: str) -> JsonObject:
        """The other fields, as those of the message ``what``."""
        return JsonObject({key: value for key, value in self._fields.items() if key != name}, what)

    def integers(self, name: str) -> tuple[int, ...]:
        """A list of integers within int64."""
        value = self._fields.get(name)
        if not isinstance(value, list) or not all(type(item) is int and -_INT64 <= item < _INT64 for item in value):
            raise self._wrong(name, "a list of 64-bit integers")
        return tuple(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings."""
        value = self._fields.get(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._wrong(name, "a list of strings")
        return tuple(value)

    def optional_object(self, name: str) -> JsonObject | None:
        """A nested object, or None when the field is absent or null."""
        if name not in self:
            return None
        value = self._fields[name]
        if not isinstance(value, dict):
            raise self._wrong(name, "an object")
        return JsonObject(value, f"{self._what}.{name}")

    def objects(self, name: str) -> list[JsonObject]:
        """A list of nested objects."""
        value = self._fields.get(name)
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self._wrong(name, "a list of objects")
        return [JsonObject(item, f"{self._what}.{name}[{number}]") for number, item in enumerate(value)]

    def schema(self, name: str) -> pa.Schema:
        """An Arrow schema as base64 of its encapsulated IPC message; WireFormatError when the field has none."""
        if name not in self:
            raise WireFormatError(
                f"{self._what}: field {name!r} is missing; send base64 of the Arrow schema's IPC message"
            )
        return schema_from_base64(self.text(name), f"{self._what}: field {name!r}")


def json_bytes(fields: Mapping[str, object]) -> bytes:
    """Compact UTF-8 JSON of an object; fields that are None are omitted."""
    present = {name: value for name, value in fields.items() if value is not None}
    return json.dumps(present, separators=(",", ":")).encode()


def schema_to_base64(schema: pa.Schema) -> str:
    """Base64 of the schema's encapsulated IPC message."""
    return base64.b64encode(schema.serialize()).decode("ascii")


def schema_from_base64(text: str, what: str) -> pa.Schema:
    """The schema of :func:`schema_to_base64`.

    Raises:
        WireFormatError: the text is not a schema, or damaged.
        UnsupportedTypeError: the schema has unsupported types.
    """
    try:
        return read_schema(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, WireFormatError) as error:
        raise WireFormatError(f"{what}: not an Arrow schema; send base64 of the encapsulated IPC message") from error


def _most_values(data: bytes | str) -> int:
    """A number that the values of a JSON text do not exceed: each but the first follows a comma or a bracket."""
    if isinstance(data, str):
        return 1 + data.count(",") + data.count("[") + data.count("{")
    return 1 + data.count(b",") + data.count(b"[") + data.count(b"{")


def _json_type(value: object) -> str:
    if value is None:
        return "null"
    names: dict[type, str] = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}
    return names.get(type(value), "a number")

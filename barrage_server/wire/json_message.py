"""Messages that are one JSON object, encoded by the fields of dataclasses.

``barrage_server.typed_json`` writes and reads the fields. A field without a default is required. For other fields,
absence and null mean the default, and None is omitted. An Arrow schema is base64 of its encapsulated IPC message.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self

import pyarrow as pa

from barrage_server.errors import LimitError, WireFormatError
from barrage_server.typed_json import OwnForm, TypedJson
from barrage_server.wire.arrow_message import read_schema

__all__ = [
    "MESSAGES",
    "MOST_VALUES",
    "JsonMessage",
    "json_bytes",
    "json_text",
    "parse_object",
    "schema_from_base64",
    "schema_to_base64",
]

_SURROGATE: Final = r"\\u[dD][89a-fA-F]"
_SURROGATE_TEXT: Final = re.compile(_SURROGATE)
_SURROGATE_BYTES: Final = re.compile(_SURROGATE.encode())
MAX_JSON_BYTES = 64 * 1024 * 1024
MOST_VALUES: Final = 200_000
"""The most values of a request: ``json.loads`` holds the interpreter's lock while it reads them."""


class JsonMessage:
    """Base of the frozen dataclasses that are JSON objects on the wire.

    Attributes:
        message_name: name of the message in errors.
        refuses_others: whether unknown fields are refused, as in requests. Results ignore unknown fields, so that newer
            servers may add some.

    """

    __slots__ = ()

    message_name: ClassVar[str]
    refuses_others: ClassVar[bool] = True

    def to_json(self) -> bytes:
        """Encode this message as JSON.

        Raises:
            WireFormatError: a field has a value that is not of its type.

        """
        return json_bytes(MESSAGES.written_fields(self, f"{self.message_name}: "))

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Decode the JSON of a message.

        Raises:
            WireFormatError: a field is missing, unknown, of another type, or out of its range; the text names it.
            UnsupportedTypeError: a schema has unsupported types.
            LimitError: a request has too many values.

        """
        fields = parse_object(data, cls.message_name, is_request=cls.refuses_others)
        return cls.of_fields(fields, cls.message_name)

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any], what: str) -> Self:
        """Make the message from its fields. Raises what :meth:`from_json` does.

        Args:
            fields: the fields of the JSON object.
            what: names the message in errors.

        """
        message: Self = MESSAGES.object_of(cls, fields, f"{what}: ", refuse_others=cls.refuses_others)
        message.check()
        return message

    def check(self) -> None:
        """Raise WireFormatError when fields of a received message contradict each other."""


def parse_object(
    data: bytes | str, what: str, *, is_request: bool = False, broken_texts: bool = False
) -> dict[str, Any]:
    """Parse the fields of one JSON object.

    Args:
        data: UTF-8 JSON.
        what: names the message in error texts.
        is_request: whether the JSON comes from a caller, and not from a server that this process calls.
        broken_texts: whether texts of a request may have half of a surrogate pair, which their reader refuses.

    Raises:
        WireFormatError: ``data`` is not one JSON object, or a text of a request has half of a surrogate pair.
        LimitError: a request has more values than :data:`MOST_VALUES`.

    """
    if is_request and (values := _most_values(data)) > MOST_VALUES:
        raise LimitError(f"{what}: it may have {MOST_VALUES:,} values, and has up to {values:,}; send less at once")
    if len(data) > MAX_JSON_BYTES:
        raise WireFormatError(f"{what}: {len(data)} bytes of JSON are more than the {MAX_JSON_BYTES} allowed")
    try:
        value = json.loads(data)
        if is_request and not broken_texts and _may_be_broken(data):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeError as error:
        raise WireFormatError(f"{what}: not valid UTF-8; send one UTF-8 JSON object, of whole characters") from error
    except (ValueError, RecursionError) as error:
        raise WireFormatError(f"{what}: not valid JSON; send one UTF-8 JSON object") from error
    if not isinstance(value, dict):
        raise WireFormatError(f"{what}: expected a JSON object, got {_json_type(value)}")
    return value


def json_bytes(fields: Mapping[str, object]) -> bytes:
    """Encode an object as compact UTF-8 JSON."""
    return json_text(fields).encode()


def json_text(fields: Mapping[str, object]) -> str:
    """Encode an object as compact JSON, in ASCII."""
    return json.dumps(fields, separators=(",", ":"))


def schema_to_base64(schema: pa.Schema) -> str:
    """Encode a schema as base64 of its encapsulated IPC message."""
    return base64.b64encode(schema.serialize()).decode("ascii")


def schema_from_base64(text: str, what: str) -> pa.Schema:
    """Decode the schema of :func:`schema_to_base64`.

    Raises:
        WireFormatError: the text is damaged, or not a schema.
        UnsupportedTypeError: the schema has unsupported types.

    """
    try:
        return read_schema(base64.b64decode(text, validate=True))
    except (ValueError, WireFormatError) as error:
        raise WireFormatError(f"{what}: not an Arrow schema; send base64 of the encapsulated IPC message") from error


MESSAGES: Final = TypedJson(
    WireFormatError,
    with_defaults=True,
    null_is_absent=True,
    empty_texts=False,
    broken_texts=True,
    own={pa.Schema: OwnForm("base64 of the Arrow schema's IPC message", schema_to_base64, schema_from_base64)},
)
"""How the fields of messages are written and read."""


def _most_values(data: bytes | str) -> int:
    """Return an upper bound of the values in a JSON text.

    Each value but the first follows a comma or a bracket.
    """
    if isinstance(data, str):
        return 1 + data.count(",") + data.count("[") + data.count("{")
    return 1 + data.count(b",") + data.count(b"[") + data.count(b"{")


def _may_be_broken(data: bytes | str) -> bool:
    """Whether texts of a JSON text may have half of a surrogate pair."""
    if not data.isascii():
        return True
    found = _SURROGATE_TEXT.search(data) if isinstance(data, str) else _SURROGATE_BYTES.search(data)
    return found is not None


def _json_type(value: object) -> str:
    if value is None:
        return "null"
    names: dict[type, str] = {list: "a list", str: "a string", bool: "a boolean"}
    return names.get(type(value), "a number")

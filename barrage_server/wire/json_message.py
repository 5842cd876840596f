"""Messages that are one JSON object: dataclasses, whose fields define the encoding.

``barrage_server.typed_json`` writes and reads the fields. A field without a default is required. For others an absent
field and a null mean the default, and None is omitted. An Arrow schema is base64 of its encapsulated IPC message.
"""

from __future__ import annotations

import base64
import binascii
import json
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
    "parse_object",
    "schema_from_base64",
    "schema_to_base64",
]

MAX_JSON_BYTES = 64 * 1024 * 1024
MOST_VALUES: Final = 200_000
"""Values of a request: no thread runs while they are read."""


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
        """The JSON of this message.

        Raises:
            WireFormatError: a field has a value that is not of its type.

        """
        return json_bytes(MESSAGES.written_fields(self, f"{self.message_name}: "))

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Read :meth:`to_json`.

        Raises:
            WireFormatError: a field is missing, unknown, of another type, or out of its range; the text names it.
            UnsupportedTypeError: a schema has unsupported types.
            LimitError: a request has too many values.

        """
        fields = parse_object(data, cls.message_name, is_request=cls.refuses_others)
        return cls.of_fields(fields, cls.message_name)

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any], what: str) -> Self:
        """The message with these fields, which errors name ``what``. Raises what :meth:`from_json` does."""
        message: Self = MESSAGES.object_of(cls, fields, f"{what}: ", refuse_others=cls.refuses_others)
        message.check()
        return message

    def check(self) -> None:
        """Raise WireFormatError when fields of a received message contradict each other."""


def parse_object(data: bytes | str, what: str, *, is_request: bool = False) -> dict[str, Any]:
    """The fields of one JSON object.

    Args:
        data: UTF-8 JSON.
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
    return value


def json_bytes(fields: Mapping[str, object]) -> bytes:
    """Compact UTF-8 JSON of an object."""
    return json.dumps(fields, separators=(",", ":")).encode()


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
    """A number that the values of a JSON text do not exceed: each but the first follows a comma or a bracket."""
    if isinstance(data, str):
        return 1 + data.count(",") + data.count("[") + data.count("{")
    return 1 + data.count(b",") + data.count(b"[") + data.count(b"{")


def _json_type(value: object) -> str:
    if value is None:
        return "null"
    names: dict[type, str] = {list: "a list", str: "a string", bool: "a boolean"}
    return names.get(type(value), "a number")

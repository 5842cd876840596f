"""This project's additions to Barrage: publishing by commit, and further actions.

All messages are JSON objects; fields that are None are omitted.

There are three ways to publish:

- A plain ``DoPut`` to ``["scope", name]`` or ``[name]``: the batches become one delta when the client half-closes.
  :class:`PutOptions` may be app_metadata of the first message (``{"barrage": {...}}``) or, for stock clients, the
  value of :data:`PUT_OPTIONS_KEY` in the schema metadata.
- A ticking ``DoPut``, whose first app_metadata is a Barrage ``PublicationRequest``: every message is an update of the
  table. A message with the app_metadata :data:`FLUSH` and no rows requests the number of updates applied.
- Staging and commit: a ``DoPut`` with the command :data:`STAGE_COMMAND` stages rows, which a commit then makes visible,
  once. Their messages are those of :mod:`~barrage_server.wire.commit_messages`.

A request with an unknown field is refused, because a misspelt ``key`` would create another kind of table. Unknown
fields of results are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar, Final

import pyarrow as pa

from barrage_server.public import public
from barrage_server.typed_json import AtLeast
from barrage_server.wire.json_message import MESSAGES, JsonMessage, json_bytes, parse_object

__all__ = [
    "ABORT_ACTION",
    "COMMIT_ACTION",
    "CREATE_ACTION",
    "DROP_ACTION",
    "FLUSH",
    "HEALTH_ACTION",
    "KEEP_ACTION",
    "LAST_BATCH_ACTION",
    "PUT_OPTIONS_FIELD",
    "PUT_OPTIONS_KEY",
    "STAGE_COMMAND",
    "STATISTICS_ACTION",
    "TABLES_ACTION",
    "CreateRequest",
    "DropRequest",
    "PublicationResult",
    "PublishMode",
    "PutOptions",
    "PutResult",
    "TableKind",
]

COMMIT_ACTION: Final = "barrage.commit"
"""Action: ``CommitRequest`` -> ``CommitResult``."""
ABORT_ACTION: Final = "barrage.abort"
"""Action: ``AbortRequest`` -> ``AbortResult``."""
KEEP_ACTION: Final = "barrage.keep"
"""Action: ``KeepRequest`` -> ``KeepResult``."""
LAST_BATCH_ACTION: Final = "barrage.last_batch"
"""Action: ``LastBatchRequest`` -> ``LastBatchResult``."""
CREATE_ACTION: Final = "barrage.create"
"""Action: :class:`CreateRequest` -> ``{}``."""
DROP_ACTION: Final = "barrage.drop"
"""Action: :class:`DropRequest` -> ``{}``."""
HEALTH_ACTION: Final = "barrage.health"
"""Action: an empty body -> the state of the server. Only servers of this project have it."""
TABLES_ACTION: Final = "barrage.tables"
"""Action: an empty body -> a result for each table: Flight's ``FlightInfo`` message, as in ``ListFlights``."""
STATISTICS_ACTION: Final = "barrage.statistics"
"""Action: ``{}`` -> a JSON object with the statistics."""
FLUSH: Final = b"barrage-flush"
"""app_metadata in a ticking ``DoPut`` that the server answers when all earlier updates are applied."""
STAGE_COMMAND: Final = b"barrage.stage"
"""``FlightDescriptor.cmd`` of a staging ``DoPut``."""
PUT_OPTIONS_KEY: Final = b"barrage:put"
"""Key in the schema metadata for :class:`PutOptions` of stock clients, as JSON without the outer field."""
PUT_OPTIONS_FIELD: Final = "barrage"
"""Outer JSON field of :class:`PutOptions` in app_metadata."""


@public
class PublishMode(StrEnum):
    """How a published delta applies to the existing rows.

    ``APPEND`` adds rows at the end; ``UPSERT`` inserts rows, or overwrites rows with the same key; ``REPLACE`` makes
    the rows the whole content; ``DELETE`` removes the rows with the given keys.
    """

    APPEND = "append"
    UPSERT = "upsert"
    REPLACE = "replace"
    DELETE = "delete"


@public
class TableKind(StrEnum):
    """Kinds of source tables that a publisher can create.

    ``APPEND``: rows are added at the end. ``RING``: like ``APPEND``, with the last rows up to a capacity. ``BLINK``:
    rows live for one cycle. ``KEYED``: one row per key. ``REPLACED``: no key; the content is replaced as a whole.
    """

    APPEND = "append"
    RING = "ring"
    BLINK = "blink"
    KEYED = "keyed"
    REPLACED = "replaced"


Capacity = Annotated[int, AtLeast(1, "capacity must be a positive number of rows")]
Rows = Annotated[int, AtLeast(0, "rows must not be negative")]


@dataclass(frozen=True, slots=True)
class PutOptions:
    """How a plain ``DoPut`` is applied; by default append, or upsert for keys."""

    mode: PublishMode | None = None
    key: tuple[str, ...] | None = None
    kind: TableKind | None = None
    capacity: Capacity | None = None

    def to_json(self) -> bytes:
        """Encode app_metadata of the first message: ``{"barrage": {...}}``."""
        inner = self.to_schema_metadata().decode()
        return f'{{"{PUT_OPTIONS_FIELD}":{inner}}}'.encode()

    def to_schema_metadata(self) -> bytes:
        """Encode the value of :data:`PUT_OPTIONS_KEY` in the schema metadata."""
        return json_bytes(MESSAGES.written_fields(self, "put options: "))

    @classmethod
    def from_json(cls, data: bytes) -> PutOptions | None:
        """Decode options in app_metadata; None for JSON without the field ``barrage``."""
        fields = parse_object(data, "put options", is_request=True)
        options: PutOptions | None = MESSAGES.read(
            fields.get(PUT_OPTIONS_FIELD), PutOptions | None, f"put options: {PUT_OPTIONS_FIELD}"
        )
        return options

    @classmethod
    def from_schema_metadata(cls, data: bytes) -> PutOptions:
        """Decode the value of :data:`PUT_OPTIONS_KEY` in the schema metadata."""
        what = "put options in the schema metadata"
        options: PutOptions = MESSAGES.object_of(cls, parse_object(data, what, is_request=True), f"{what}: ")
        return options


@dataclass(frozen=True, slots=True)
class PutResult(JsonMessage):
    """``PutResult`` metadata of a plain ``DoPut``.

    Attributes:
        table: the table's name.
        rows: the number of rows applied.
        step: the step of their cycle.

    """

    message_name: ClassVar[str] = "put result"
    refuses_others: ClassVar[bool] = False

    table: str
    rows: Rows
    step: int


@dataclass(frozen=True, slots=True)
class PublicationResult(JsonMessage):
    """``PutResult`` metadata of a ticking ``DoPut``.

    Attributes:
        table: the table's name.
        updates: the number of updates applied.
        step: the step of the last one.

    """

    message_name: ClassVar[str] = "the server's answer to a publication"
    refuses_others: ClassVar[bool] = False

    table: str
    updates: int
    step: int


@dataclass(frozen=True, slots=True)
class CreateRequest(JsonMessage):
    """Create an empty table, unless one of the same kind, schema and keys exists.

    ``durable``: whether the server's data directory keeps it; None: if there is one and the kind allows.
    """

    message_name: ClassVar[str] = "create request"

    table: str
    schema: pa.Schema
    kind: TableKind | None = None
    key: tuple[str, ...] | None = None
    capacity: Capacity | None = None
    durable: bool | None = None


@dataclass(frozen=True, slots=True)
class DropRequest(JsonMessage):
    """Drop a table; the streams of its subscribers end with an error."""

    message_name: ClassVar[str] = "drop request"

    table: str

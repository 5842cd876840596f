"""Names and messages of what this project adds to Barrage: publishing by commit, and administrative actions.

Both ends import these, so that a name is spelled once. All messages are JSON objects; fields that are None are left
out, and unknown fields are ignored.

Three ways lead in:

- A plain ``DoPut`` to ``["scope", name]`` or ``[name]``: the batches become one delta when the client half-closes.
  :class:`PutOptions` may travel as app_metadata of the first message (``{"barrage": {...}}``) or, for stock clients,
  under :data:`PUT_OPTIONS_KEY` in the schema metadata.
- A ticking ``DoPut``, whose first app_metadata is a Barrage ``PublicationRequest``: every message is an update of the
  table. A message with the app_metadata :data:`FLUSH` and no rows asks how many of them are applied.
- Staging and commit: a ``DoPut`` with the command :data:`STAGE_COMMAND` whose first message carries a
  :class:`StageRequest` and which ends with :class:`StageEnd`; the server answers :class:`StageResult`. A
  :class:`CommitRequest` then makes staged data visible, once.

A request with a field that is unknown is refused: a misspelt ``key`` would otherwise make another table. Fields of
results that are unknown are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import pyarrow as pa

from barrage_server.errors import WireFormatError
from barrage_server.public import public
from barrage_server.wire.json_object import JsonObject, json_bytes, schema_to_base64

__all__ = [
    "ABORT_ACTION",
    "COMMIT_ACTION",
    "CREATE_ACTION",
    "DROP_ACTION",
    "FLUSH",
    "HEALTH_ACTION",
    "LAST_BATCH_ACTION",
    "PUT_OPTIONS_FIELD",
    "PUT_OPTIONS_KEY",
    "STAGE_COMMAND",
    "STATISTICS_ACTION",
    "TABLES_ACTION",
    "AbortRequest",
    "AbortResult",
    "CommitRequest",
    "CommitResult",
    "CreateRequest",
    "DropRequest",
    "LastBatchRequest",
    "LastBatchResult",
    "PublishMode",
    "PutOptions",
    "StageEnd",
    "StageRequest",
    "StageResult",
    "TableKind",
]

COMMIT_ACTION: Final = "barrage.commit"
"""Action: :class:`CommitRequest` -> :class:`CommitResult`."""
ABORT_ACTION: Final = "barrage.abort"
"""Action: :class:`AbortRequest` -> :class:`AbortResult`."""
LAST_BATCH_ACTION: Final = "barrage.last_batch"
"""Action: :class:`LastBatchRequest` -> :class:`LastBatchResult`."""
CREATE_ACTION: Final = "barrage.create"
"""Action: :class:`CreateRequest` -> ``{}``."""
DROP_ACTION: Final = "barrage.drop"
"""Action: :class:`DropRequest` -> ``{}``."""
HEALTH_ACTION: Final = "barrage.health"
"""Action: an empty body -> whether the server serves. Servers that know it are of this project."""
TABLES_ACTION: Final = "barrage.tables"
"""Action: an empty body -> a result for each table: Flight's ``FlightInfo`` message, as ``ListFlights`` gives it."""
STATISTICS_ACTION: Final = "barrage.statistics"
"""Action: ``{}`` -> a JSON object of figures."""
FLUSH: Final = b"barrage-flush"
"""app_metadata within a ticking ``DoPut``: answered once every update that came before it is applied."""
STAGE_COMMAND: Final = b"barrage.stage"
"""``FlightDescriptor.cmd`` of a ``DoPut`` that stages."""
PUT_OPTIONS_KEY: Final = b"barrage:put"
"""Schema metadata key under which a stock client can send :class:`PutOptions` (their JSON without the outer field)."""
PUT_OPTIONS_FIELD: Final = "barrage"
"""Outer JSON field of :class:`PutOptions` in app_metadata."""


_SINGLE_WRITE: Final = "write-"


def single_write_publisher(identity: str) -> str:
    """The publisher name of a single write, which ``identity`` tells from all others."""
    return _SINGLE_WRITE + identity


def is_single_write(publisher: str) -> bool:
    """Whether a publisher has a name of :func:`single_write_publisher`: it has one batch, and does not come back."""
    return publisher.startswith(_SINGLE_WRITE)


@public
class PublishMode(StrEnum):
    """What a published delta does to the rows that are there."""

    APPEND = "append"
    UPSERT = "upsert"
    REPLACE = "replace"
    DELETE = "delete"


@public
class TableKind(StrEnum):
    """Kinds of source tables that a publisher can ask for."""

    APPEND = "append"
    RING = "ring"
    BLINK = "blink"
    KEYED = "keyed"
    REPLACED = "replaced"


def _mode(fields: JsonObject) -> PublishMode | None:
    text = fields.optional_text("mode")
    try:
        return None if text is None else PublishMode(text)
    except ValueError as error:
        raise WireFormatError(f"mode {text!r} is unknown; use one of {', '.join(PublishMode)}") from error


def _kind(fields: JsonObject) -> TableKind | None:
    text = fields.optional_text("kind")
    try:
        return None if text is None else TableKind(text)
    except ValueError as error:
        raise WireFormatError(f"table kind {text!r} is unknown; use one of {', '.join(TableKind)}") from error


def _capacity(fields: JsonObject) -> int | None:
    capacity = fields.optional_integer("capacity")
    if capacity is not None and capacity <= 0:
        raise WireFormatError(f"capacity must be a positive number of rows, got {capacity}")
    return capacity


def _rows(fields: JsonObject) -> int:
    rows = fields.integer("rows")
    if rows < 0:
        raise WireFormatError(f"rows must not be negative, got {rows}")
    return rows


@dataclass(frozen=True, slots=True)
class PutOptions:
    """How a plain ``DoPut`` is applied. None everywhere means: append, or upsert when the table has keys."""

    mode: PublishMode | None = None
    key: tuple[str, ...] | None = None
    kind: TableKind | None = None
    capacity: int | None = None

    def to_json(self) -> bytes:
        """app_metadata of the first message: ``{"barrage": {...}}``."""
        inner = self.to_schema_metadata().decode()
        return f'{{"{PUT_OPTIONS_FIELD}":{inner}}}'.encode()

    def to_schema_metadata(self) -> bytes:
        """The value for :data:`PUT_OPTIONS_KEY` in the schema metadata."""
        return json_bytes({"mode": self.mode, "key": self.key, "kind": self.kind, "capacity": self.capacity})

    @classmethod
    def from_json(cls, data: bytes) -> PutOptions | None:
        """Options in app_metadata; None when the JSON object has no ``barrage`` field (it is the user's own)."""
        fields = JsonObject.parse(data, "put options").optional_object(PUT_OPTIONS_FIELD)
        return None if fields is None else cls._of(fields)

    @classmethod
    def from_schema_metadata(cls, data: bytes) -> PutOptions:
        """Options under :data:`PUT_OPTIONS_KEY` in the schema metadata."""
        return cls._of(JsonObject.parse(data, "put options in the schema metadata"))

    @classmethod
    def _of(cls, fields: JsonObject) -> PutOptions:
        fields.refuse_others(cls.__slots__)
        return cls(_mode(fields), fields.optional_texts("key"), _kind(fields), _capacity(fields))


@dataclass(frozen=True, slots=True)
class StageRequest:
    """First app_metadata of a staging ``DoPut``: who stages what. ``attempt`` tells repeated task attempts apart."""

    publisher: str
    table: str
    batch: int
    attempt: str

    def to_json(self) -> bytes:
        """The JSON of this message."""
        fields = {"publisher": self.publisher, "table": self.table, "batch": self.batch, "attempt": self.attempt}
        return json_bytes(fields)

    @classmethod
    def from_json(cls, data: bytes) -> StageRequest:
        """Read :meth:`to_json`; WireFormatError names what is wrong."""
        fields = JsonObject.parse(data, "stage request")
        fields.refuse_others(cls.__slots__)
        return cls(fields.text("publisher"), fields.text("table"), fields.integer("batch"), fields.text("attempt"))


@dataclass(frozen=True, slots=True)
class StageEnd:
    """Last app_metadata of a staging ``DoPut``: without it, or with another row count, what was sent is dropped."""

    rows: int

    def to_json(self) -> bytes:
        """``{"end": true, "rows": n}``."""
        return json_bytes({"end": True, "rows": self.rows})

    @classmethod
    def from_json(cls, data: bytes) -> StageEnd:
        """Read :meth:`to_json`; WireFormatError when it is anything but an end marker."""
        fields = JsonObject.parse(data, "end of staging")
        if not fields.boolean("end"):
            raise WireFormatError('end of staging: field "end" must be true')
        return cls(_rows(fields))


@dataclass(frozen=True, slots=True)
class StageResult:
    """``PutResult`` metadata of a staging ``DoPut``: the token to commit with, and how many rows lie there."""

    token: str = field(repr=False)
    rows: int

    def to_json(self) -> bytes:
        """The JSON of this message."""
        return json_bytes({"token": self.token, "rows": self.rows})

    @classmethod
    def from_json(cls, data: bytes) -> StageResult:
        """Read :meth:`to_json`; WireFormatError names what is wrong."""
        fields = JsonObject.parse(data, "stage result")
        return cls(fields.text("token"), _rows(fields))


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """Make what is staged under ``tokens`` visible as one delta of ``table``, unless ``batch`` was committed before.

    ``key`` and ``kind`` (and ``capacity`` of a ring) matter when the table does not exist yet; ``schema`` is what an
    empty batch makes it of. ``order_by`` names a column that the delta's rows are sorted by before they are applied.
    ``expected_last`` is the publisher's last committed batch, as the publisher knows it: the commit is refused when the
    server knows another, or none because it was restarted. None does not ask.
    """

    publisher: str
    table: str
    batch: int
    mode: PublishMode = PublishMode.APPEND
    tokens: tuple[str, ...] = field(default=(), repr=False)
    key: tuple[str, ...] | None = None
    order_by: str | None = None
    schema: pa.Schema | None = None
    kind: TableKind | None = None
    capacity: int | None = None
    expected_last: int | None = None

    def to_json(self) -> bytes:
        """The JSON of this message; the schema as base64 of its encapsulated IPC message."""
        return json_bytes(
            {
                "publisher": self.publisher,
                "table": self.table,
                "batch": self.batch,
                "mode": self.mode,
                "tokens": self.tokens,
                "key": self.key,
                "order_by": self.order_by,
                "schema": schema_to_base64(self.schema),
                "kind": self.kind,
                "capacity": self.capacity,
                "expected_last": self.expected_last,
            }
        )

    @classmethod
    def from_json(cls, data: bytes) -> CommitRequest:
        """Read :meth:`to_json`; WireFormatError names what is wrong."""
        fields = JsonObject.parse(data, "commit request")
        fields.refuse_others(cls.__slots__)
        return cls(
            publisher=fields.text("publisher"),
            table=fields.text("table"),
            batch=fields.integer("batch"),
            mode=_mode(fields) or PublishMode.APPEND,
            tokens=fields.texts("tokens"),
            key=fields.optional_texts("key"),
            order_by=fields.optional_text("order_by"),
            schema=fields.optional_schema("schema"),
            kind=_kind(fields),
            capacity=_capacity(fields),
            expected_last=fields.optional_integer("expected_last"),
        )


@dataclass(frozen=True, slots=True)
class CommitResult:
    """What a commit did.

    ``duplicate`` is set, and nothing changed, when the batch had been committed before. ``rows``: rows applied;
    ``last_batch``: the publisher's last committed batch of that table now; ``step``: the update graph's step that has
    the delta.
    """

    committed: bool
    duplicate: bool
    rows: int
    last_batch: int
    step: int

    def to_json(self) -> bytes:
        """The JSON of this message."""
        return json_bytes(
            {
                "committed": self.committed,
                "duplicate": self.duplicate,
                "rows": self.rows,
                "last_batch": self.last_batch,
                "step": self.step,
            }
        )

    @classmethod
    def from_json(cls, data: bytes) -> CommitResult:
        """Read :meth:`to_json`; WireFormatError names what is wrong."""
        fields = JsonObject.parse(data, "commit result")
        return cls(
            committed=fields.boolean("committed"),
            duplicate=fields.boolean("duplicate"),
            rows=_rows(fields),
            last_batch=fields.integer("last_batch"),
            step=fields.integer("step"),
        )


@dataclass(frozen=True, slots=True)
class AbortRequest:
    """Drop what is staged under these tokens, unknown ones being no error, or all that is staged for one batch.

    ``batch`` is for a publisher that does not know the tokens, because the job that was to tell them has failed.
    """

    tokens: tuple[str, ...] = field(default=(), repr=False)
    publisher: str | None = None
    table: str | None = None
    batch: int | None = None

    def to_json(self) -> bytes:
        """The JSON of this message."""
        fields = {"tokens": self.tokens, "publisher": self.publisher, "table": self.table, "batch": self.batch}
        return json_bytes(fields)

    @classmethod
    def from_json(cls, data: bytes) -> AbortRequest:
        """Read :meth:`to_json`; WireFormatError names what is wrong."""
        fields = JsonObject.parse(data, "abort request")
        fields.refuse_others(cls.__slots__)
        tokens = fields.optional_texts("tokens") or ()
        batch = fields.optional_integer("batch")
        if batch is None:
            return cls(tokens)
        return cls(tokens, fields.text("publisher"), fields.text("table"), batch)


@dataclass(frozen=True, slots=True)
class AbortResult:
    """How many of the tokens were known and have been dropped."""

    dropped: int

    def to_json(self) -> bytes:
        """The JSON of this message."""
        return json_bytes({"dropped": self.dropped})

    @classmethod
    def from_json(cls, data: bytes) -> AbortResult:
        """Read :meth:`to_json`; WireFormatError names what is wrong."""
        return cls(JsonObject.parse(data, "abort result").integer("dropped"))


@dataclass(frozen=True, slots=True)
class LastBatchRequest:
    """Ask for the last batch that a publisher has committed to a table."""

    publisher: str
    table: str

    def to_json(self) -> bytes:
        """The JSON of this message."""
        return json_bytes({"publisher": self.publisher, "table": self.table})

    @classmethod
    def from_json(cls, data: bytes) -> LastBatchRequest:
        """Read :meth:`to_json`; WireFormatError names what is wrong."""
        fields = JsonObject.parse(data, "last batch request")
        fields.refuse_others(cls.__slots__)
        return cls(fields.text("publisher"), fields.text("table"))


@dataclass(frozen=True, slots=True)
class LastBatchResult:
    """The last committed batch; None when there is none."""

    last_batch: int | None

    def to_json(self) -> bytes:
        """The JSON of this message; null is left out."""
        return json_bytes({"last_batch": self.last_batch})

    @classmethod
    def from_json(cls, data: bytes) -> LastBatchResult:
        """Read :meth:`to_json`; WireFormatError names what is wrong."""
        return cls(JsonObject.parse(data, "last batch result").optional_integer("last_batch"))


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """Create an empty table; no error when one of the same kind, schema and keys exists."""

    table: str
    schema: pa.Schema
    kind: TableKind | None = None
    key: tuple[str, ...] | None = None
    capacity: int | None = None

    def to_json(self) -> bytes:
        """The JSON of this message; the schema as base64 of its encapsulated IPC message."""
        return json_bytes(
            {
                "table": self.table,
                "kind": self.kind,
                "schema": schema_to_base64(self.schema),
                "key": self.key,
                "capacity": self.capacity,
            }
        )

    @classmethod
    def from_json(cls, data: bytes) -> CreateRequest:
        """Read :meth:`to_json`; WireFormatError names what is wrong."""
        fields = JsonObject.parse(data, "create request")
        fields.refuse_others(cls.__slots__)
        schema = fields.optional_schema("schema")
        if schema is None:
            raise WireFormatError(
                "create request: field 'schema' is missing; send base64 of the Arrow schema's IPC message"
            )
        return cls(fields.text("table"), schema, _kind(fields), fields.optional_texts("key"), _capacity(fields))


@dataclass(frozen=True, slots=True)
class DropRequest:
    """Take a table off the server; its subscribers' streams end with an error."""

    table: str

    def to_json(self) -> bytes:
        """The JSON of this message."""
        return json_bytes({"table": self.table})

    @classmethod
    def from_json(cls, data: bytes) -> DropRequest:
        """Read :meth:`to_json`; WireFormatError names what is wrong."""
        fields = JsonObject.parse(data, "drop request")
        fields.refuse_others(cls.__slots__)
        return cls(fields.text("table"))

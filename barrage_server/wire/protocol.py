"""This project's additions to Barrage: publishing by commit, and further actions.

All messages are JSON objects; fields that are None are omitted.

There are three ways to publish:

- A plain ``DoPut`` to ``["scope", name]`` or ``[name]``: the batches become one delta when the client half-closes.
  :class:`PutOptions` may be app_metadata of the first message (``{"barrage": {...}}``) or, for stock clients, the
  value of :data:`PUT_OPTIONS_KEY` in the schema metadata.
- A ticking ``DoPut``, whose first app_metadata is a Barrage ``PublicationRequest``: every message is an update of the
  table. A message with the app_metadata :data:`FLUSH` and no rows requests the number of updates applied.
- Staging and commit: a ``DoPut`` with the command :data:`STAGE_COMMAND` whose first message carries a
  :class:`StageRequest` and which ends with :class:`StageEnd`; the server answers :class:`StageResult`. A
  :class:`CommitRequest` then makes staged data visible, once.

A request with an unknown field is refused, because a misspelt ``key`` would create another kind of table. Unknown
fields of results are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Self

import pyarrow as pa

from barrage_server.errors import WireFormatError
from barrage_server.public import public
from barrage_server.typed_json import REQUIRED, AtLeast
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
    "AbortRequest",
    "AbortResult",
    "CommitPart",
    "CommitRequest",
    "CommitResult",
    "CreateRequest",
    "DropRequest",
    "KeepRequest",
    "KeepResult",
    "LastBatchRequest",
    "LastBatchResult",
    "PublicationResult",
    "PublishMode",
    "PutOptions",
    "PutResult",
    "StageEnd",
    "StageRequest",
    "StageResult",
    "TableKind",
]

COMMIT_ACTION: Final = "barrage.commit"
"""Action: :class:`CommitRequest` -> :class:`CommitResult`."""
ABORT_ACTION: Final = "barrage.abort"
"""Action: :class:`AbortRequest` -> :class:`AbortResult`."""
KEEP_ACTION: Final = "barrage.keep"
"""Action: :class:`KeepRequest` -> :class:`KeepResult`."""
LAST_BATCH_ACTION: Final = "barrage.last_batch"
"""Action: :class:`LastBatchRequest` -> :class:`LastBatchResult`."""
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


_SINGLE_WRITE: Final = "write-"


def single_write_publisher(identity: str) -> str:
    """Return the publisher's name of a single write, or of a connection.

    Args:
        identity: distinguishes it from all others.

    """
    return _SINGLE_WRITE + identity


def is_single_write(publisher: str) -> bool:
    """Whether a publisher has a name of :func:`single_write_publisher`.

    No later process uses such a name. The server remembers it only while a commit may be repeated, and allows gaps
    between its batches.
    """
    return publisher.startswith(_SINGLE_WRITE)


_MOST_TABLES: Final = 1_000
"""The most tables of one commit."""
_NAME_LENGTH: Final = 4_096
"""The most characters of the name of a publisher or an epoch, because the server keeps it."""


def _check_identity(message: str, publisher: str, epoch: str | None) -> None:
    for name, text in (("publisher", publisher), ("epoch", epoch)):
        if text is not None and len(text) > _NAME_LENGTH:
            raise WireFormatError(f"{message}: {name} may have {_NAME_LENGTH:,} characters, and has {len(text):,}.")


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
class StageRequest(JsonMessage):
    """The first app_metadata of a staging ``DoPut``.

    Attributes:
        publisher: the publisher's name.
        table: the table's name.
        batch: the number of the batch.
        attempt: distinguishes repeated attempts of a task.
        epoch: the publisher's epoch, if any.

    """

    message_name: ClassVar[str] = "stage request"

    publisher: str
    table: str
    batch: int
    attempt: str
    epoch: str | None = None

    def check(self) -> None:
        """Raise WireFormatError when a name is too long."""
        _check_identity(self.message_name, self.publisher, self.epoch)


@dataclass(frozen=True, slots=True)
class StageEnd(JsonMessage):
    """The last app_metadata of a staging ``DoPut``.

    Without it, or with another number of rows, the server drops the rows.
    """

    message_name: ClassVar[str] = "end of staging"
    refuses_others: ClassVar[bool] = False

    end: bool = field(default=True, kw_only=True, metadata=REQUIRED)
    rows: Rows

    def check(self) -> None:
        """Raise WireFormatError unless it is an end marker."""
        if not self.end:
            raise WireFormatError('end of staging: field "end" must be true')


@dataclass(frozen=True, slots=True)
class StageResult(JsonMessage):
    """``PutResult`` metadata of a staging ``DoPut``.

    Attributes:
        token: names the rows in a commit.
        rows: the number of staged rows.

    """

    message_name: ClassVar[str] = "stage result"
    refuses_others: ClassVar[bool] = False

    token: str = field(repr=False)
    rows: Rows


@dataclass(frozen=True, slots=True)
class CommitPart:
    """One of several tables of a commit, with the fields of :class:`CommitRequest`."""

    table: str
    mode: PublishMode = PublishMode.APPEND
    tokens: tuple[str, ...] = field(default=(), repr=False, metadata=REQUIRED)
    key: tuple[str, ...] | None = None
    order_by: str | None = None
    schema: pa.Schema | None = None
    kind: TableKind | None = None
    capacity: Capacity | None = None


@dataclass(frozen=True, slots=True)
class CommitRequest(JsonMessage):
    """Make staged batches visible as one delta of a table, exactly once.

    A batch that was committed before changes nothing.

    Attributes:
        publisher: the publisher's name.
        table: the table's name; None with ``tables``.
        batch: the number of the batch.
        mode: how the rows are applied.
        tokens: the tokens of the staged rows.
        key: the key columns of a new table.
        order_by: a column by which the rows are sorted before they are applied.
        schema: the schema of a new table that an empty batch creates.
        kind: the kind of a new table.
        capacity: the number of rows of a new ring.
        expected_last: the last committed batch that the publisher knows of. The commit is refused when the server knows
            another, or none after a restart. None does not check.
        epoch: distinguishes runs of a publisher that count their batches anew. Another epoch than that of the last
            commit is refused, unless ``takeover`` is set.
        takeover: ``epoch`` takes the name over; earlier epochs are refused from then on.
        allow_gap: whether the batch may leave a gap behind the last one.
        tables: several tables, in place of ``table`` and the fields that describe it. Their deltas become visible
            together, or none of them.

    """

    message_name: ClassVar[str] = "commit request"

    publisher: str
    table: str | None = None
    batch: int = field(default=0, metadata=REQUIRED)
    mode: PublishMode = PublishMode.APPEND
    tokens: tuple[str, ...] = field(default=(), repr=False, metadata=REQUIRED)
    key: tuple[str, ...] | None = None
    order_by: str | None = None
    schema: pa.Schema | None = None
    kind: TableKind | None = None
    capacity: Capacity | None = None
    expected_last: int | None = None
    epoch: str | None = None
    takeover: bool = False
    allow_gap: bool = False
    tables: tuple[CommitPart, ...] | None = None

    @classmethod
    def over(cls, parts: Sequence[CommitPart], **rest: Any) -> Self:
        """Make the commit of one or several tables.

        Args:
            parts: the tables.
            rest: the other fields.

        """
        if len(parts) > 1:
            return cls(tables=tuple(parts), **rest)
        return cls(**{entry.name: getattr(parts[0], entry.name) for entry in fields(CommitPart)}, **rest)

    @property
    def parts(self) -> tuple[CommitPart, ...]:
        """The tables of the commit, also of a request for a single table."""
        if self.tables is not None:
            return self.tables
        own = {entry.name: getattr(self, entry.name) for entry in fields(CommitPart)}
        return (CommitPart(**own),)

    def check(self) -> None:
        """Raise WireFormatError unless one table is named, or several once each."""
        _check_identity(self.message_name, self.publisher, self.epoch)
        if self.tables is None:
            if self.table is None:
                raise WireFormatError("commit request: table is missing; it must be a string that is not empty.")
            return
        for entry in fields(CommitPart):
            if getattr(self, entry.name) != (None if entry.default is MISSING else entry.default):
                raise WireFormatError(f"commit request: field {entry.name!r} belongs into 'tables' when that is given")
        names = [part.table for part in self.tables]
        if not 0 < len(names) <= _MOST_TABLES or len(set(names)) < len(names):
            raise WireFormatError(f"commit request: 'tables' must name 1 to {_MOST_TABLES} tables, each once")


@dataclass(frozen=True, slots=True)
class CommitResult(JsonMessage):
    """The result of a commit.

    Attributes:
        committed: whether this request has changed the tables.
        duplicate: whether the batch had been committed before.
        rows: the number of rows applied.
        last_batch: the publisher's last committed batch of the table now.
        step: the step of the update graph that has the delta.

    """

    message_name: ClassVar[str] = "commit result"
    refuses_others: ClassVar[bool] = False

    committed: bool
    duplicate: bool
    rows: Rows
    last_batch: int
    step: int


@dataclass(frozen=True, slots=True)
class _StagedRequest(JsonMessage):
    """A request about staged rows, by tokens or by publisher, table and batch."""

    tokens: tuple[str, ...] = field(default=(), repr=False)
    publisher: str | None = None
    table: str | None = None
    batch: int | None = None

    def check(self) -> None:
        """Raise WireFormatError when a batch comes without its publisher or its table."""
        for name in ("publisher", "table"):
            if self.batch is not None and getattr(self, name) is None:
                raise WireFormatError(f"{self.message_name}: {name} is missing; it must be a string that is not empty.")


@dataclass(frozen=True, slots=True)
class AbortRequest(_StagedRequest):
    """Drop staged rows.

    Unknown tokens are ignored. ``batch``, with ``publisher`` and ``table``, is for a publisher that does not know the
    tokens, because its job has failed.
    """

    message_name: ClassVar[str] = "abort request"


@dataclass(frozen=True, slots=True)
class KeepRequest(_StagedRequest):
    """Keep staged rows from expiring, while the publisher's job runs.

    Unknown tokens are ignored. The publisher repeats the request within the time that the answer has.
    """

    message_name: ClassVar[str] = "keep request"


@dataclass(frozen=True, slots=True)
class KeepResult(JsonMessage):
    """The answer to :class:`KeepRequest`.

    Attributes:
        kept: the number of known tokens.
        expiry_ms: milliseconds until they expire.

    """

    message_name: ClassVar[str] = "keep result"
    refuses_others: ClassVar[bool] = False

    kept: int
    expiry_ms: int


@dataclass(frozen=True, slots=True)
class AbortResult(JsonMessage):
    """The number of tokens whose rows were dropped."""

    message_name: ClassVar[str] = "abort result"
    refuses_others: ClassVar[bool] = False

    dropped: int


@dataclass(frozen=True, slots=True)
class LastBatchRequest(JsonMessage):
    """Request the last batch that a publisher has committed to a table.

    With ``epoch`` it is the last batch of that epoch, which is refused where a commit would be; a new epoch has no last
    batch. Without ``epoch`` it is the last batch of the present epoch.
    """

    message_name: ClassVar[str] = "last batch request"

    publisher: str
    table: str
    epoch: str | None = None
    takeover: bool = False


@dataclass(frozen=True, slots=True)
class LastBatchResult(JsonMessage):
    """The last committed batch; None when there is none."""

    message_name: ClassVar[str] = "last batch result"
    refuses_others: ClassVar[bool] = False

    last_batch: int | None = None


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

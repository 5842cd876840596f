"""Names and messages of what this project adds to Barrage: publishing by commit, and administrative actions.

Both ends import these. All messages are JSON objects; fields that are None are omitted.

There are three ways to publish:

- A plain ``DoPut`` to ``["scope", name]`` or ``[name]``: the batches become one delta when the client half-closes.
  :class:`PutOptions` may travel as app_metadata of the first message (``{"barrage": {...}}``) or, for stock clients,
  under :data:`PUT_OPTIONS_KEY` in the schema metadata.
- A ticking ``DoPut``, whose first app_metadata is a Barrage ``PublicationRequest``: every message is an update of the
  table. A message with the app_metadata :data:`FLUSH` and no rows asks how many of them are applied.
- Staging and commit: a ``DoPut`` with the command :data:`STAGE_COMMAND` whose first message carries a
  :class:`StageRequest` and which ends with :class:`StageEnd`; the server answers :class:`StageResult`. A
  :class:`CommitRequest` then makes staged data visible, once.

A request with an unknown field is refused: a misspelt ``key`` would otherwise create another kind of table. Unknown
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
"""Action: an empty body -> a result for each table: Flight's ``FlightInfo`` message, as ``ListFlights`` gives it."""
STATISTICS_ACTION: Final = "barrage.statistics"
"""Action: ``{}`` -> a JSON object with the statistics."""
FLUSH: Final = b"barrage-flush"
"""app_metadata within a ticking ``DoPut``: answered when all earlier updates are applied."""
STAGE_COMMAND: Final = b"barrage.stage"
"""``FlightDescriptor.cmd`` of a ``DoPut`` that stages."""
PUT_OPTIONS_KEY: Final = b"barrage:put"
"""Schema metadata key under which a stock client can send :class:`PutOptions` (their JSON without the outer field)."""
PUT_OPTIONS_FIELD: Final = "barrage"
"""Outer JSON field of :class:`PutOptions` in app_metadata."""


_SINGLE_WRITE: Final = "write-"


def single_write_publisher(identity: str) -> str:
    """The publisher name of a single write, or of one connection, with a unique ``identity``."""
    return _SINGLE_WRITE + identity


def is_single_write(publisher: str) -> bool:
    """Whether a publisher has a name of :func:`single_write_publisher`: no later process uses it, so that it is
    remembered for as long as a commit may be repeated, and its batches need not follow each other.
    """
    return publisher.startswith(_SINGLE_WRITE)


_MOST_TABLES: Final = 1_000
"""Tables of one commit."""
_NAME_LENGTH: Final = 4_096
"""Characters of the name of a publisher or an epoch, which the server keeps."""


def _check_identity(message: str, publisher: str, epoch: str | None) -> None:
    for name, text in (("publisher", publisher), ("epoch", epoch)):
        if text is not None and len(text) > _NAME_LENGTH:
            raise WireFormatError(f"{message}: {name} may have {_NAME_LENGTH:,} characters, and has {len(text):,}.")


@public
class PublishMode(StrEnum):
    """How a published delta applies to the existing rows.

    ``APPEND`` adds rows at the end; ``UPSERT`` inserts rows by key, or overwrites those with the same key; ``REPLACE``
    makes the rows the whole content; ``DELETE`` removes the rows with the given keys.
    """

    APPEND = "append"
    UPSERT = "upsert"
    REPLACE = "replace"
    DELETE = "delete"


@public
class TableKind(StrEnum):
    """Kinds of source tables that a publisher can create.

    ``APPEND``: rows are added at the end. ``RING``: the last of them, up to a capacity. ``BLINK``: rows live for one
    cycle. ``KEYED``: one row per key. ``REPLACED``: no key; the content is replaced as a whole.
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
    """How a plain ``DoPut`` is applied. None everywhere means: append, or upsert when the table has keys."""

    mode: PublishMode | None = None
    key: tuple[str, ...] | None = None
    kind: TableKind | None = None
    capacity: Capacity | None = None

    def to_json(self) -> bytes:
        """app_metadata of the first message: ``{"barrage": {...}}``."""
        inner = self.to_schema_metadata().decode()
        return f'{{"{PUT_OPTIONS_FIELD}":{inner}}}'.encode()

    def to_schema_metadata(self) -> bytes:
        """The value for :data:`PUT_OPTIONS_KEY` in the schema metadata."""
        return json_bytes(MESSAGES.written_fields(self, "put options: "))

    @classmethod
    def from_json(cls, data: bytes) -> PutOptions | None:
        """Options in app_metadata; None when the JSON object has no ``barrage`` field (it is the user's own)."""
        fields = parse_object(data, "put options", is_request=True)
        options: PutOptions | None = MESSAGES.read(
            fields.get(PUT_OPTIONS_FIELD), PutOptions | None, f"put options: {PUT_OPTIONS_FIELD}"
        )
        return options

    @classmethod
    def from_schema_metadata(cls, data: bytes) -> PutOptions:
        """Options under :data:`PUT_OPTIONS_KEY` in the schema metadata."""
        what = "put options in the schema metadata"
        options: PutOptions = MESSAGES.object_of(cls, parse_object(data, what, is_request=True), f"{what}: ")
        return options


@dataclass(frozen=True, slots=True)
class PutResult(JsonMessage):
    """``PutResult`` metadata of a plain ``DoPut``: the rows that were applied to ``table``, and the cycle's step."""

    message_name: ClassVar[str] = "put result"
    refuses_others: ClassVar[bool] = False

    table: str
    rows: Rows
    step: int


@dataclass(frozen=True, slots=True)
class PublicationResult(JsonMessage):
    """``PutResult`` metadata of a ticking ``DoPut``: how many updates are applied to ``table``, and the last step."""

    message_name: ClassVar[str] = "the server's answer to a publication"
    refuses_others: ClassVar[bool] = False

    table: str
    updates: int
    step: int


@dataclass(frozen=True, slots=True)
class StageRequest(JsonMessage):
    """First app_metadata of a staging ``DoPut``: the publisher, the table and the batch, and the publisher's epoch.
    ``attempt`` distinguishes repeated task attempts.
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
    """Last app_metadata of a staging ``DoPut``: without it, or with another row count, the rows are dropped."""

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
    """``PutResult`` metadata of a staging ``DoPut``: the token for the commit, and the number of staged rows."""

    message_name: ClassVar[str] = "stage result"
    refuses_others: ClassVar[bool] = False

    token: str = field(repr=False)
    rows: Rows


@dataclass(frozen=True, slots=True)
class CommitPart:
    """One table of a commit over several; the fields are those of :class:`CommitRequest`."""

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
    """Make the batches under ``tokens`` visible as one delta of ``table``, unless ``batch`` was committed before.

    With ``tables`` in the place of ``table`` and the fields that describe it, the deltas of several tables become
    visible together, or none of them.

    ``key`` and ``kind`` (and ``capacity`` of a ring) matter when the table does not exist yet; ``schema`` is that of a
    table created by an empty batch. ``order_by`` names a column that the delta's rows are sorted by before they are
    applied. ``expected_last`` is the publisher's last committed batch, as the publisher knows it: the commit is refused
    when the server knows another, or none because it was restarted. None does not check.

    ``epoch`` distinguishes runs of a publisher that count their batches anew. Another epoch than that of the
    publisher's last commit is refused, unless ``takeover`` says that it takes the name over; earlier epochs are refused
    from then on. A batch that does not follow the last one is refused, unless ``allow_gap``.
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
        """A commit of ``parts``, in the form for a single table if it is one; ``rest`` are the other fields."""
        if len(parts) > 1:
            return cls(tables=tuple(parts), **rest)
        return cls(**{entry.name: getattr(parts[0], entry.name) for entry in fields(CommitPart)}, **rest)

    @property
    def parts(self) -> tuple[CommitPart, ...]:
        """The tables of the commit: those of ``tables``, else the one that the request itself describes."""
        if self.tables is not None:
            return self.tables
        own = {entry.name: getattr(self, entry.name) for entry in fields(CommitPart)}
        return (CommitPart(**own),)

    def check(self) -> None:
        """Raise WireFormatError unless it names one table, or each of several once."""
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

    ``duplicate`` is set, and nothing changed, when the batch had been committed before. ``rows``: rows applied;
    ``last_batch``: the publisher's last committed batch of that table now; ``step``: the update graph's step that has
    the delta.
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
    """About what is staged: under tokens, or for one batch of a publisher and a table."""

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
    """Drop the batches staged under these tokens (unknown tokens are ignored), or everything staged for one batch.

    ``batch``, with ``publisher`` and ``table``, is for a publisher that does not know the tokens, because its job has
    failed.
    """

    message_name: ClassVar[str] = "abort request"


@dataclass(frozen=True, slots=True)
class KeepRequest(_StagedRequest):
    """Keep what is staged from expiring: under these tokens (unknown tokens are ignored), or all of one batch.

    For a publisher whose job still runs. It repeats the request within the time that the answer has.
    """

    message_name: ClassVar[str] = "keep request"


@dataclass(frozen=True, slots=True)
class KeepResult(JsonMessage):
    """The number of known tokens, and the milliseconds for which they are safe now."""

    message_name: ClassVar[str] = "keep result"
    refuses_others: ClassVar[bool] = False

    kept: int
    expiry_ms: int


@dataclass(frozen=True, slots=True)
class AbortResult(JsonMessage):
    """The number of known tokens, which were dropped."""

    message_name: ClassVar[str] = "abort result"
    refuses_others: ClassVar[bool] = False

    dropped: int


@dataclass(frozen=True, slots=True)
class LastBatchRequest(JsonMessage):
    """Request the last batch that a publisher has committed to a table.

    With ``epoch``, the last one of that epoch: an epoch that a commit would be refused for is refused, and one that is
    to begin has none. Without, the last one of the present epoch.
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
    """Create an empty table; no error when one of the same kind, schema and keys exists.

    ``durable``: whether the server's data directory keeps it; None: if there is one and the kind can be.
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

"""Messages of publishing by commit: rows are staged, then committed once.

They are JSON objects, as those of :mod:`~barrage_server.wire.protocol`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, Final, Self
from uuid import UUID

import pyarrow as pa

from barrage_server.errors import WireFormatError
from barrage_server.typed_json import REQUIRED
from barrage_server.wire.json_message import JsonMessage
from barrage_server.wire.protocol import Capacity, PublishMode, Rows, TableKind

__all__ = [
    "AbortRequest",
    "AbortResult",
    "CommitPart",
    "CommitRequest",
    "CommitResult",
    "KeepRequest",
    "KeepResult",
    "LastBatchRequest",
    "LastBatchResult",
    "StageEnd",
    "StageRequest",
    "StageResult",
    "is_single_write",
    "single_write_publisher",
]

_SINGLE_WRITE: Final = re.compile(r"write-(client-)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(-[0-9]+)?")


def single_write_publisher(identity: UUID, number: int | None = None) -> str:
    """Return the publisher's name of a single write, or of a connection.

    Args:
        identity: distinguishes it from all others.
        number: distinguishes names of one connection.

    """
    return f"write-{identity}" if number is None else f"write-{identity}-{number}"


def is_single_write(publisher: str) -> bool:
    """Whether a publisher has a name of :func:`single_write_publisher`.

    No later process uses such a name. The server remembers it only while a commit may be repeated, and allows gaps
    between its batches.
    """
    return _SINGLE_WRITE.fullmatch(publisher) is not None


_MOST_TABLES: Final = 1_000
"""The most tables of one commit."""
_NAME_BYTES: Final = 1_000
"""The most bytes of the name of a publisher or an epoch, because the server keeps it."""


def _check_identity(message: str, publisher: str, epoch: str | None) -> None:
    for name, text in (("publisher", publisher), ("epoch", epoch)):
        if text is not None and (size := len(text.encode(errors="surrogatepass"))) > _NAME_BYTES:
            raise WireFormatError(f"{message}: {name} may have {_NAME_BYTES:,} bytes in UTF-8, and has {size:,}.")


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
    """A request about staged rows, by tokens or by publisher, table and batch.

    With ``epoch``, only what was staged in this epoch: a publisher that another one has fenced off does not touch what
    its successor stages under the same number.
    """

    tokens: tuple[str, ...] = field(default=(), repr=False)
    publisher: str | None = None
    table: str | None = None
    batch: int | None = None
    epoch: str | None = None

    def check(self) -> None:
        """Raise WireFormatError for a batch without publisher or table, or a long name."""
        _check_identity(self.message_name, self.publisher or "", self.epoch)
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
    """The last batch that a publisher has committed to a table.

    Attributes:
        last_batch: its number; None when there is none.
        takes_gaps: whether a batch may be committed without those before it, as to a blink table.
    """

    message_name: ClassVar[str] = "last batch result"
    refuses_others: ClassVar[bool] = False

    last_batch: int | None = None
    takes_gaps: bool = False

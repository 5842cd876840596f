"""Every error that a user of this package may see, in one tree.

::

    BarrageError
    ├── InvalidRequestError          the request can never succeed as it stands
    │   ├── WireFormatError          bytes that are not what the protocol allows
    │   ├── RowSetError              keys, ranges or shifts that break the rules of row sets
    │   ├── SchemaMismatchError      data whose columns or types differ from the table's
    │   ├── UnknownColumnError       a column name or number that the table lacks
    │   ├── UnsupportedTypeError     an Arrow type that a table cannot hold
    │   ├── KeyMismatchError         key columns that differ from those of the table
    │   └── UnsupportedOperationError  an operation this kind of table or stream does not have
    ├── NotFoundError
    │   └── UnknownTableError        there is no table of that name or ticket
    ├── AlreadyExistsError           a different table of that name exists
    ├── AuthenticationError          missing or wrong credentials
    ├── ForbiddenError               a right that the caller's roles lack
    ├── LimitError                   a limit of this server was reached
    │   └── MessageTooLargeError     one message would be larger than allowed
    ├── UnavailableError             the other side is unreachable or closing
    ├── DeadlineError                a call or condition took longer than its time-out
    ├── PublishError                 a batch could not be staged or committed
    │   ├── FencedError              another epoch, or another user, has the publisher's name
    │   └── LostBatchesError         batches between the last committed one and this one are missing
    ├── ReadOnlyError                the tables cannot be changed: the data directory cannot be written
    ├── JournalError                 the data directory is damaged, or of another version
    ├── DependencyError              an optional package or program is missing
    ├── QueryStoppedError            Spark stopped the query while its batch waited for the server
    └── InternalError                a fault of this software; the text has an id of the log
        └── TableFailedError         a cycle failed in a table
            └── ParentFailedError    ... in a table that this one is computed from

Each class has a ``code``: the name of the gRPC status that an endpoint answers with. Texts are for the user: what is
wrong, and what to do. They never have a file path of the server or a traceback.

An exception that other code of the package always catches is no error of this tree, and is a class of its own module:
the command line makes one line and an exit code of its ``UsageError``.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AlreadyExistsError",
    "AuthenticationError",
    "BarrageError",
    "DeadlineError",
    "DependencyError",
    "FencedError",
    "ForbiddenError",
    "InternalError",
    "InvalidRequestError",
    "JournalError",
    "KeyMismatchError",
    "LimitError",
    "LostBatchesError",
    "MessageTooLargeError",
    "NotFoundError",
    "ParentFailedError",
    "PublishError",
    "QueryStoppedError",
    "ReadOnlyError",
    "RowSetError",
    "SchemaMismatchError",
    "TableFailedError",
    "UnavailableError",
    "UnknownColumnError",
    "UnknownTableError",
    "UnsupportedOperationError",
    "UnsupportedTypeError",
    "WireFormatError",
]


class BarrageError(Exception):
    """The base of all errors of this package that users may see."""

    code: ClassVar[str] = "UNKNOWN"


class InvalidRequestError(BarrageError):
    """The request can never succeed as it stands."""

    code = "INVALID_ARGUMENT"


class WireFormatError(InvalidRequestError):
    """Bytes that violate the Barrage or Arrow format."""


class RowSetError(InvalidRequestError):
    """Row keys, ranges or shifts that violate the rules of ordered row sets."""


class SchemaMismatchError(InvalidRequestError):
    """Columns or types that differ from those of the table."""


class UnknownColumnError(InvalidRequestError):
    """A column that the table does not have."""


class UnsupportedTypeError(InvalidRequestError):
    """An Arrow type that tables here cannot hold."""


class KeyMismatchError(InvalidRequestError):
    """Key columns that are missing, or differ from those of the table."""


class UnsupportedOperationError(InvalidRequestError):
    """An operation that this kind of table or stream does not have."""


class NotFoundError(BarrageError):
    """The named object does not exist."""

    code = "NOT_FOUND"


class UnknownTableError(NotFoundError):
    """No table has that name or ticket."""


class AlreadyExistsError(BarrageError):
    """A table of that name exists, and is of another kind or schema."""

    code = "ALREADY_EXISTS"


class AuthenticationError(BarrageError):
    """Missing or wrong credentials.

    Attributes:
        is_final: a server of this project refused the token, which it accepts in any form: other forms need not be
            tried.
        reason: why, for the log of the server only; empty without one. It is never sent.
    """

    code = "UNAUTHENTICATED"
    is_final: bool = False
    reason: str = ""


class ForbiddenError(BarrageError):
    """A right that the caller's roles lack. The text names the right and the table.

    A table on which the caller has no right at all is an :class:`UnknownTableError` instead.

    Attributes:
        is_routine: programs ask without knowing whether they may: the log of the server has it at the level DEBUG.
    """

    code = "PERMISSION_DENIED"
    is_routine: bool = False


class LimitError(BarrageError):
    """A limit of this server was reached; trying later or with less may succeed."""

    code = "RESOURCE_EXHAUSTED"


class MessageTooLargeError(LimitError):
    """One message is larger than its receiver or the protocol allows."""


class UnavailableError(BarrageError):
    """The other side cannot be reached, or is shutting down."""

    code = "UNAVAILABLE"


class DeadlineError(BarrageError, TimeoutError):
    """A call or a condition took longer than its time-out."""

    code = "DEADLINE_EXCEEDED"


class PublishError(BarrageError):
    """A batch could not be staged or committed; nothing of it is visible."""

    code = "FAILED_PRECONDITION"


class FencedError(PublishError):
    """The publisher's name belongs to another epoch or user; nothing is committed."""


class LostBatchesError(PublishError):
    """Batches before this one are missing on the server; nothing is committed."""


class ReadOnlyError(BarrageError):
    """The data directory cannot be written, so tables can only be read."""

    code = "FAILED_PRECONDITION"


class JournalError(BarrageError):
    """A data directory is damaged, or is not of this package and version.

    Attributes:
        segment: the damaged file of the journal; ``None`` for damage elsewhere.
        offset: where the damage begins in that file, in bytes.
    """

    code = "INTERNAL"

    def __init__(self, text: str = "", segment: str | None = None, offset: int = 0) -> None:
        super().__init__(text)
        self.segment = segment
        self.offset = offset


class DependencyError(BarrageError):
    """An optional package, or a program such as Java, is missing."""

    code = "FAILED_PRECONDITION"


class QueryStoppedError(BarrageError):
    """A Spark query was stopped while its batch waited for the server.

    Nothing of the batch is visible.
    """


class InternalError(BarrageError):
    """A fault of this software, or of a user's function.

    Args:
        text: what went wrong.
        error_id: the id of the log record that has the details, which ``str`` then names. Empty if there is none yet.

    """

    code = "INTERNAL"

    def __init__(self, text: str = "", error_id: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.error_id = error_id

    def __str__(self) -> str:
        named = f" The server's log has the details under the id {self.error_id}." if self.error_id else ""
        return f"{self.text}{named}"


class TableFailedError(InternalError):
    """A cycle failed in a table, which does not change any more.

    The text names the table, what failed, and why.
    """


class ParentFailedError(TableFailedError):
    """A cycle failed in a table that this one is computed from, directly or not."""


for _name in __all__:  # they are public: see barrage_server.public, which has no place below this module
    globals()[_name].__module__ = "barrage_server"

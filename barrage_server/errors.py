"""Every error this package raises on purpose, in one tree.

::

    BarrageError
    ├── InvalidRequestError          the caller asked for something that cannot be
    │   ├── WireFormatError          bytes that are not what the protocol allows
    │   ├── RowSetError              keys, ranges or shifts that break the rules of row sets
    │   ├── SchemaMismatchError      data whose columns or types differ from the table's
    │   ├── UnknownColumnError       a column name or number that the table lacks
    │   ├── UnsupportedTypeError     an Arrow type that a table cannot hold
    │   ├── KeyMismatchError         key columns that differ from those of the table
    │   └── UnsupportedOperationError  an operation this kind of table or stream does not have
    ├── NotFoundError
    │   └── UnknownTableError        no table answers to that name or ticket
    ├── AlreadyExistsError           a table of that name is there already, and it differs
    ├── AuthenticationError          missing or wrong credentials
    ├── LimitError                   a limit of this server was reached
    │   └── MessageTooLargeError     one message would be larger than allowed
    ├── UnavailableError             the other side is gone, or going
    ├── DeadlineError                something did not happen in the time given
    ├── PublishError                 a batch could not be staged or committed
    ├── DependencyError              an optional package or program is missing
    └── InternalError                a fault of this software; carries an id that the log has too
        └── TableFailedError         a table that a cycle failed in, and what it was doing

Each class has a ``code``: the name of the gRPC status that a door answers with. Texts are for the user: what is wrong,
and what to do about it. They never carry a file path or a traceback.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AlreadyExistsError",
    "AuthenticationError",
    "BarrageError",
    "DeadlineError",
    "DependencyError",
    "InternalError",
    "InvalidRequestError",
    "KeyMismatchError",
    "LimitError",
    "MessageTooLargeError",
    "NotFoundError",
    "PublishError",
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
    """The root of the tree: catch this to catch whatever this package raises on purpose."""

    code: ClassVar[str] = "UNKNOWN"


class InvalidRequestError(BarrageError):
    """The request can never succeed as it stands."""

    code = "INVALID_ARGUMENT"


class WireFormatError(InvalidRequestError):
    """Bytes from the other side break the Barrage or Arrow format."""


class RowSetError(InvalidRequestError):
    """Row keys, ranges or shifts that break the rules of ordered row sets."""


class SchemaMismatchError(InvalidRequestError):
    """Columns or types differ from the table's."""


class UnknownColumnError(InvalidRequestError):
    """A column that the table does not have."""


class UnsupportedTypeError(InvalidRequestError):
    """An Arrow type that tables here cannot hold."""


class KeyMismatchError(InvalidRequestError):
    """Key columns that are missing, or differ from those that the table was made with."""


class UnsupportedOperationError(InvalidRequestError):
    """This kind of table or stream does not offer the operation."""


class NotFoundError(BarrageError):
    """What was named does not exist."""

    code = "NOT_FOUND"


class UnknownTableError(NotFoundError):
    """No table answers to that name or ticket."""


class AlreadyExistsError(BarrageError):
    """A table of that name exists and is of another kind or schema."""

    code = "ALREADY_EXISTS"


class AuthenticationError(BarrageError):
    """Missing or wrong credentials.

    Attributes:
        is_final: a server of this project has said so, which takes a token in any form: no other form is worth a try.
    """

    code = "UNAUTHENTICATED"
    is_final: bool = False


class LimitError(BarrageError):
    """A limit of this server was reached; trying later or asking for less may succeed."""

    code = "RESOURCE_EXHAUSTED"


class MessageTooLargeError(LimitError):
    """One message would be larger than its receiver, or the protocol, allows."""


class UnavailableError(BarrageError):
    """The other side cannot be reached, or is shutting down."""

    code = "UNAVAILABLE"


class DeadlineError(BarrageError, TimeoutError):
    """What was waited for did not happen in time."""

    code = "DEADLINE_EXCEEDED"


class PublishError(BarrageError):
    """A staged batch could not be committed; nothing of it is visible."""

    code = "FAILED_PRECONDITION"


class DependencyError(BarrageError):
    """An optional package, or a program such as Java, is missing."""

    code = "FAILED_PRECONDITION"


class InternalError(BarrageError):
    """A fault of this software. The text has an id under which the server's log has the details."""

    code = "INTERNAL"


class TableFailedError(InternalError):
    """A cycle failed in a table, which does not change any more. The text names the table, what failed, and why."""


for _name in __all__:  # they are public: see barrage_server.public, which has no place below this module
    globals()[_name].__module__ = "barrage_server"

"""Errors of this package as errors of Arrow Flight, and back.

``pyarrow.flight`` supports a part of gRPC's statuses. Its own classes cover UNAUTHENTICATED, PERMISSION_DENIED,
UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED, INTERNAL and UNKNOWN, and the plain Arrow errors add NOT_FOUND,
INVALID_ARGUMENT and UNIMPLEMENTED. Therefore the text names the class of this package, ``what is wrong [ClassName]``:
any client can show it, and :func:`from_flight` restores the class.

==================  ================================================================================
status              errors
==================  ================================================================================
INVALID_ARGUMENT    ``InvalidRequestError`` and below, ``AlreadyExistsError``, ``PublishError``, ``ReadOnlyError``
NOT_FOUND           ``NotFoundError`` and below
UNAUTHENTICATED     ``AuthenticationError``
PERMISSION_DENIED   ``ForbiddenError``
UNAVAILABLE         ``UnavailableError``, ``LimitError`` and below (there is no RESOURCE_EXHAUSTED)
DEADLINE_EXCEEDED   ``DeadlineError``
INTERNAL            everything else
==================  ================================================================================
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa
import pyarrow.flight as fl

import barrage_server.process  # noqa: F401  (silences gRPC, before Flight loads it)
from barrage_server import errors
from barrage_server.errors import BarrageError
from barrage_server.log import encodable, printable
from barrage_server.wire.json_message import JsonMessage

__all__ = [
    "decode_end",
    "encode_end",
    "error_name",
    "error_of",
    "from_flight",
    "from_status",
    "from_tagged",
    "is_told",
    "other_protocol",
    "tagged_text",
    "to_flight",
]

_CLASSES: Final = {name: getattr(errors, name) for name in errors.__all__}
_END: Final = b"barrage-end:"
# Text that Arrow adds to the text of a status, at either end.
_BEFORE: Final = r"(?:Unknown(?: error)?: )?(?:(?:Flight|gRPC) returned [a-z ]+ error, with message: )?"
_BEHIND: Final = r"\. (?:Detail: |gRPC client debug context: ).*"
_TAGGED: Final = re.compile(rf"{_BEFORE}(?P<text>.*?) \[(?P<name>[A-Z]\w+)\](?:{_BEHIND})?", re.DOTALL)
_TAIL: Final = re.compile(_BEHIND, re.DOTALL)
_HEAD: Final = re.compile(_BEFORE)

# Texts of Deephaven servers that need another class than their status suggests, or another text.
_DEEPHAVEN: Final[tuple[tuple[re.Pattern[str], type[BarrageError], str], ...]] = (
    (
        re.compile(r"Could not resolve '[^']*: variable '(.*)' not found"),
        errors.UnknownTableError,
        "There is no table '{}' on the Deephaven server: no global variable of that name. client.tables() lists those "
        "that exist.",
    ),
    (
        re.compile(r"Could not resolve '[^']*': (no application exists .*|field '.*' not found)"),
        errors.UnknownTableError,
        "There is no such table on the Deephaven server: {}. client.tables() lists those that exist.",
    ),
    (
        re.compile(r"Authentication details invalid"),
        errors.AuthenticationError,
        "The Deephaven server did not accept the log-in. Pass token= for a pre-shared key, or user= and password= "
        "for a user; without them the log-in is anonymous, which the server may not allow.",
    ),
    (
        re.compile(r"Details Logged w/ID '([0-9a-f-]+)'"),
        errors.InternalError,
        "The Deephaven server failed. Its log says why, under the id {}.",
    ),
)


_STATUSES: Final[dict[str, type[BarrageError]]] = {
    "ALREADY_EXISTS": errors.AlreadyExistsError,
    "CANCELLED": errors.UnavailableError,
    "DEADLINE_EXCEEDED": errors.DeadlineError,
    "FAILED_PRECONDITION": errors.InvalidRequestError,
    "INVALID_ARGUMENT": errors.InvalidRequestError,
    "NOT_FOUND": errors.NotFoundError,
    "OUT_OF_RANGE": errors.InvalidRequestError,
    "PERMISSION_DENIED": errors.AuthenticationError,
    "RESOURCE_EXHAUSTED": errors.LimitError,
    "UNAUTHENTICATED": errors.AuthenticationError,
    "UNAVAILABLE": errors.UnavailableError,
    "UNIMPLEMENTED": errors.UnsupportedOperationError,
}
"""The errors for statuses of servers of other makes."""

# Texts of gRPC for another protocol at the address. Retries do not help.
_OTHER_PROTOCOLS: Final = (
    (
        re.compile(r"Failed parsing HTTP/2|Trying to connect an http1\.x server"),
        "The program at {address} does not speak gRPC: it is a web server, or another program. Connect to the "
        "port that the server's log names, 8815 by default.",
    ),
    (
        re.compile(r"wrong version number|WRONG_VERSION_NUMBER|packet length too long|record layer failure"),
        "The server at {address} does not use TLS: write grpc:// instead of grpc+tls://, or dh+plain:// instead of dh://.",
    ),
)


class _Untold:
    """Keeps the traceback of an error inside the server.

    Arrow puts the whole traceback of a Python exception into the status that it sends. (Of Flight's own errors, only in
    some calls.) When the traceback cannot be formatted, it sends the name of the class instead. ``traceback`` reads the
    cause of every exception, so raising there prevents the formatting.
    """

    @property
    def __cause__(self) -> BaseException | None:
        raise RuntimeError("tracebacks do not leave the server")


class NotFound(_Untold, pa.ArrowKeyError):  # type: ignore[misc]  # pyarrow has no types
    """Becomes NOT_FOUND."""


class InvalidArgument(_Untold, pa.ArrowInvalid):  # type: ignore[misc]  # pyarrow has no types
    """Becomes INVALID_ARGUMENT."""


class Unauthenticated(_Untold, fl.FlightUnauthenticatedError):  # type: ignore[misc]  # pyarrow has no types
    """Becomes UNAUTHENTICATED."""


class Unauthorized(_Untold, fl.FlightUnauthorizedError):  # type: ignore[misc]  # pyarrow has no types
    """Becomes PERMISSION_DENIED."""


class Unavailable(_Untold, fl.FlightUnavailableError):  # type: ignore[misc]  # pyarrow has no types
    """Becomes UNAVAILABLE."""


class TimedOut(_Untold, fl.FlightTimedOutError):  # type: ignore[misc]  # pyarrow has no types
    """Becomes DEADLINE_EXCEEDED."""


class Internal(_Untold, fl.FlightInternalError):  # type: ignore[misc]  # pyarrow has no types
    """Becomes INTERNAL."""


@dataclass(frozen=True, slots=True)
class _StreamEnd(JsonMessage):
    """The reason of the end of a stream: the class of the error, and its text."""

    message_name: ClassVar[str] = "end of stream"
    refuses_others: ClassVar[bool] = False

    error: str
    text: str


def tagged_text(error: BarrageError) -> str:
    """The text of a status: the text of the error, and its class in brackets."""
    return encodable(f"{error} [{error_name(error)}]")


def to_flight(error: BarrageError) -> Exception:
    """The exception to raise in Flight for ``error``, with its text and class."""
    text = tagged_text(error)
    if isinstance(error, errors.NotFoundError):
        return NotFound(text)
    if isinstance(error, errors.AuthenticationError):
        return Unauthenticated(text)
    if isinstance(error, errors.ForbiddenError):
        return Unauthorized(text)
    if isinstance(error, errors.UnavailableError | errors.LimitError):
        return Unavailable(text)
    if isinstance(error, errors.DeadlineError):
        return TimedOut(text)
    if isinstance(
        error, errors.InvalidRequestError | errors.AlreadyExistsError | errors.PublishError | errors.ReadOnlyError
    ):
        return InvalidArgument(text)
    return Internal(text)


def from_flight(error: BaseException) -> BarrageError:
    """The error of this package for an exception of a ``pyarrow.flight`` client.

    Errors of other servers, and of the connection, get the class of their status.
    """
    if isinstance(error, BarrageError):
        return error
    text = str(error)
    made = from_tagged(text)
    if made is not None:
        return made
    text = printable(_HEAD.sub("", _TAIL.sub("", text), count=1))
    return _of_deephaven(text) or _class_for(error)(text or type(error).__name__)


def from_status(status: str, text: str) -> BarrageError:
    """The error of this package for a gRPC status with that name and text."""
    return (
        from_tagged(text)
        or _of_deephaven(text)
        or _STATUSES.get(status, errors.InternalError)(printable(text) or status)
    )


def from_tagged(text: str) -> BarrageError | None:
    """The error in a text of :func:`tagged_text`; None for texts of other makes."""
    tagged = _TAGGED.fullmatch(text)
    if tagged is None or tagged["name"] not in _CLASSES:
        return None
    made = error_of(tagged["name"], tagged["text"])
    if isinstance(made, errors.AuthenticationError):
        made.is_final = True
    return made


def _of_deephaven(text: str) -> BarrageError | None:
    """The error for a text of Deephaven's servers that is reworded; None for others."""
    for pattern, kind, words in _DEEPHAVEN:
        found = pattern.search(text)
        if found is not None:
            return kind(words.format(*found.groups()))
    return None


def is_told(error: BaseException) -> bool:
    """Whether the other end raised this error, so that there was a connection."""
    return from_tagged(str(error)) is not None


def other_protocol(error: BarrageError, address: str) -> errors.InvalidRequestError | None:
    """The error for a program of another protocol; None if it may be unreachable."""
    text = str(error)
    for pattern, words in _OTHER_PROTOCOLS:
        if pattern.search(text):
            return errors.InvalidRequestError(words.format(address=address))
    return None


def encode_end(error: BarrageError) -> bytes:
    """app_metadata with the reason why the server is about to end a stream.

    A server handler that waits for the client's next request cannot return an error before that request, so the reason
    is sent first, in a message without a batch. A client that knows it closes the stream, and raises the error of
    :func:`decode_end`.
    """
    return _END + _StreamEnd(error_name(error), encodable(str(error))).to_json()


def decode_end(app_metadata: bytes) -> BarrageError | None:
    """The reason in a message of :func:`encode_end`; ``None`` for other messages."""
    if not app_metadata.startswith(_END):
        return None
    end = _StreamEnd.from_json(app_metadata[len(_END) :])
    return error_of(end.error, end.text)


def error_name(error: BarrageError) -> str:
    """The nearest public class, which both ends know."""
    return next(entry.__name__ for entry in type(error).__mro__ if entry.__name__ in _CLASSES)


def error_of(name: str, text: str) -> BarrageError:
    """The error of the class ``name``, which the other end has named."""
    made = _CLASSES.get(name, BarrageError)(printable(text))
    assert isinstance(made, BarrageError)
    return made


def _class_for(error: BaseException) -> type[BarrageError]:
    kinds: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], type[BarrageError]], ...] = (
        # servers of other makes refuse wrong credentials by either status
        ((fl.FlightUnauthenticatedError, fl.FlightUnauthorizedError), errors.AuthenticationError),
        ((fl.FlightUnavailableError, fl.FlightCancelledError, pa.ArrowCancelled), errors.UnavailableError),
        (fl.FlightTimedOutError, errors.DeadlineError),
        (fl.FlightWriteSizeExceededError, errors.MessageTooLargeError),
        (pa.ArrowKeyError, errors.NotFoundError),
        (pa.ArrowNotImplementedError, errors.UnsupportedOperationError),
        ((pa.ArrowInvalid, pa.ArrowTypeError), errors.InvalidRequestError),
        (KeyboardInterrupt, errors.UnavailableError),
        (OSError, errors.UnavailableError),
    )
    for kind, ours in kinds:
        if isinstance(error, kind):
            return ours
    return errors.InternalError

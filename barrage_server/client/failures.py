"""Translation of pyarrow's exceptions to errors of this package."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
import pyarrow.flight as flight

from barrage_server.errors import (
    AuthenticationError,
    BarrageError,
    InternalError,
    LimitError,
    UnavailableError,
    UnsupportedOperationError,
)
from barrage_server.flight.errors import from_flight, is_told

__all__ = ["is_passing", "refusal_in", "release", "translated", "typed_error"]

logger = logging.getLogger("barrage_server.client")

# Failures that Arrow and gRPC tell by their text only, not by a class.
_WORDS: Final[tuple[tuple[str, type[BarrageError]], ...]] = (
    ("RESOURCE_EXHAUSTED", LimitError),
    ("UNIMPLEMENTED", UnsupportedOperationError),
    ("Connection reset", UnavailableError),
    ("Socket closed", UnavailableError),
    ("Stream removed", UnavailableError),
    ("Broken pipe", UnavailableError),
    ("GOAWAY", UnavailableError),
)

# Hints for texts of gRPC that have another usual cause than a server that is away.
_HINTS: Final = (
    (
        re.compile(r"CERTIFICATE_VERIFY_FAILED|certificate verify failed|Hostname Verification"),
        "the certificate is not trusted, or is for another name: pass its authority's certificate as tls_root_certs=",
    ),
    (
        re.compile(r"is not in peer certificate"),
        "connect by a name that the certificate is for",
    ),
)
# The hints for a connection that is closed at once, without TLS and with it.
_CLOSED: Final = re.compile(r"failed to connect to all addresses.*(Socket closed|Connection reset|recvmsg)")
_CLOSED_HINT: Final = "is it a port for TLS (grpc+tls://), or for browsers?"
_CLOSED_TLS_HINT: Final = (
    "does it want a client certificate (tls_certificate=, tls_key=), one of an authority that it trusts?"
)
_TLS_SCHEMES: Final = ("grpc+tls://", "dh://")


def typed_error(error: BaseException, address: str = "") -> BarrageError:
    """Return the error of this package for an exception of pyarrow.flight.

    Errors of this package are returned unchanged.

    Args:
        error: the exception.
        address: the server's address, for the text of a lost connection.
    """
    if isinstance(error, BarrageError):
        return error
    found = from_flight(error)
    raw = str(error)
    if type(found) is InternalError:
        kind = next((kind for word, kind in _WORDS if word in raw), InternalError)
        found = kind(str(found))
    if isinstance(found, UnavailableError) and address and not is_told(error):
        reason = str(found).strip(". ") or "a message may have been larger than the connection allows"
        hint = _hint(reason, address)
        reason = f"{reason}; {hint}" if hint else reason
        stop = "" if reason.endswith("?") else "."
        found = UnavailableError(f"No connection to {address}: {reason}{stop}")
    if type(found) is UnsupportedOperationError and str(found) == type(error).__name__:
        where = address or "the server"
        found = UnsupportedOperationError(
            f"{where} is an Arrow Flight server that does not offer this: it knows no Barrage."
        )
    return found


def _hint(reason: str, address: str) -> str:
    """What may be the cause of a failed connection; empty for unknown reasons."""
    hint = next((words for pattern, words in _HINTS if pattern.search(reason)), "")
    if hint or not _CLOSED.search(reason):
        return hint
    return _CLOSED_TLS_HINT if address.startswith(_TLS_SCHEMES) else _CLOSED_HINT


@contextmanager
def translated(address: str = "") -> Iterator[None]:
    """Translate exceptions of pyarrow.flight in the ``with`` body.

    pyarrow raises KeyboardInterrupt for a cancelled stream when it reads on the main thread; its cause distinguishes it
    from Ctrl-C.
    """
    try:
        yield
    except (flight.FlightError, pa.ArrowException, OSError) as error:
        # The log gets the original, with the details of Arrow and gRPC.
        logger.debug("%s answered", address or "the server", exc_info=error)
        raise typed_error(error, address) from None
    except KeyboardInterrupt as error:
        cause = error.__cause__ or error.__context__
        if isinstance(cause, (flight.FlightError, pa.ArrowException)):
            raise typed_error(cause, address) from None
        raise


def is_passing(error: BarrageError) -> bool:
    """Whether a later retry may succeed."""
    return isinstance(error, (UnavailableError, LimitError))


def refusal_in(error: BaseException | None) -> AuthenticationError | None:
    """The refusal of credentials that ``error`` is, or that caused it; None without."""
    if isinstance(error, AuthenticationError):
        return error
    cause = None if error is None else error.__cause__
    return cause if isinstance(cause, AuthenticationError) else None


def release(writer: flight.FlightStreamWriter) -> None:
    """Release the writing side of a cancelled exchange."""
    try:
        with translated():
            writer.close()
    except BarrageError as error:  # says that the exchange was cancelled
        logger.debug("an exchange was cancelled: %s", error)

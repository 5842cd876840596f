"""Which failures of a connection are what, for somebody who uses the client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
import pyarrow.flight as flight

from barrage_server.errors import BarrageError, InternalError, LimitError, UnavailableError, UnsupportedOperationError
from barrage_server.flight_errors import from_flight

__all__ = ["is_passing", "translated", "typed_error"]

# Where Arrow and gRPC put a failure of the connection into no class of its own, their text tells.
_WORDS: Final[tuple[tuple[str, type[BarrageError]], ...]] = (
    ("RESOURCE_EXHAUSTED", LimitError),
    ("UNIMPLEMENTED", UnsupportedOperationError),
    ("Connection reset", UnavailableError),
    ("Socket closed", UnavailableError),
    ("Stream removed", UnavailableError),
    ("Broken pipe", UnavailableError),
    ("GOAWAY", UnavailableError),
)


def typed_error(error: BaseException, address: str = "") -> BarrageError:
    """The error of this package for what pyarrow.flight raised; one of this package is returned as it is.

    Args:
        error: the exception.
        address: who was spoken to, for the text of a lost connection.
    """
    if isinstance(error, BarrageError):
        return error
    found = from_flight(error)
    raw = str(error)
    if type(found) is InternalError:
        kind = next((kind for word, kind in _WORDS if word in raw), InternalError)
        found = kind(str(found))
    if isinstance(found, UnavailableError) and address:
        reason = str(found).strip(". ") or "a message may have been larger than the connection allows"
        found = UnavailableError(f"no connection to {address}: {reason}")
    return found


@contextmanager
def translated(address: str = "") -> Iterator[None]:
    """Raise whatever pyarrow.flight raises in the ``with`` body as the error of this package that it stands for.

    pyarrow turns a cancelled stream into KeyboardInterrupt when it reads on the main thread; that one is told from the
    user's Ctrl-C by its cause.
    """
    try:
        yield
    except (flight.FlightError, pa.ArrowException, OSError) as error:
        raise typed_error(error, address) from error
    except KeyboardInterrupt as error:
        cause = error.__cause__ or error.__context__
        if isinstance(cause, (flight.FlightError, pa.ArrowException)):
            raise typed_error(cause, address) from error
        raise


def is_passing(error: BarrageError) -> bool:
    """Whether trying again later may help although nobody changes anything."""
    return isinstance(error, (UnavailableError, LimitError))

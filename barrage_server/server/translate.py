"""The boundary: nothing but typed errors with safe texts leaves the server."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from barrage_server.errors import AuthenticationError, BarrageError, InternalError
from barrage_server.flight.errors import to_flight
from barrage_server.log import Throttle

__all__ = ["boundary", "guarded", "safe_error"]

logger = logging.getLogger("barrage_server.server")

Item = TypeVar("Item")

# Lines at once, and a second after that: of refused log-ins, which strangers can cause, and of other refusals.
_LOG_INS: Final = Throttle(20, 0.2)
_REFUSALS: Final = Throttle(200, 20.0)


def safe_error(error: BaseException, doing: str, peer: str) -> BarrageError:
    """The error for the client: our own errors unchanged; for others, an id of the log."""
    if isinstance(error, AuthenticationError):
        _log(_LOG_INS, logging.WARNING, "authentication of %s refused at %s: %s", peer, doing, error)
        return error
    if isinstance(error, BarrageError):
        _log(_REFUSALS, logging.INFO, "%s for %s refused: %s: %s", doing, peer, type(error).__name__, error)
        return error
    error_id = secrets.token_hex(4)
    logger.error("%s for %s failed, error id %s", doing, peer, error_id, exc_info=error)
    return InternalError(f"The server failed in {doing}. Its log has the details under the id {error_id}.")


def _log(throttle: Throttle, level: int, text: str, *args: object) -> None:
    """Log a refusal, unless there are too many: a caller without credentials must not fill a disk."""
    if not logger.isEnabledFor(level):
        return
    held_back = throttle.admit()
    if held_back is not None:
        logger.log(level, text + (f" (and {held_back:,} more, not shown)" if held_back else ""), *args)


@contextmanager
def boundary(doing: str, peer: str) -> Iterator[None]:
    """Turn the errors of the ``with`` body into errors for Flight."""
    try:
        yield
    except Exception as error:  # this is the boundary: a foreign exception would take its traceback to the client
        raise to_flight(safe_error(error, doing, peer)) from None


def guarded(items: Iterator[Item], doing: str, peer: str) -> Iterator[Item]:
    """The same for what is made while it is being sent."""
    with boundary(doing, peer):
        yield from items

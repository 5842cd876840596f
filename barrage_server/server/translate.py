"""The boundary: nothing but typed errors with safe texts leaves the server."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from barrage_server.errors import BarrageError, InternalError
from barrage_server.flight_errors import to_flight

__all__ = ["boundary", "guarded", "safe_error"]

logger = logging.getLogger("barrage_server.server")

Item = TypeVar("Item")


def safe_error(error: BaseException, doing: str, peer: str) -> BarrageError:
    """What a client may know of ``error``: our own errors as they are; of others, an id that the log has too."""
    if isinstance(error, BarrageError):
        logger.info("%s for %s refused: %s: %s", doing, peer, type(error).__name__, error)
        return error
    error_id = secrets.token_hex(4)
    logger.error("%s for %s failed, error id %s", doing, peer, error_id, exc_info=error)
    return InternalError(f"The server failed in {doing}. Its log has the details under the id {error_id}.")


@contextmanager
def boundary(doing: str, peer: str) -> Iterator[None]:
    """Turn whatever the ``with`` body raises into what Flight may send."""
    try:
        yield
    except Exception as error:  # this is the boundary: a foreign exception would take its traceback to the client
        raise to_flight(safe_error(error, doing, peer)) from None


def guarded(items: Iterator[Item], doing: str, peer: str) -> Iterator[Item]:
    """The same for what is made while it is being sent."""
    with boundary(doing, peer):
        yield from items

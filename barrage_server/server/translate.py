"""The boundary of the server: only typed errors with safe texts leave it."""

from __future__ import annotations

import logging
import secrets
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TypeVar

from barrage_server.errors import AuthenticationError, BarrageError, ForbiddenError, InternalError
from barrage_server.flight.errors import to_flight
from barrage_server.log import CallFacts, Throttle, about, call_facts, one_line, serving_call

__all__ = ["UNKNOWN_PEER", "boundary", "error_counts", "guarded", "safe_error"]

logger = logging.getLogger("barrage_server.server")

Item = TypeVar("Item")

UNKNOWN_PEER: Final = "a caller whose address Flight does not tell"

# Most lines at once, and per second: for refusals that callers without credentials can cause, and for others.
_LOG_INS: Final = Throttle(20, 0.2)
_REFUSALS: Final = Throttle(200, 20.0)
_REASON_CHARACTERS: Final = 300
"""Most characters of the reason of a refused authentication in the log."""

_counts: Final[Counter[str]] = Counter()
_counts_lock: Final = threading.Lock()


def error_counts() -> Mapping[str, int]:
    """Number of errors that servers of this process have sent to clients, by class."""
    with _counts_lock:
        return dict(_counts)


def safe_error(error: BaseException, doing: str, peer: str) -> BarrageError:
    """The error for the client: a BarrageError unchanged, a fault as an id.

    A fault is any other exception, or an :class:`InternalError`, as of a user's function. The log has its traceback
    under the id. That of a failed table has an id already: its cycle logged it, once for all subscribers.

    The returned error has no traceback: its frames would keep the objects of the call alive until the next garbage
    collection, which an idle process may never run.
    """
    return _safe_error(error, doing, peer).with_traceback(None)


def _safe_error(error: BaseException, doing: str, peer: str) -> BarrageError:
    with _counts_lock:
        _counts[_public_class(error)] += 1
    if isinstance(error, AuthenticationError):
        why = f" ({one_line(error.reason, _REASON_CHARACTERS)})" if error.reason else ""
        _LOG_INS.log(logger, logging.WARNING, "authentication of %s refused at %s: %s%s", peer, doing, error, why)
        return error
    if isinstance(error, BarrageError) and (not isinstance(error, InternalError) or error.error_id):
        throttle = _LOG_INS if call_facts().get("principal") is None else _REFUSALS
        level = logging.DEBUG if isinstance(error, ForbiddenError) and error.is_routine else logging.INFO
        throttle.log(logger, level, "%s for %s refused: %s: %s", doing, peer, type(error).__name__, error)
        return error
    error_id = call_facts().get("request_id") or secrets.token_hex(8)
    logger.error("%s for %s failed, error id %s", doing, peer, error_id, exc_info=error, extra={"request_id": error_id})
    if isinstance(error, InternalError):
        return type(error)(error.text, error_id)
    return InternalError(f"The server failed in {doing}.", error_id)


def _public_class(error: BaseException) -> str:
    """The name of the nearest public class of an error, of which there are few."""
    known = (kind.__name__ for kind in type(error).__mro__ if kind.__module__ == BarrageError.__module__)
    return next(known, InternalError.__name__)


@contextmanager
def boundary(doing: str, peer: str) -> Iterator[None]:
    """Serve one call in the ``with`` body: log a request id, raise errors of Flight."""
    with serving_call(None if peer == UNKNOWN_PEER else peer):
        try:
            yield
        except Exception as error:  # the boundary: Flight would send the traceback of a foreign exception to the client
            raise to_flight(safe_error(error, doing, peer)) from None


def guarded(items: Iterator[Item], doing: str, peer: str, facts: CallFacts) -> Iterator[Item]:
    """The items, made while they are sent; errors of making them become Flight's.

    Args:
        items: makes the items.
        doing: the action that the log names.
        peer: the client's address.
        facts: the facts of the call for the log.

    """
    try:
        yield from items
    except Exception as error:
        with about(facts):
            raise to_flight(safe_error(error, doing, peer)) from None

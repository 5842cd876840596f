"""The boundary: nothing but typed errors with safe texts leaves the server."""

from __future__ import annotations

import logging
import secrets
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TypeVar

from barrage_server.errors import AuthenticationError, BarrageError, InternalError, TableFailedError
from barrage_server.flight.errors import to_flight
from barrage_server.log import CallFacts, Throttle, about, call_facts, serving_call

__all__ = ["UNKNOWN_PEER", "boundary", "error_counts", "guarded", "identified", "safe_error"]

logger = logging.getLogger("barrage_server.server")

Item = TypeVar("Item")

UNKNOWN_PEER: Final = "a caller whose address Flight does not tell"

# Lines at once, and a second after that: of what callers without credentials can cause, and of other refusals.
_LOG_INS: Final = Throttle(20, 0.2)
_REFUSALS: Final = Throttle(200, 20.0)

_counts: Final[Counter[str]] = Counter()
_counts_lock: Final = threading.Lock()


def error_counts() -> Mapping[str, int]:
    """Errors that clients were given by the servers of this process, by class."""
    with _counts_lock:
        return dict(_counts)


def safe_error(error: BaseException, doing: str, peer: str) -> BarrageError:
    """The error for the client: our own errors unchanged; for faults, an id that the log has too.

    A fault is an exception of another tree, or an :class:`InternalError`, such as that of a user's function. The log
    has its traceback. That of a failed table was logged by its cycle, once for all subscribers.

    It has no traceback: the frames hold what the call has worked on, and one that keeps the error would keep them all
    until the garbage collector comes, which an idle process may never call.
    """
    return _safe_error(error, doing, peer).with_traceback(None)


def _safe_error(error: BaseException, doing: str, peer: str) -> BarrageError:
    with _counts_lock:
        _counts[_public_class(error)] += 1
    if isinstance(error, AuthenticationError):
        _log(_LOG_INS, logging.WARNING, "authentication of %s refused at %s: %s", peer, doing, error)
        return error
    error_id = _error_id()
    if isinstance(error, BarrageError):
        error = identified(error, error_id)
    if isinstance(error, BarrageError) and (not isinstance(error, InternalError) or error_id in str(error)):
        throttle = _LOG_INS if call_facts().get("principal") is None else _REFUSALS
        _log(throttle, logging.INFO, "%s for %s refused: %s: %s", doing, peer, type(error).__name__, error)
        return error
    logger.error("%s for %s failed, error id %s", doing, peer, error_id, exc_info=error, extra={"request_id": error_id})
    if isinstance(error, InternalError):
        return InternalError(_with_id(error, error_id))
    return InternalError(f"The server failed in {doing}. {_where(error_id)}")


def identified(error: BarrageError, error_id: str = "") -> BarrageError:
    """The error of a failed table with an id, that of the call when none is given; others as they are."""
    return type(error)(_with_id(error, error_id or _error_id())) if isinstance(error, TableFailedError) else error


def _error_id() -> str:
    return call_facts().get("request_id") or secrets.token_hex(8)


def _with_id(error: BarrageError, error_id: str) -> str:
    """The text of ``error`` with the id, once: an error of a part of a call passes here again with the whole call."""
    return str(error) if error_id in str(error) else f"{error} {_where(error_id)}"


def _where(error_id: str) -> str:
    return f"The server's log has the details under the id {error_id}."


def _log(throttle: Throttle, level: int, text: str, *args: object) -> None:
    """Log a refusal, unless there are too many: a caller without credentials must not fill a disk."""
    if not logger.isEnabledFor(level):
        return
    held_back = throttle.admit()
    if held_back is not None:
        logger.log(level, text + (f" (and {held_back:,} more, not shown)" if held_back else ""), *args)


def _public_class(error: BaseException) -> str:
    """The public class of an error, of which there are few."""
    known = (kind.__name__ for kind in type(error).__mro__ if kind.__module__ == BarrageError.__module__)
    return next(known, InternalError.__name__)


@contextmanager
def boundary(doing: str, peer: str) -> Iterator[None]:
    """Serve one call in the ``with`` body: with a request id for its log, and with errors turned into Flight's."""
    with serving_call(None if peer == UNKNOWN_PEER else peer):
        try:
            yield
        except Exception as error:  # this is the boundary: a foreign exception would take its traceback to the client
            raise to_flight(safe_error(error, doing, peer)) from None


def guarded(items: Iterator[Item], doing: str, peer: str, facts: CallFacts) -> Iterator[Item]:
    """Turn the errors of what is made while it is being sent into errors for Flight. ``facts``: of the call."""
    try:
        yield from items
    except Exception as error:
        with about(facts):
            raise to_flight(safe_error(error, doing, peer)) from None

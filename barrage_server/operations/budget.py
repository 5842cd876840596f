"""The limit on the state of the operations that are made now."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from barrage_server.byte_sizes import shown_apart
from barrage_server.errors import LimitError

__all__ = ["budget", "check_bytes", "most_bytes"]

_most: Final[ContextVar[float]] = ContextVar("most_bytes", default=math.inf)


@contextmanager
def budget(nbytes: float) -> Iterator[None]:
    """Limit operators made in the ``with`` body to ``nbytes`` of state each."""
    token = _most.set(nbytes)
    try:
        yield
    finally:
        _most.reset(token)


def most_bytes() -> float:
    """The limit of an operator that is made now, in bytes.

    Operators that cannot estimate their state beforehand check it themselves.
    """
    return _most.get()


def check_bytes(taken: float, most: float) -> None:
    """Raise LimitError if an operator takes more bytes than its limit."""
    if taken > most:
        shown, bound = shown_apart(taken, most)
        raise LimitError(
            f"The result would take {shown}, and {bound} is the most (result_bytes). Compute from fewer rows, or keep "
            f"fewer columns: 'view' and 'update_view' store nothing."
        )

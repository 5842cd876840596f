"""The bytes of state that the operations which are made now may have."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from barrage_server.errors import LimitError

__all__ = ["budget", "check_bytes", "most_bytes"]

_most: Final[ContextVar[float]] = ContextVar("most_bytes", default=math.inf)


@contextmanager
def budget(nbytes: float) -> Iterator[None]:
    """Let operators that are made in the ``with`` body have no more than ``nbytes`` of state each."""
    token = _most.set(nbytes)
    try:
        yield
    finally:
        _most.reset(token)


def most_bytes() -> float:
    """What an operator that is made now may have; operators that cannot know beforehand ask for it."""
    return _most.get()


def check_bytes(taken: float, most: float) -> None:
    """Raise LimitError when an operator takes, or would take, more bytes than it may have."""
    if taken > most:
        raise LimitError(
            f"The result would take {_shown(taken)} MiB, and {_shown(most)} MiB is the most (result_bytes). Compute "
            f"from fewer rows, or keep fewer columns: 'view' and 'update_view' store nothing."
        )


def _shown(nbytes: float) -> str:
    return f"{math.ceil(nbytes / (1 << 20)):,}"

"""Interruption of long work, which calls a check between its pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

__all__ = ["check_interrupt", "interruptible"]

_check: Final[ContextVar[Callable[[], object] | None]] = ContextVar("interrupt", default=None)


@contextmanager
def interruptible(check: Callable[[], object]) -> Iterator[None]:
    """End the work of the ``with`` body with the error of ``check()``, if it raises."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


def check_interrupt() -> None:
    """Call the innermost check. For long work, between two pieces."""
    check = _check.get()
    if check is not None:
        check()

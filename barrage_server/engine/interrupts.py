"""How what takes long is broken off: between two pieces of its work it asks whether it shall go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

__all__ = ["check_interrupt", "interruptible"]

_check: Final[ContextVar[Callable[[], object] | None]] = ContextVar("interrupt", default=None)


@contextmanager
def interruptible(check: Callable[[], object]) -> Iterator[None]:
    """Break off the work of the ``with`` body with the error that ``check()`` raises, if it raises one."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


def check_interrupt() -> None:
    """Raise what the innermost check raises. To be called between two pieces of work."""
    check = _check.get()
    if check is not None:
        check()

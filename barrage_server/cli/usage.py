"""Errors of a command line or of settings, before a command does anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from barrage_server.errors import InvalidRequestError

__all__ = ["UsageError", "usage"]


class UsageError(InvalidRequestError):
    """The command line or the settings are wrong; nothing was done. Exit code 2.

    Args:
        text: what is wrong, and what to do.
        has_help: whether the command's help tells more about it.
    """

    def __init__(self, text: str = "", *, has_help: bool = True) -> None:
        super().__init__(text)
        self.has_help = has_help


@contextmanager
def usage() -> Iterator[None]:
    """Turn an InvalidRequestError of a check in the body into a UsageError."""
    try:
        yield
    except UsageError:
        raise
    except InvalidRequestError as error:
        raise UsageError(str(error)) from error

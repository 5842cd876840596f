"""Errors of a command line or of settings, as opposed to failures while a command runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from barrage_server.errors import InvalidRequestError

__all__ = ["UsageError", "usage"]


class UsageError(InvalidRequestError):
    """The command line or the settings are wrong, and nothing was done. The exit code is 2."""


@contextmanager
def usage() -> Iterator[None]:
    """Turn an InvalidRequestError of the ``with`` body, which only checks arguments, into a UsageError."""
    try:
        yield
    except UsageError:
        raise
    except InvalidRequestError as error:
        raise UsageError(str(error)) from error

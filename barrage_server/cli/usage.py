"""What is wrong with a command line or with settings, told apart from what fails while a command runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from barrage_server.errors import InvalidRequestError

__all__ = ["UsageError", "usage"]


class UsageError(InvalidRequestError):
    """The command line or the settings cannot be right: nothing was done. The command ends with exit code 2."""


@contextmanager
def usage() -> Iterator[None]:
    """Turn an InvalidRequestError of the ``with`` body, which only looks at what was given, into a UsageError."""
    try:
        yield
    except UsageError:
        raise
    except InvalidRequestError as error:
        raise UsageError(str(error)) from error

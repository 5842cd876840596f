"""Texts for the errors that scripts raise."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType
from typing import Final

import barrage_server

__all__ = ["error_text", "unshown_text"]

_MOST_ERRORS: Final = 100
"""Most errors of one chain in a text: the last ones."""
_PACKAGE: Final = str(Path(barrage_server.__file__).parent)


def error_text(error: BaseException, file: str) -> str:
    """The traceback of an error, from the first frame of the script.

    The script's own code that formats its errors runs here; it may raise anything, and take long. Only the last 100
    errors of a chain are told.

    Args:
        error: the error.
        file: the prefix of the file names of scripts.

    """
    found: TracebackType | None = error.__traceback__
    while found is not None and not found.tb_frame.f_code.co_filename.startswith(file):
        found = found.tb_next
    is_cut = _cut(error)
    told = traceback.TracebackException(type(error), error, found, compact=True)
    _leave_out_own(told)
    text = "".join(told.format()).rstrip()
    return f"... (earlier errors are left out) ...\n\n{text}" if is_cut else text


def unshown_text(error: BaseException) -> str:
    """A text for an error that cannot be shown. Runs no code of the script."""
    name = type.__dict__["__name__"].__get__(type(error))  # a metaclass may override it
    return f"The script raised {str.__str__(name)}, which cannot be shown."


def _cut(error: BaseException) -> bool:
    """Cut the chain of an error, followed as by ``traceback``; whether it was longer."""
    seen = {id(error)}
    for number in range(_MOST_ERRORS):
        before = error.__cause__
        if before is None or id(before) in seen:
            before = None if error.__suppress_context__ else error.__context__
        if before is None or id(before) in seen:
            return False
        if number == _MOST_ERRORS - 1:
            error.__cause__ = error.__context__ = None
            return True
        seen.add(id(before))
        error = before
    return False


def _leave_out_own(told: traceback.TracebackException | None) -> None:
    """Remove the frames of this package from a traceback: its errors say what to do."""
    while told is not None:
        kept = [frame for frame in told.stack if not frame.filename.startswith(_PACKAGE)]
        told.stack = traceback.StackSummary.from_list(kept)
        told = told.__cause__ or told.__context__

"""Errors of scripts are told from the script on, and within bounds."""

from __future__ import annotations

import pytest

from barrage_server.server.console.error_text import error_text, unshown_text


def chain(length: int, link: str) -> BaseException:
    """The last error of a chain of ``length``; its ``link`` is the one before it."""
    error = ValueError("error 1 of the chain")
    for number in range(2, length + 1):
        later = ValueError(f"error {number} of the chain")
        setattr(later, link, error)
        error = later
    return error


@pytest.mark.parametrize("link", ["__cause__", "__context__"])
def test_the_last_errors_of_a_chain_are_told(link: str) -> None:
    whole = error_text(chain(100, link), "<")
    assert whole.count("of the chain") == 100
    assert "left out" not in whole
    cut = error_text(chain(30_000, link), "<")
    assert cut.startswith("... (earlier errors are left out) ...")
    assert cut.count("of the chain") == 100
    assert cut.endswith("error 30000 of the chain")


def test_a_chain_may_be_a_circle() -> None:
    error = chain(3, "__cause__")
    assert error.__cause__ is not None
    assert error.__cause__.__cause__ is not None
    error.__cause__.__cause__.__cause__ = error
    assert error_text(error, "<").count("of the chain") == 3


def test_causes_go_before_contexts() -> None:
    error = chain(2, "__context__")
    error.__cause__ = KeyError("the cause")
    text = error_text(error, "<")
    assert "the cause" in text
    assert "error 1 of the chain" not in text


def test_an_error_that_cannot_be_shown_has_a_name() -> None:
    class Named(type):
        @property
        def __name__(cls) -> str:  # type: ignore[override]  # as a script may
            raise ValueError

    class WrongError(Exception, metaclass=Named):
        def __str__(self) -> str:
            raise ValueError

    assert unshown_text(WrongError()) == "The script raised WrongError, which cannot be shown."

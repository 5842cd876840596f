"""Checks of the credentials and headers that users give for their calls.

No text of an error has a value: it may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from barrage_server.arguments import class_with_article, shown, unbroken
from barrage_server.errors import InvalidRequestError

__all__ = ["check_header_value", "check_headers", "check_text"]

_BINARY: Final = "-bin"
"""End of names of headers whose values gRPC encodes, so that they may have any bytes."""
_NAME: Final = re.compile(r"[0-9A-Za-z_.-]+")
_VALUE: Final = re.compile(r"[ -~]*")


def check_text(value: Any, what: str) -> None:
    """Check that ``value`` is a string of characters.

    Raises:
        InvalidRequestError: it is not.

    """
    if not isinstance(value, str):
        raise InvalidRequestError(f"{what} must be a string, not {class_with_article(value)}.")
    unbroken(value, what)


def check_headers(headers: Any) -> None:
    """Check that gRPC can send ``headers``: a mapping of names to values, or None.

    Raises:
        InvalidRequestError: it cannot.

    """
    if headers is None:
        return
    if not isinstance(headers, Mapping) or not all(
        isinstance(name, str) and isinstance(value, str) for name, value in headers.items()
    ):
        raise InvalidRequestError("headers must be a mapping of names to strings.")
    for name, value in headers.items():
        if _NAME.fullmatch(name) is None:
            raise InvalidRequestError(
                f"headers must have names of ASCII letters, digits, '_', '-' and '.'; {shown(name)} is none."
            )
        check_header_value(value, f"The value of {shown(name)} in headers", is_binary=name.lower().endswith(_BINARY))


def check_header_value(value: str, what: str, *, is_binary: bool = False) -> None:
    """Check that gRPC can send ``value`` in a header.

    Args:
        value: the value.
        what: the name of the argument, as the beginning of a sentence.
        is_binary: whether it is sent as UTF-8, whatever its characters.

    Raises:
        InvalidRequestError: it cannot.

    """
    if is_binary:
        unbroken(value, what)
    elif _VALUE.fullmatch(value) is None:
        raise InvalidRequestError(f"{what} must be printable ASCII: letters, digits, signs and spaces.")

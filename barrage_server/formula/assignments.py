"""The texts of assignments, ``New = formula``."""

from __future__ import annotations

from barrage_server.errors import InvalidRequestError
from barrage_server.formula.lexer import Text, TokenKind, tokens

__all__ = ["rename_pair", "split_assignment"]


def split_assignment(text: str) -> tuple[str, Text]:
    """The name and the formula of ``C = A + B``; the name twice for a name alone.

    Errors of the formula tell places in the assignment.

    Raises:
        InvalidRequestError: the text is neither.

    """
    read = list(tokens(text))
    if read[0].kind is not TokenKind.NAME:
        raise Text(text).error(read[0].at, "An assignment begins with the name of a column, as in 'C = A + B'.")
    name = text[read[0].at : read[0].end]
    if read[1].kind is TokenKind.END:
        return name, Text(name, text, read[0].at)
    if read[1].kind is not TokenKind.OPERATOR or read[1].text != "=":
        raise Text(text).error(read[1].at, "After the name of the new column there must be a '=', as in 'C = A + B'.")
    if read[2].kind is TokenKind.END:
        raise Text(text).error(read[2].at, f"There is no formula for '{name}'.")
    start = read[2].at
    return name, Text(text[start:].rstrip(), text, start)


def rename_pair(text: str) -> tuple[str, str]:
    """The new and the old name of ``New = Old``.

    Raises:
        InvalidRequestError: the text is something else.

    """
    if isinstance(text, str):
        new, sign, old = text.partition("=")
        if sign and new.strip() and old.strip() and "=" not in old:
            return new.strip(), old.strip()
    raise InvalidRequestError(f"A renaming is written as 'New = Old', not as {str(text)[:60]!r}.")

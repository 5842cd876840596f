"""Tokens of a formula."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from barrage_server.arguments import shown
from barrage_server.errors import InvalidRequestError, LimitError
from barrage_server.fixed_limits import FORMULA_CHARACTERS

__all__ = ["Text", "Token", "TokenKind", "tokens"]

_AROUND: Final = 30
"""Characters that errors show before and after a place."""


class TokenKind(Enum):
    """The kinds of tokens."""

    NUMBER = auto()
    NAME = auto()
    STRING = auto()
    QUOTED = auto()
    OPERATOR = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """A token with its place; strings are without quotes and escapes."""

    kind: TokenKind
    text: str
    at: int
    end: int


@dataclass(frozen=True, slots=True)
class Text:
    """The text of a formula, and where it was written.

    Attributes:
        text: the formula.
        whole: what the user wrote, of which the formula is a part; the formula without.
        start: where the formula begins in it.

    """

    text: str
    whole: str | None = None
    start: int = 0

    @classmethod
    def of(cls, text: str | Text) -> Text:
        """The text of a formula that may be a string."""
        return text if isinstance(text, Text) else cls(text)

    def error(
        self, at: int, problem: str, error: type[InvalidRequestError | LimitError] = InvalidRequestError
    ) -> InvalidRequestError | LimitError:
        """An error that quotes the text around a place.

        Args:
            at: the index of the character in the formula; errors tell that in all that was written.
            problem: the first sentence.
            error: the class of the error.

        """
        written = self.text if self.whole is None else self.whole
        at += self.start
        start, stop = max(at - _AROUND, 0), at + _AROUND
        before = ("..." if start else "") + written[start:at]
        after = written[at:stop] + ("..." if stop < len(written) else "")
        quoted = _CONTROL.sub(lambda found: repr(found[0])[1:-1], f"{before}»{after}")
        return error(f"{problem} This is at character {at + 1} of the formula: {quoted}")


_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""What would break the line of an error."""
_PATTERN: Final = re.compile(
    r"""
      (?P<SPACE>\s+)
    | (?P<NUMBER>(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+)[lL]?
        |(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9][0-9_]*)?[fFdDlL]?)
    | (?P<NAME>[^\W\d][\w$]*|\$[\w$]*)
    | (?P<STRING>`(?:[^`\\]|\\.)*`|"(?:[^"\\]|\\.)*")
    | (?P<QUOTED>'[^'\\]*'|'\\(?:u[0-9a-fA-F]{4}|.)')
    | (?P<OPERATOR>>>>|&&|\|\||[=!<>]=|<<|>>|[-+*/%()<>!~&|^?:,.=]|\[|\])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPES: Final = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "b": "\b",
    "f": "\f",
    "0": "\0",
    **{sign: sign for sign in "\\\"'`"},
}
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_OTHERS: Final = {"`": "a string without its closing `", '"': 'a string without its closing "', "'": "a ' alone"}


def tokens(written: str | Text) -> Iterator[Token]:
    """The tokens of a text, followed by one for the end.

    Raises:
        InvalidRequestError: a character begins none.
        LimitError: the text is too long.

    """
    source = Text.of(written)
    text = source.text
    if not isinstance(text, str):
        raise InvalidRequestError(f"A formula is a string, not {shown(text)}.")
    if len(text) > FORMULA_CHARACTERS.most:
        raise LimitError(
            f"A formula has at most {FORMULA_CHARACTERS.most:,} characters ({FORMULA_CHARACTERS.name}); this one has "
            f"{len(text):,}."
        )
    at = 0
    while at < len(text):
        match = _PATTERN.match(text, at)
        if match is None:
            found = _OTHERS.get(text[at], f"{text[at]!r}, which begins nothing that a formula has")
            raise source.error(at, f"There is {found}.")
        kind, word, end = str(match.lastgroup), match[0], match.end()
        if kind == "NUMBER" and end < len(text) and (text[end].isalnum() or text[end] in "_$"):
            raise source.error(at, f"{word + text[end]!r} is neither a number nor a name.")
        if kind in ("STRING", "QUOTED"):
            word = _unescaped(source, at + 1, word[1:-1])
        if kind != "SPACE":
            yield Token(TokenKind[kind], word, at, end)
        at = end
    yield Token(TokenKind.END, "", len(text), len(text))


def _character(text: Text, at: int, match: re.Match[str]) -> str:
    """The character of an escape in quotes that begin before ``at``."""
    escape = match[1]
    if len(escape) == 5:
        return chr(int(escape[1:], 16))
    if escape not in _ESCAPES:
        raise text.error(
            at + match.start(), f"'\\{escape}' is no escape. A backslash itself is written twice: '\\\\{escape}'."
        )
    return _ESCAPES[escape]


def _unescaped(text: Text, at: int, inner: str) -> str:
    """The content of quotes with Java's escapes undone."""
    if "\\" not in inner:
        found = inner
    else:
        found = _ESCAPE.sub(lambda match: _character(text, at, match), inner)
        # a pair of escapes is one character beyond the basic plane
        found = found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if any("\ud800" <= character <= "\udfff" for character in found):
        raise text.error(at, "There is half a surrogate pair, which is no character.")
    return found

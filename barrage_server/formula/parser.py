"""A Pratt parser, which makes syntax trees of formulas."""

from __future__ import annotations

from typing import Final

from barrage_server.errors import LimitError
from barrage_server.fixed_limits import FORMULA_DEPTH, FORMULA_PARTS
from barrage_server.formula.hints import attribute_hint, token_hint, type_hint
from barrage_server.formula.kinds import STRING, Kind
from barrage_server.formula.lexer import Text, Token, TokenKind, tokens
from barrage_server.formula.literals import CONSTANTS, number, quoted
from barrage_server.formula.syntax import Form, Node

__all__ = ["CASTS", "TIME_CASTS", "WORDS", "parse"]

CASTS: Final = ("boolean", "byte", "short", "char", "int", "long", "float", "double", "String")
TIME_CASTS: Final = ("Instant", "LocalDate", "LocalTime", "Duration")
"""Classes that are cast to, too. Columns may have their names: ``(Instant) - x`` is no cast, as in Java."""
WORDS: Final = ("null", "true", "false")
"""Constants that no column can be named as; columns go before the others."""
_BOXED: Final = {
    "Boolean": "boolean",
    "Byte": "byte",
    "Short": "short",
    "Character": "char",
    "Integer": "int",
    "Long": "long",
    "Float": "float",
    "Double": "double",
}
_CHOICE, _RELATION, _SHIFT, _UNARY = 1, 8, 9, 12
_BINARY: Final = {
    "||": 2,
    "&&": 3,
    "|": 4,
    "^": 5,
    "&": 6,
    "==": 7,
    "!=": 7,
    "=": 7,
    "<": _RELATION,
    "<=": _RELATION,
    ">": _RELATION,
    ">=": _RELATION,
    "<<": _SHIFT,
    ">>": _SHIFT,
    ">>>": _SHIFT,
    "+": 10,
    "-": 10,
    "*": 11,
    "/": 11,
    "%": 11,
}
_MEMBERSHIP: Final = (("icase", "not", "in"), ("not", "in"), ("icase", "in"), ("in",))
_MEMBERSHIP_WORDS: Final = ("icase", "not", "in")


def parse(text: str | Text) -> Node:
    """The syntax tree of a formula.

    Raises:
        InvalidRequestError: the text is no formula; says where, what was found, and what would fit.
        LimitError: it is too long, nested too deep, or has too many nodes.

    """
    parser = _Parser(text)
    tree = parser.expression(0)
    parser.expect_end()
    return tree


class _Parser:
    """The tokens of a formula and the position of the next one."""

    def __init__(self, text: str | Text) -> None:
        self._tokens = list(tokens(text))
        self._text = Text.of(text)
        self._next = 0
        self._depth = 0
        self._nodes = 0

    def expression(self, least: int) -> Node:
        """An expression of operators that bind at least as strong as ``least``."""
        self._depth += 1
        if self._depth > FORMULA_DEPTH.most:
            raise self._text.error(
                self._peek().at,
                f"A formula is nested at most {FORMULA_DEPTH.most} levels deep ({FORMULA_DEPTH.name}).",
                LimitError,
            )
        found = self._operators(self._postfix(self._prefix()), least)
        self._depth -= 1
        return found

    def expect_end(self) -> None:
        """Check that nothing follows."""
        token = self._peek()
        if token.kind is TokenKind.END:
            return
        if token.text == ")":
            raise self._text.error(token.at, "This ')' closes nothing.")
        raise self._unexpected(token, "an operator or the end of the formula")

    def _operators(self, left: Node, least: int) -> Node:
        while True:
            token = self._peek()
            words = self._membership()
            if words and least <= _RELATION:
                left = self._in(left, words)
            elif token.kind is not TokenKind.OPERATOR:
                return left
            elif token.text == "?" and least <= _CHOICE:
                self._next += 1
                first = self.expression(0)
                self._take(":", "between the two values of '?'")
                left = self._node(Form.CHOICE, token.at, "?", (left, first, self.expression(_CHOICE)))
            elif _BINARY.get(token.text, -1) >= max(least, 0):
                self._next += 1
                right = self.expression(_BINARY[token.text] + 1)
                left = self._node(Form.BINARY, token.at, "==" if token.text == "=" else token.text, (left, right))
            else:
                return left

    def _in(self, left: Node, words: tuple[str, ...]) -> Node:
        at = self._peek().at
        self._next += len(words)
        items = [self.expression(_SHIFT)]
        while self._peek().text == "," and self._peek().kind is TokenKind.OPERATOR:
            self._next += 1
            items.append(self.expression(_SHIFT))
        return self._node(Form.IN, at, " ".join(words), (left, *items))

    def _membership(self) -> tuple[str, ...]:
        """The words of the form of ``in`` that follows, or nothing."""
        if self._peek().kind is not TokenKind.NAME:
            return ()
        ahead = tuple(
            token.text if token.kind is TokenKind.NAME else "" for token in self._tokens[self._next : self._next + 3]
        )
        return next((words for words in _MEMBERSHIP if ahead[: len(words)] == words), ())

    def _prefix(self) -> Node:
        token = self._peek()
        self._next += 1
        kind = token.kind
        if kind is TokenKind.NUMBER:
            return self._number(token, 1)
        if kind is TokenKind.STRING:
            return self._node(Form.LITERAL, token.at, value=token.text, literal=STRING)
        if kind is TokenKind.QUOTED:
            try:
                value, literal = quoted(token.text)
            except ValueError as error:
                raise self._text.error(token.at, str(error)) from None
            return self._node(Form.LITERAL, token.at, value=value, literal=literal)
        if kind is TokenKind.NAME:
            return self._name(token)
        if token.text == "(":
            return self._parenthesis(token)
        if token.text in ("-", "+", "!", "~"):
            after = self._peek()
            if token.text == "-" and after.kind is TokenKind.NUMBER:
                self._next += 1
                return self._number(after, -1)
            return self._node(Form.UNARY, token.at, token.text, (self.expression(_UNARY),))
        self._next -= 1
        raise self._unexpected(token, "a column, a value or a function")

    def _number(self, token: Token, sign: int) -> Node:
        try:
            value, literal = number(token.text, sign)
        except ValueError as error:
            raise self._text.error(token.at, str(error)) from None
        return self._node(Form.LITERAL, token.at, value=value, literal=literal)

    def _name(self, token: Token) -> Node:
        if token.text in WORDS:
            value, literal = CONSTANTS[token.text]
            return self._node(Form.LITERAL, token.at, value=value, literal=literal)
        if token.text == "new":
            raise self._text.error(token.at, "Formulas make no objects.")
        if self._is_operator("("):
            return self._node(Form.CALL, token.at, token.text, self._arguments())
        return self._node(Form.NAME, token.at, token.text)

    def _parenthesis(self, token: Token) -> Node:
        inner, after, operand = (self._tokens[min(self._next + each, len(self._tokens) - 1)] for each in range(3))
        target = _BOXED.get(inner.text, inner.text)
        is_cast = target in CASTS or (target in TIME_CASTS and _begins(operand))
        if inner.kind is TokenKind.NAME and is_cast and after.text == ")" and after.kind is TokenKind.OPERATOR:
            self._next += 2
            return self._node(Form.CAST, token.at, target, (self.expression(_UNARY),))
        if inner.kind is TokenKind.NAME and after.text == ")" and _follows_cast(operand):
            raise self._text.error(
                inner.at,
                f"There is no type '{inner.text[:40]}' to cast to.{type_hint(inner.text[:40], (*CASTS, *TIME_CASTS))}",
            )
        opened = self._tokens[self._next - 2] if self._next > 1 else None
        found = self.expression(0)
        if self._is_operator(","):
            raise self._unexpected(self._peek(), "')' after the expression in parentheses", token_hint(opened, token))
        self._take(")", "after the expression in parentheses")
        return found

    def _postfix(self, found: Node) -> Node:
        while True:
            token = self._peek()
            if self._is_operator("["):
                self._next += 1
                index = self.expression(0)
                self._take("]", "after the index")
                found = self._node(Form.INDEX, token.at, "[]", (found, index))
            elif self._is_operator("."):
                self._next += 1
                name = self._peek()
                if name.kind is not TokenKind.NAME:
                    raise self._unexpected(name, "the name of a method")
                self._next += 1
                found = self._member(found, name)
            else:
                return found

    def _member(self, found: Node, name: Token) -> Node:
        if self._is_operator("("):
            return self._node(Form.METHOD, name.at, name.text, (found, *self._arguments()))
        path = f"{found.text}.{name.text}"
        if found.form is Form.NAME and path in CONSTANTS:
            value, literal = CONSTANTS[path]
            return self._node(Form.LITERAL, found.at, value=value, literal=literal)
        raise self._text.error(
            name.at,
            f"Formulas read no attributes: '.{name.text}' must be a method, with parentheses."
            + attribute_hint(name.text),
        )

    def _arguments(self) -> tuple[Node, ...]:
        self._take("(", "before the arguments")
        found: list[Node] = []
        if not self._is_operator(")"):
            found.append(self.expression(0))
            while self._is_operator(","):
                self._next += 1
                found.append(self.expression(0))
        self._take(")", "after the arguments")
        return tuple(found)

    def _node(
        self,
        form: Form,
        at: int,
        text: str = "",
        children: tuple[Node, ...] = (),
        value: object = None,
        literal: Kind | None = None,
    ) -> Node:
        self._nodes += 1
        if self._nodes > FORMULA_PARTS.most:
            raise LimitError(
                f"A formula has at most {FORMULA_PARTS.most:,} operators, names and values ({FORMULA_PARTS.name})."
            )
        return Node(form, at, text, children, value, literal)

    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _is_operator(self, text: str) -> bool:
        token = self._peek()
        return token.kind is TokenKind.OPERATOR and token.text == text

    def _take(self, text: str, where: str) -> None:
        if not self._is_operator(text):
            raise self._unexpected(self._peek(), f"'{text}' {where}")
        self._next += 1

    def _unexpected(self, token: Token, fitting: str, hint: str | None = None) -> Exception:
        found = "ends" if token.kind is TokenKind.END else f"has {self._text.text[token.at : token.end][:40]!r}"
        before = self._tokens[self._next - 1] if self._next else None
        hint = token_hint(before, token) if hint is None else hint
        return self._text.error(token.at, f"The formula {found} where {fitting} would fit.{hint}")


def _follows_cast(token: Token) -> bool:
    """Whether ``token`` follows ``(name)`` only if that is a cast."""
    if token.kind is TokenKind.NAME:
        return token.text not in _MEMBERSHIP_WORDS and not token_hint(None, token)
    if token.kind is TokenKind.OPERATOR:
        return token.text == "("
    return token.kind is not TokenKind.END


def _begins(token: Token) -> bool:
    """Whether ``token`` can begin the operand of a cast to a class.

    Signs and binary operators cannot.
    """
    if token.kind is TokenKind.NAME:
        return token.text not in _MEMBERSHIP_WORDS
    return token.text in ("(", "!", "~") if token.kind is TokenKind.OPERATOR else token.kind is not TokenKind.END

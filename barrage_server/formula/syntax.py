"""Syntax trees: formulas before names and types are looked up."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from barrage_server.formula.kinds import Kind

__all__ = ["Form", "Node"]


class Form(Enum):
    """The kinds of nodes."""

    LITERAL = "literal"
    NAME = "name"
    CALL = "call"
    METHOD = "method"
    INDEX = "index"
    UNARY = "unary"
    BINARY = "binary"
    CAST = "cast"
    CHOICE = "choice"
    IN = "in"


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a syntax tree.

    Attributes:
        form: what it is.
        at: where the token begins that makes it what it is.
        text: the operator, the name, or the type of a cast; for ``IN`` one of its four forms.
        children: operands and arguments; a method's receiver, and the left side of ``IN``, is the first one.
        value: of a literal, in the units of its kind.
        kind: of a literal.

    """

    form: Form
    at: int
    text: str = ""
    children: tuple[Node, ...] = ()
    value: Any = None
    kind: Kind | None = None

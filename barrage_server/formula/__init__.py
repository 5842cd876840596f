"""Formulas: from text over typed steps to values. Text never runs as code."""

from __future__ import annotations

from barrage_server.formula.assignments import rename_pair, split_assignment
from barrage_server.formula.functions import Functions, UserFunction
from barrage_server.formula.lexer import Text
from barrage_server.formula.program import Formula, compile_condition, compile_formula

__all__ = [
    "Formula",
    "Functions",
    "Text",
    "UserFunction",
    "compile_condition",
    "compile_formula",
    "rename_pair",
    "split_assignment",
]

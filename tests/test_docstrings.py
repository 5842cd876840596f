"""How docstrings are written: the first line is a sentence of its own that fits on a line."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "barrage_server"
LONGEST = 79
"""Characters of a first line."""
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def first_lines(source: str) -> Iterator[tuple[int, str]]:
    """The line number and the first line of each docstring of modules, classes and functions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _DOCUMENTED):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text.splitlines()[0]


def is_short_sentence(line: str) -> bool:
    return len(line) <= LONGEST and line.endswith((".", ":", "?"))


def test_a_docstring_begins_with_a_short_sentence() -> None:
    faults = [
        f"{path.relative_to(PACKAGE.parent)}:{number}: {line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if not path.name.endswith("_pb2.py")
        for number, line in first_lines(path.read_text(encoding="utf-8"))
        if not is_short_sentence(line)
    ]
    assert not faults, "\n".join(faults)


def test_a_first_line_that_is_long_or_breaks_off_is_found() -> None:
    long = f'def long():\n    """{"x" * LONGEST}."""\n'
    broken = 'class Broken:\n    """A sentence that\n    goes on."""\n'
    source = f'"""A module."""\n{long}{broken}'
    found = [(number, is_short_sentence(line)) for number, line in first_lines(source)]
    assert sorted(found) == [(1, True), (2, False), (4, False)]

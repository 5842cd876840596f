"""How docstrings are written: a first line that is a sentence, and arguments that there are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "barrage_server"
LONGEST = 79
"""Characters of a first line."""
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_ARGS = re.compile(r"^Args:\n((?: +.*\n?|\n)*)", re.MULTILINE)
_NAMES = re.compile(r"^    (\*{0,2}\w+(?:, \*{0,2}\w+)*):", re.MULTILINE)


def first_lines(source: str) -> Iterator[tuple[int, str]]:
    """The line number and the first line of each docstring of modules, classes and functions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _DOCUMENTED):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text.splitlines()[0]


def is_short_sentence(line: str) -> bool:
    return len(line) <= LONGEST and line.endswith((".", ":", "?"))


def unknown_arguments(source: str) -> Iterator[tuple[int, str]]:
    """The line number and the name of what docstrings tell of as arguments, and is none.

    A class whose constructor is that of another class is left out.
    """
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        section = _ARGS.search(ast.get_docstring(node) or "")
        taken = arguments_of(node)
        if section is None or taken is None:
            continue
        for names in _NAMES.findall(section[1]):
            for name in names.replace("*", "").split(", "):
                if name not in taken:
                    yield node.lineno, name


def arguments_of(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> set[str] | None:
    """The names that a function takes, or the constructor of a class; ``None``: they stand elsewhere."""
    if isinstance(node, ast.ClassDef):
        for entry in node.body:
            if isinstance(entry, ast.FunctionDef) and entry.name in ("__init__", "__new__"):
                return arguments_of(entry)
        if node.bases:
            return None
        return {it.target.id for it in node.body if isinstance(it, ast.AnnAssign) and isinstance(it.target, ast.Name)}
    return {it.arg for it in ast.walk(node.args) if isinstance(it, ast.arg)}


def test_the_arguments_of_a_docstring_are_those_of_its_function() -> None:
    faults = [
        f"{path.relative_to(PACKAGE.parent)}:{number}: {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for number, name in unknown_arguments(path.read_text(encoding="utf-8"))
    ]
    assert not faults, "\n".join(faults)


def test_an_argument_that_a_function_does_not_take_is_found() -> None:
    told = '"""A sentence.\n\n    Args:\n        right: one.\n        wrong, *others: two.\n    """'
    function = f"def function(right, *others):\n    {told}\n"
    plain = f"class Plain:\n    {told}\n\n    right: int\n"
    made = f"class Made:\n    {told}\n\n    def __init__(self, right, others): pass\n"
    inherited = f"class Inherited(Made):\n    {told}\n"
    found = sorted(unknown_arguments(function + plain + made + inherited))
    assert found == [(1, "wrong"), (8, "others"), (8, "wrong"), (17, "wrong")]


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

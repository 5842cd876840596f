"""Errors of public calls and of the command line are sentences: a capital, or the name of an argument; a full stop."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import barrage_server
from barrage_server import errors

PACKAGE = Path(barrage_server.__file__).parent
# Their texts are parts of others: what came, and where, stands around them.
OF_PARTS = {"wire", "rowset"}
MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path.relative_to(PACKAGE).parts[0] not in OF_PARTS]
CLASSES = {*errors.__all__, "UsageError"}
BEGINS = re.compile(r"[^a-z]|[a-z_]+ (must|is|takes) |[a-z]+\(")
ENDS = (".", "?", "}", ")")
PARTS = {"a value is not of type {}: {}", "the cell was never written", "the end does not come after the start"}


def text_of(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return None


def texts(module: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rsplit(".", 1)[-1] in CLASSES and node.args:
            text = text_of(node.args[0])
            if text is not None and text not in PARTS:
                yield node.lineno, text


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.relative_to(PACKAGE)))
def test_errors_are_sentences(module: Path) -> None:
    wrong = [(line, text) for line, text in texts(module) if not BEGINS.match(text) or not text.endswith(ENDS)]
    assert wrong == []

"""Every test that the page on reliability names exists, and every line of its table on bad input names one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text()
NAMED = re.findall(r"`(tests/[\w/]+\.py)::([\w:]+)`", PAGE)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def names_in(path: Path) -> set[str]:
    """The names by which pytest takes the tests of a file, with those of their classes."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{each.name}" for each in node.body if isinstance(each, _FUNCTIONS)}
        elif isinstance(node, _FUNCTIONS):
            found.add(node.name)
    return found


def test_the_tests_that_it_names_exist() -> None:
    assert len(NAMED) > 20
    for path, name in NAMED:
        assert name in names_in(ROOT / path), f"{path}::{name}"


def test_every_line_on_bad_input_is_shown_by_a_test() -> None:
    section = PAGE.partition("## Bad input")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    assert len(lines) > 20
    assert [line for line in lines if "::test_" not in line] == []

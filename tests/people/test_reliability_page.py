"""Every test that the page on reliability names exists, and every line of its table on bad input names one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text()
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)


def test_the_tests_that_it_names_exist() -> None:
    assert len(NAMED) > 20
    for path, name in NAMED:
        functions = {
            node.name for node in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(node, ast.FunctionDef)
        }
        assert name in functions, f"{path}::{name}"


def test_every_line_on_bad_input_is_shown_by_a_test() -> None:
    section = PAGE.partition("## Bad input")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    assert len(lines) > 20
    assert [line for line in lines if "::test_" not in line] == []

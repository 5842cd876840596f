"""``docs/queries.md`` lists every function, method, constant and operator of the language, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from barrage_server.formula import compile_formula
from barrage_server.formula.catalog import FUNCTIONS, METHODS
from barrage_server.formula.literals import CONSTANTS

PAGE = (Path(__file__).parents[2] / "docs" / "queries.md").read_text().partition("### Numbers, null")
LANGUAGE, LISTS = PAGE[0], PAGE[2].partition("### Registered")[0]
OF_A_FAMILY = re.compile(r"(MIN|MAX)_(BYTE|SHORT|LONG)|(NAN|POS_INFINITY|NEG_INFINITY)_FLOAT|(Integer|Long|Double)\..*")


def test_every_function_is_listed_with_all_its_forms() -> None:
    merged: dict[str, int] = {}
    for row in re.findall(r"^\| (`[^|]*) \|", LISTS, re.MULTILINE):
        name = re.split(r"[`(]", row)[1]
        merged[name] = merged.get(name, 0) + row.count("(")
    assert merged == {name: len(builtin.signatures) for name, builtin in FUNCTIONS.items()}


def test_every_method_is_listed() -> None:
    listed = set(re.findall(r"^\| [A-Z][^|`]* \| `(\w+)\(|^\| list[^|`]* \| `(\w+)\(", LISTS, re.MULTILINE))
    assert {first or second for first, second in listed} == set(METHODS)


def test_every_constant_is_listed() -> None:
    for name in CONSTANTS:
        assert f"`{name}`" in LANGUAGE or OF_A_FAMILY.fullmatch(name), name


LITERALS = LANGUAGE.partition("### Literals")[2].partition("### Operators")[0]


@pytest.mark.parametrize("row", re.findall(r"^\| (`.*?) \| .* \|$", LITERALS, re.MULTILINE))
def test_literals_of_the_page_parse(row: str) -> None:
    """Each one in the table of literals compiles: zones as an argument of ``year``, all others in a comparison."""
    for quoted, plain in re.findall(r"``\s?(.*?)\s?``(?!`)|`([^`]+)`", row):
        word = quoted or plain
        is_zone = "timeZone" in word or re.fullmatch(r"'([A-Z]+|Europe/Paris|[+]02:00)'", word)
        compile_formula(f"year('2024-06-15T10:00:00Z', {word})" if is_zone else f"{word} == null", {})

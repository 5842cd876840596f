"""Each text about a limit says which one it is and how much it allows."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import barrage_server
from barrage_server import fixed_limits
from barrage_server.fixed_limits import FixedLimit
from barrage_server.publish import StagingLimits
from barrage_server.rowset import MAX_KEY
from barrage_server.server import Limits
from barrage_server.wire.array_bound import MOST_ITEMS

PACKAGE = Path(barrage_server.__file__).parent
CLASSES = {"LimitError", "MessageTooLargeError"}
SETTINGS = {
    *(field.name for field in dataclasses.fields(Limits)),
    *(f"staging.{field.name}" for field in dataclasses.fields(StagingLimits)),
}
ROOT = PACKAGE.parent
FIXED = {key: limit for key, limit in vars(fixed_limits).items() if isinstance(limit, FixedLimit)}
NAMING = {"formula", "operations", "plan", "typed_json.py"}
"""Rooms in which each limit that no setting changes has a name; elsewhere a constant is enough."""
# Placeholders for the name of a limit.
NAMES = {
    **{f"{{{key}.name}}": {limit.name} for key, limit in FIXED.items()},
    "{limit.name}": {"plan_bytes", "plan_inputs", "plan_operations"},
    "{stream.kind}s": {"subscriptions", "uploads", "downloads", "pages"},
    "staging.{name}": {"staging.entry_bytes", "staging.caller_bytes", "staging.total_bytes"},
    "{name}": {"result_bytes", "total_result_bytes"},
    "{setting}": {"put_bytes", "staging.entry_bytes"},
    "{self._setting}": {"put_bytes", "staging.entry_bytes"},
    "{bound.limit}": {"call_bytes", "request_bytes", "header_bytes"},
}
NAMED = re.compile(r"\((?P<name>[^()]+?)(?:, and less without credentials)?\)")
CONSTANT = re.compile(r"\{[^{}]*\b_?[A-Z][A-Z_]{2,}\b[^{}]*\}")
TEXTS = {"refusal", "_refusal"}
"""Names of what has a text that is raised elsewhere."""
EXEMPT = {
    "process.py": "the operating system has the limit, and does not tell it",
}


def template(node: ast.expr) -> str | None:
    """A text with its placeholders, as ``at most {self._most:,}``; ``None`` for another expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
            for part in node.values
            if isinstance(part, ast.Constant | ast.FormattedValue)
        )
    return None


def is_refusal(node: ast.AST) -> bool:
    """Whether an expression has a text of one of the names that are checked where it is made."""
    return (isinstance(node, ast.Name) and node.id in TEXTS) or (isinstance(node, ast.Attribute) and node.attr in TEXTS)


def made(tree: ast.Module) -> Iterator[tuple[int, ast.expr]]:
    """The texts of limits, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called, first = ast.unparse(node.func), ast.unparse(node.args[0]) if node.args else ""
            if called in CLASSES and not is_refusal(node.args[0]):
                yield node.lineno, node.args[0]
            elif CLASSES & set(map(ast.unparse, node.args)):  # what makes an error of a class
                yield from ((node.lineno, text) for text in node.args if isinstance(text, ast.JoinedStr))
            elif first in ("LimitError.code", "grpc.StatusCode.RESOURCE_EXHAUSTED"):  # Status.of, context.abort
                yield from ((node.lineno, text) for text in node.args[1:2] if not is_refusal(text))
        elif isinstance(node, ast.Assign) and any(map(is_refusal, node.targets)):
            values = [node.value.body, node.value.orelse] if isinstance(node.value, ast.IfExp) else [node.value]
            yield from ((node.lineno, value) for value in values if isinstance(value, ast.JoinedStr))
        elif isinstance(node, ast.FunctionDef) and node.name in TEXTS:
            for inner in ast.walk(node):
                if isinstance(inner, ast.Return) and isinstance(inner.value, ast.JoinedStr):
                    yield inner.lineno, inner.value


def names_limit_and_value(text: str, module: str = "") -> bool:
    """Whether a text names a limit and a value; in some rooms a constant is enough."""
    if module.partition("/")[0] not in NAMING and CONSTANT.search(text):
        return True
    known = SETTINGS | {limit.name for limit in FIXED.values()}
    named = [found["name"] for found in NAMED.finditer(text)]
    return any(NAMES.get(name, {name}) <= known for name in named) and "{" in NAMED.sub("", text)


MODULES = {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
LIMITED = {name: texts for name, tree in MODULES.items() if (texts := list(made(tree)))}


@pytest.mark.parametrize("module", LIMITED)
def test_a_text_about_a_limit_names_it_and_its_value(module: str) -> None:
    wrong = [
        (line, text)
        for line, node in LIMITED[module]
        if module not in EXEMPT
        and ((text := template(node)) is None or not names_limit_and_value(text, module))
        and f"{module}:{text}" not in EXEMPT
    ]
    assert wrong == []


def test_the_texts_are_found() -> None:
    """Those of all ways to raise one: by class, by status, and by a text that is made elsewhere."""
    assert sum(map(len, LIMITED.values())) > 80
    assert {"server/results.py", "server/made_tables.py", "server/deephaven/web_socket.py", "wire/reader.py"} <= set(
        LIMITED
    )
    assert {key for key in EXEMPT if key.partition(":")[0] not in LIMITED} == set()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("There are too many.", False),
        ("There are {count}, and {self._most} is the most.", False),
        ("There are too many (uploads).", False),
        ("Row {rows[0]} is too far out, by 3.", False),
        ("{self._most} may be open (uploads).", True),
        ("{self._most} may be open (no_setting).", False),
        ("{size:,} bytes are more than {_MOST:,}.", True),
        ("The {limit} of this (staging.{name}).", True),
        ("{FORMULA_STEPS.most:,} steps are the most.", True),
    ],
)
def test_what_counts_as_named(text: str, expected: bool) -> None:
    assert names_limit_and_value(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{FORMULA_STEPS.most:,} steps are the most ({FORMULA_STEPS.name}).", True),
        ("{FORMULA_STEPS.most:,} steps are the most (formula_steps).", True),
        ("{FORMULA_STEPS.most:,} steps are the most (formula_step).", False),
        ("{FORMULA_STEPS.most:,} steps are the most.", False),
        ("There are too many steps ({FORMULA_STEPS.name}).", False),
        ("{size:,} bytes are more than {_MOST:,}.", False),
        ("{rows:,} rows are more than {most:,} (request_bytes).", True),
    ],
)
def test_what_counts_as_named_where_limits_have_names(text: str, expected: bool) -> None:
    assert names_limit_and_value(text, "formula/steps.py") is expected


def shown(limit: FixedLimit) -> str:
    """A value as the table of the page has it."""
    powers = {1 << 24: "2²⁴", 1 << 31: "2³¹", (1 << 31) - 1: "2³¹ − 1", (1 << 63) - 1: "2⁶³ − 1", 1 << 26: "2²⁶"}
    is_mib = limit.name.endswith("bytes") and limit.most % (1 << 20) == 0
    return f"{limit.most >> 20:,} MiB" if is_mib else powers.get(limit.most, f"{limit.most:,}")


def test_the_page_lists_the_limits_that_no_setting_changes() -> None:
    page = (ROOT / "docs" / "queries.md").read_text().partition("\n## Limits\n")[2]
    listed = re.findall(r"^\| `(\w+)` \| ([^|]+?) \| \S", page, re.MULTILINE)
    assert listed == [(limit.name, shown(limit)) for limit in FIXED.values()]


def test_names_of_limits_are_those_of_one_limit() -> None:
    names = [limit.name for limit in FIXED.values()]
    assert len({*names, *SETTINGS}) == len(names) + len(SETTINGS)
    assert {key.lower() for key in FIXED} == set(names)


def test_limits_that_other_rooms_check_have_the_same_value() -> None:
    assert fixed_limits.ROW_KEY.most == MAX_KEY
    assert fixed_limits.LIST_ITEMS.most == MOST_ITEMS

"""What a table of many columns costs grows with them, and not with their square."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import barrage_server
from barrage_server.engine.table import check_schema
from barrage_server.errors import InvalidRequestError
from barrage_server.wire.java_names import java_names

PACKAGE = Path(barrage_server.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
LOOPS = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


def repeated(loop: ast.AST) -> Iterator[ast.AST]:
    """What a loop does again and again."""
    match loop:
        case ast.For() | ast.While():
            yield from loop.body
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
            yield loop.elt
        case ast.DictComp():
            yield from (loop.key, loop.value)
    for place, part in enumerate(getattr(loop, "generators", ())):
        yield from part.ifs
        if place:
            yield part.iter


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """A node and what is below it, but for what is done once because the loop ends with it."""
    if isinstance(node, ast.Raise | ast.Return):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from walk(child)


def asked_in_loops(source: str) -> set[str]:
    return {
        ast.unparse(node)
        for loop in ast.walk(ast.parse(source))
        if isinstance(loop, LOOPS)
        for part in repeated(loop)
        for node in walk(part)
        if isinstance(node, ast.Attribute)
        and node.attr in ("names", "types")
        and ast.unparse(node.value).split(".")[-1].endswith("schema")
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_loop_asks_a_schema_for_all_its_names(path: Path) -> None:
    """They are made anew each time; a loop over columns that asks for them is quadratic."""
    assert not asked_in_loops(path.read_text())


def test_such_loops_are_found() -> None:
    assert asked_in_loops("x = [n for n in given if n not in schema.names]") == {"schema.names"}
    assert asked_in_loops("for n in given:\n    use(table.schema.types[n])") == {"table.schema.types"}
    assert not asked_in_loops("x = [n for n in schema.names]")


def test_names_that_become_one_for_java_get_numbers_in_order() -> None:
    count = 50_000
    given = java_names(
        ["x2", *("x" + "!" * length for length in range(1, 4)), *(f"é{chr(0x4E00 + n)}" for n in range(9))]
    )
    assert given == ["x2", "x", "x3", "x4", *["column_", *(f"column_{n}" for n in range(2, 10))]]
    many = java_names([f"x{'é' * (n % 7)}{chr(0x4E00 + n // 7)}" for n in range(count)])
    assert many == ["x", *(f"x{n}" for n in range(2, count + 1))]


def test_names_that_stand_twice_are_told_in_order() -> None:
    schema = pa.schema([(f"c{number % 30_000}", pa.int8()) for number in range(60_000)])
    with pytest.raises(InvalidRequestError, match="more than once: c0, c1, c10, "):
        check_schema(schema)

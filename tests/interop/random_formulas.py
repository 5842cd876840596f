"""Random formulas and conditions that are valid for the columns of a table, with the same result on any server."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

__all__ = ["INTEGERS", "NUMBERS", "Column", "condition", "formula", "structured_condition"]

INTEGERS: Final = ("byte", "short", "int", "long")
NUMBERS: Final = (*INTEGERS, "float", "double")


@dataclass(frozen=True)
class Column:
    """What is known of a column.

    Attributes:
        type: Deephaven's name of the type; of lists the one of their items.
        exact: every server has the same bits: only then may rows be chosen, ordered or grouped by it.
        fine: small multiples of a quarter, whose sums in any order have no rounding errors.
        wild: there may be NaN and infinities.
        many: of a column of lists, what those have the same lengths in that have the same text.
    """

    type: str
    exact: bool = True
    fine: bool = False
    wild: bool = False
    many: str = ""

    @property
    def is_number(self) -> bool:
        """Whether cells are numbers."""
        return self.type in NUMBERS and not self.many

    @property
    def is_key(self) -> bool:
        """Whether rows can be chosen, ordered and grouped by it."""
        return self.exact and not self.many


def _wider(left: str, right: str) -> str:
    """The type of a sum."""
    return NUMBERS[max(NUMBERS.index(left), NUMBERS.index(right), NUMBERS.index("int"))]


def _of_one(name: str, column: Column) -> Iterator[tuple[str, Column]]:
    """Formulas of one column."""
    yield name, column
    yield f"isNull({name})", Column("boolean")
    if column.many:
        yield from _of_lists(name, column)
    elif column.is_number:
        yield from _of_number(name, column)
    elif column.type == "String":
        yield f"{name} + `_x`", column
        yield f"isNull({name}) ? `none` : {name}", column
        yield f"isNull({name}) ? -1 : {name}.length()", Column("int", fine=True)
        yield f"isNull({name}) ? null : {name}.toUpperCase()", column
    elif column.type == "Instant":
        yield f"{name} + SECOND", column
        yield f"{name} - 'PT1m'", column
        yield f"epochMillis({name})", Column("long")
        yield f"lowerBin({name}, 10 * SECOND)", column
        yield f"hourOfDay({name}, 'ET', true)", Column("int", fine=True)
        yield f"dayOfWeekValue({name}, 'UTC')", Column("int", fine=True)
    elif column.type == "boolean":
        yield f"isNull({name}) ? false : !{name}", column
        yield f"{name} == true", column
        yield f"isNull({name}) ? 0 : {name} ? 1 : 2", Column("int", fine=True)


def _of_number(name: str, column: Column) -> Iterator[tuple[str, Column]]:
    kind, whole = column.type, column.type in INTEGERS
    wide = replace(column, type=_wider(kind, "int"))
    yield f"{name} + 1", wide
    yield f"{name} - 0.5", replace(column, type="double")
    yield f"{name} * 2", replace(wide, fine=False)
    yield f"{name} / 4", Column("double", column.exact, wild=column.wild)
    yield f"{name} % 3", wide if whole else replace(wide, exact=False)
    if kind not in ("byte", "short"):
        yield f"-{name}", wide
    yield f"abs({name})", column
    yield f"(double){name}", replace(column, type="double")
    yield f"{name} > 0", Column("boolean", column.exact)
    yield f"{name} > 2 ? {name} : null", column
    yield f"isNull({name}) ? 0 : {name}", wide
    yield f"signum({name})", Column("int", column.exact and not column.wild, fine=True)
    yield f"isNaN({name})", Column("boolean", column.exact)
    if kind == "int":
        yield f"(long){name} * {name}", Column("long", column.exact)
        yield f"replaceIfNull({name}, 5)", column
        yield f"lowerBin({name}, 3)", column
        yield f"isNull({name}) ? `none` : String.valueOf({name})", Column("String", column.exact)
    if kind == "double":
        yield f"sqrt({name})", Column("double", exact=False, wild=True)
        yield f"floor({name})", column
        yield f"ceil({name})", column
        yield f"replaceIfNull({name}, 1.25)", column
        yield f"pow({name}, 2)", replace(column, fine=False, exact=False)
        if column.exact and not column.wild:
            yield f"(int){name}", Column("int", fine=column.fine)
            yield f"(long){name}", Column("long", fine=column.fine)
            yield f"round({name})", Column("long", fine=column.fine)


def _of_lists(name: str, column: Column) -> Iterator[tuple[str, Column]]:
    one = replace(column, many="")
    yield f"len({name})", Column("long", fine=True)
    if one.is_number:
        yield f"count({name})", Column("long", fine=True)
        yield f"first({name})", one
        yield f"last({name})", one
        yield f"reverse({name})", column
        total = "long" if one.type in INTEGERS else "double"
        yield f"sum({name})", Column(total, one.exact and one.fine, wild=one.wild)
        yield f"avg({name})", Column("double", exact=False, wild=True)
        yield f"min({name})", one
        yield f"max({name})", one
        yield f"median({name})", Column("double", exact=False, wild=True)
        yield f"countPos({name})", Column("long", one.exact)
        if one.fine:
            yield f"std({name})", Column("double", exact=False, wild=True)


def _of_two(left: str, one: Column, right: str, other: Column) -> Iterator[tuple[str, Column]]:
    """Formulas of two columns."""
    exact, wild = one.exact and other.exact, one.wild or other.wild
    if one.is_number and other.is_number:
        kind, fine = _wider(one.type, other.type), one.fine and other.fine
        yield f"{left} + {right}", Column(kind, exact, fine, wild)
        yield f"{left} - {right}", Column(kind, exact, fine, wild)
        if fine:
            yield f"{left} * {right}", Column(kind, exact, wild=wild)
        yield f"{left} / {right}", Column("double", exact, wild=True)
        yield f"{left} < {right}", Column("boolean", exact)
        yield f"{left} >= {right} ? {left} : {right}", Column(kind, exact, fine, wild)
        yield f"max({left}, {right})", Column(kind, exact, fine, wild)
        yield f"min({left}, {right})", Column(kind, exact, fine, wild)
        yield f"{left} == {right}", Column("boolean", exact)
    elif one.many or other.many:
        return
    elif one.type == other.type:
        yield f"isNull({left}) ? {right} : {left}", replace(one, exact=exact)
        yield f"{left} == {right}", Column("boolean", exact)
        if one.type == "String":
            yield f"{left} + {right}", Column("String", exact)
            yield f"{left} < {right}", Column("boolean", exact)
        if one.type == "Instant":
            yield f"{left} - {right}", Column("long", exact)
            yield f"isNull({left}) || {left} > {right}", Column("boolean", exact)


def formula(chance: random.Random, columns: Mapping[str, Column]) -> tuple[str, Column]:
    """A formula, and the column that it makes."""
    left, right = chance.choice(list(columns)), chance.choice(list(columns))
    found = list(_of_two(left, columns[left], right, columns[right])) if left != right else []
    if not found or chance.random() < 0.5:
        found = list(_of_one(left, columns[left]))
    return chance.choice(found)


def condition(chance: random.Random, columns: Mapping[str, Column]) -> str | None:
    """A condition as text; None if no column allows one."""
    keys = [name for name, column in columns.items() if column.is_key]
    if not keys:
        return None
    name = chance.choice(keys)
    column = columns[name]
    choices = [f"isNull({name})", f"!isNull({name})", f"{name} != null"]
    if column.is_number:
        bound = chance.choice([-3, 0, 1, 2, 10])
        choices = [f"{name} {sign} {bound}" for sign in ("<", "<=", ">", ">=", "==", "!=")]
        choices += [f"isNull({name}) || {name} > {bound}", f"{name} in 1, 2, 3", f"{name} not in 0, 1"]
        choices += [f"{name} > {bound} && {name} < 50", f"abs({name}) < 20", f"inRange({name}, -5, 40)"]
    elif column.type == "String":
        choices += [f"{name} == `A`", f"{name} != `B`", f"{name} in `A`, `b`", f"{name} not in `A`, `C`"]
        choices += [f"{name} icase in `a`, `B`", f"!isNull({name}) && {name}.startsWith(`A`)", f"{name} >= `B`"]
    elif column.type == "boolean":
        choices += [f"{name} == true", f"{name} != false"]
    elif column.type == "Instant":
        choices += [f"{name} > '2024-06-15T14:24:40Z'", f"{name} <= '2024-06-15T14:25:00Z'"]
    others = [other for other in keys if other != name and columns[other].type == column.type]
    if others:
        other = chance.choice(others)
        choices += [f"{name} == {other}", f"{name} != {other}", f"{name} <= {other}"]
    return chance.choice(choices)


def structured_condition(chance: random.Random, columns: Mapping[str, Column], depth: int = 2) -> str | None:
    """A condition as an expression of ``pydeephaven.filters``; None if no column allows one."""
    if depth and chance.random() < 0.4:
        kind = chance.choice(["and_", "or_", "not_"])
        parts = [structured_condition(chance, columns, depth - 1) for _ in range(1 if kind == "not_" else 2)]
        if None in parts:
            return None
        return f"filters.not_({parts[0]})" if kind == "not_" else f"filters.{kind}([{', '.join(map(str, parts))}])"
    keys = [name for name, column in columns.items() if column.is_key]
    if not keys:
        return None
    name = chance.choice(keys)
    column = columns[name]
    choices = [f"filters.is_null({name!r})", f"filters.is_not_null({name!r})"]
    compare = [f"filters.{sign}(filters.ColumnName({name!r}), " for sign in ("eq", "ne", "lt", "gt", "le", "ge")]
    if column.is_number:
        bound = chance.choice([-3, 0, 1, 10])
        choices += [f"{start}{bound})" for start in compare]
        choices += [f"filters.in_({name!r}, [1, 2, 7])"]
    elif column.type == "String":
        choices += [f"{start}'B')" for start in compare[:2]]  # Deephaven's fails at the others where one is null
        choices += [f"filters.in_({name!r}, ['A', 'b'])", f"filters.contains({name!r}, 'A')"]
        choices += [f"filters.matches({name!r}, '[AB].*')"]
    return chance.choice(choices)

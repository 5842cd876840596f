"""Random aggregations that are valid for the columns of a table."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from .random_formulas import INTEGERS, Column, condition

__all__ = ["aggregation_of_all", "aggregations"]

_ORDERED: Final = ("first", "last", "group", "sorted_first", "sorted_last")


def _sum_of(column: Column) -> Column:
    whole = column.type in INTEGERS or column.type == "boolean"
    return Column("long" if whole else column.type, column.exact and (whole or column.fine), wild=column.wild)


def _results(column: Column) -> Iterator[tuple[str, Column]]:
    """Aggregations without arguments of a column, and what they make of it."""
    average = Column("double", exact=False, wild=True)
    yield "first", column
    yield "last", column
    if column.many:
        return
    yield "group", replace(column, many="group")
    if column.exact:
        yield "count_distinct", Column("long", fine=True)
        yield "distinct", replace(column, many="distinct")
        yield "unique", column
    if column.is_number:
        yield "sum_", _sum_of(column)
        yield "abs_sum", _sum_of(column)
        yield "avg", average
        if column.type not in ("byte", "short"):  # of these, Deephaven's has no mean of two
            yield "median", replace(average, type="float" if column.type == "float" else "double")
        yield "pct", column
        if column.fine:
            yield "var", average
            yield "std", average
    if column.type != "boolean":
        yield "min_", column
        yield "max_", column


def aggregations(
    chance: random.Random, columns: Mapping[str, Column], name: Callable[[], str], *, ordered: bool
) -> list[tuple[str, dict[str, Column]]]:
    """Aggregations as calls, with the columns that they make; ``name`` makes names."""
    made: list[tuple[str, dict[str, Column]]] = []
    for _ in range(chance.randint(1, 4)):
        special = chance.random()
        if special < 0.1:
            new = name()
            made.append((f"agg.count_({new!r})", {new: Column("long", fine=True)}))
        elif special < 0.2:
            new, text = name(), condition(chance, columns)
            if text:
                made.append((f"agg.count_where({new!r}, {text!r})", {new: Column("long", fine=True)}))
        elif special < 0.35:
            made += _special(chance, columns, name, ordered=ordered)
        elif columns:
            old = chance.choice(list(columns))
            known = [one for one in _results(columns[old]) if ordered or one[0] not in _ORDERED]
            kind, result = chance.choice(known or [("", columns[old])])
            if kind:
                new = name()
                result = replace(result, many=result.many and new)
                made.append((f"agg.{kind}({_first(chance, kind)}'{new} = {old}'{_rest(chance, kind)})", {new: result}))
    return made


def _first(chance: random.Random, kind: str) -> str:
    return f"{chance.choice([0, 0.1, 0.25, 0.5, 0.9, 1])}, " if kind == "pct" else ""


def _rest(chance: random.Random, kind: str) -> str:
    # Without nulls, what Deephaven's says of a group that has nothing else depends on what the group has had before.
    if kind in ("count_distinct", "distinct"):
        return ", count_nulls=True" if kind == "count_distinct" else ", include_nulls=True"
    return ", include_nulls=True" if kind == "unique" and chance.random() < 0.5 else ""


def _special(
    chance: random.Random, columns: Mapping[str, Column], name: Callable[[], str], *, ordered: bool
) -> Iterator[tuple[str, dict[str, Column]]]:
    """An aggregation of two columns, or by a formula."""
    fine = [one for one, column in columns.items() if column.is_number and column.fine and not column.wild]
    keys = [one for one, column in columns.items() if column.is_key and column.type != "boolean"]
    new, kind = name(), chance.choice(["weighted_sum", "weighted_avg", "sorted_first", "sorted_last", "formula"])
    broken = [one for one in fine if columns[one].type in ("float", "double")]
    if kind.startswith("weighted") and broken:  # of two columns of integers Deephaven's takes null for a number
        weight, value = chance.choice(fine), chance.choice(broken)
        yield f"agg.{kind}({weight!r}, '{new} = {value}')", {new: Column("double", exact=False, wild=True)}
    elif kind.startswith("sorted") and keys and ordered:
        old = chance.choice(list(columns))
        yield f"agg.{kind}({chance.choice(keys)!r}, '{new} = {old}')", {new: columns[old]}
    elif kind == "formula" and fine:
        old = chance.choice(fine)
        whole = columns[old].type in INTEGERS
        text = chance.choice([f"max({old}) - min({old})", f"sum({old}) * 2 + count({old})"])
        yield f"agg.formula('{new} = {text}')", {new: Column("long" if whole else "double", exact=False, wild=True)}


def aggregation_of_all(
    chance: random.Random, columns: Mapping[str, Column], by: list[str], *, ordered: bool
) -> tuple[str, dict[str, Column]] | None:
    """A call that applies one aggregation to all columns, and those that it can be applied to; None without any."""
    kinds = ["sum_", "avg", "std", "var", "min_", "max_", "median", "abs_sum", "pct", "count_distinct", "distinct"]
    kind = chance.choice([*kinds, "unique", *(["first", "last"] if ordered else [])])
    made = {name: dict(_results(column))[kind] for name, column in columns.items() if kind in dict(_results(column))}
    if not made:
        return None
    short = f"{kind.rstrip('_')}_by"
    if kind in ("sum_", "avg", "std", "var", "min_", "max_", "median", "first", "last") and chance.random() < 0.5:
        return f"{short}({by!r})", made
    made = {name: replace(column, many=column.many and name) for name, column in made.items()}
    arguments = {"pct": "0.3", "count_distinct": "count_nulls=True", "distinct": "include_nulls=True"}.get(kind, "")
    return f"agg_all_by(agg.{kind}({arguments}), by={by!r})", made

"""The columns of a result, by formulas or by names of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from barrage_server.engine.schemas import unknown_column
from barrage_server.engine.table import Table
from barrage_server.errors import InvalidRequestError
from barrage_server.formula import Text
from barrage_server.operations.checks import (
    check_column_names,
    check_results,
    columns_by_name,
    known_columns,
)
from barrage_server.operations.columns import Computed, Layout
from barrage_server.operations.formula_view import Computation

__all__ = ["Compile", "check_positions", "has_positions", "of_formulas", "renamed", "without"]

Compile: TypeAlias = Callable[[Text, Mapping[str, pa.DataType]], Computation]
"""Compiles the text of a formula for columns of these types."""


def without(table: Table, names: Iterable[str]) -> Layout:
    """All columns except those with these names."""
    wanted = tuple(names)
    dropped = set(known_columns(table, wanted, "cols")) if wanted else set()
    return _of_places(table, [(name, place) for name, place in _places(table).items() if place not in dropped])


def renamed(table: Table, pairs: Sequence[tuple[str, str]]) -> Layout:
    """All columns, some renamed at once by pairs of the new and the old name."""
    known = _places(table)
    news: dict[int, str] = {}
    for new, old in pairs:
        if old not in known:
            raise unknown_column(old, known, table.name)
        if known[old] in news:
            raise InvalidRequestError(f"Column {old!r} cannot be renamed twice.")
        news[known[old]] = new
    return _of_places(table, [(news.get(place, name), place) for name, place in known.items()])


def of_formulas(
    table: Table, assignments: Sequence[tuple[str, Text]], compiled: Compile, *, keeps: bool, is_stored: bool
) -> Layout:
    """The results of formulas, with ``keeps`` beside all columns of the table.

    Args:
        table: the table.
        assignments: pairs of the name of a column and its formula, which may use results of those before it.
        compiled: compiles a formula.
        keeps: whether the result has the columns of the table that it does not name.
        is_stored: whether results are stored: otherwise formulas must give the same for the same values.

    Raises:
        InvalidRequestError: a formula does not compile, or is not allowed here.
        UnknownColumnError: a formula names a column that there is not.
        LimitError: there are too many formulas.

    """
    check_results("An operation", "formulas", len(assignments))
    places = _places(table)
    width = len(places)
    types = {field.name: field.type for field in table.schema}
    computed: list[Computed] = []
    result = dict(places) if keeps else {}
    for name, formula in assignments:
        made = compiled(formula, types)
        if made.column is not None:
            place = places[made.column]
        else:
            _check(made, table, formula.text, is_stored=is_stored)
            for column in made.arrays:
                if places[column] >= width:
                    raise InvalidRequestError(
                        f"{formula.text!r} reads column {column!r} by position, which the same operation computes. "
                        f"Compute it in an operation before."
                    )
            place = width + len(computed)
            inputs, arrays = (tuple(places[column] for column in names) for names in (made.columns, made.arrays))
            computed.append(Computed(made, inputs, arrays))
        places[name] = result[name] = place
        types[name] = table.schema.field(place).type if place < width else computed[place - width].computation.type
    return _of_places(table, list(result.items()), computed)


def has_positions(table: Table) -> bool:
    """Whether rows keep their positions for as long as they are in the table."""
    return not table.is_refreshing or table.traits.append_only or table.traits.is_blink


def check_positions(table: Table, formula: str) -> None:
    """Raise InvalidRequestError unless the rows of a table keep their positions."""
    if not has_positions(table):
        raise InvalidRequestError(
            f"{formula!r} depends on the positions of rows, which move in table '{table.name}'. Take a snapshot of it, "
            f"or use an append-only table."
        )


def _check(made: Computation, table: Table, formula: str, *, is_stored: bool) -> None:
    if made.positions:
        check_positions(table, formula)
    if not made.is_pure and not is_stored:
        raise InvalidRequestError(
            f"{formula!r} gives another result each time. Use it in 'update' or 'select', which store their results."
        )


def _places(table: Table) -> dict[str, int]:
    return columns_by_name(table.schema)


def _of_places(table: Table, result: Sequence[tuple[str, int]], computed: Sequence[Computed] = ()) -> Layout:
    """A layout with the computed columns that the result needs."""
    check_column_names(name for name, _ in result)
    if not result:
        raise InvalidRequestError("The result would have no columns.")
    width = len(table.schema)
    needed: set[int] = {place for _, place in result if place >= width}
    for number in reversed(range(len(computed))):
        if width + number in needed:
            needed.update(place for place in computed[number].inputs if place >= width)
    kept = [number for number in range(len(computed)) if width + number in needed]
    moved = {width + number: width + place for place, number in enumerate(kept)}
    columns = [
        Computed(
            computed[number].computation,
            tuple(moved.get(place, place) for place in computed[number].inputs),
            computed[number].arrays,
        )
        for number in kept
    ]
    fields = [
        table.schema.field(place).with_name(name)
        if place < width
        else pa.field(name, computed[place - width].computation.type)
        for name, place in result
    ]
    return Layout(pa.schema(fields), tuple(moved.get(place, place) for _, place in result), width, tuple(columns))

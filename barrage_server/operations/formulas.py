"""The tables of formulas: computed, chosen or renamed columns, and filters.

As in :mod:`barrage_server.operations.build`, each function checks its arguments and makes the result follow its parent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from barrage_server.arguments import shown
from barrage_server.engine.table import Table
from barrage_server.errors import InvalidRequestError
from barrage_server.formula import Text, compile_condition, compile_formula, rename_pair, split_assignment
from barrage_server.formula.constant_comparisons import SharedComparison
from barrage_server.operations import layout as layouts
from barrage_server.operations import traits as traits_of
from barrage_server.operations.columns import Layout, StoredColumns, ViewedColumns
from barrage_server.operations.condition import TreeCondition
from barrage_server.operations.formula_view import Clock, Computation, RowCondition, TimedFormula
from barrage_server.operations.result import make
from barrage_server.operations.where import FilteredRows
from barrage_server.plan.condition import Condition

__all__ = [
    "condition_of",
    "drop_columns",
    "lazy_update",
    "rename_columns",
    "select",
    "update",
    "update_view",
    "view",
    "where",
]


def drop_columns(parents: Sequence[Table], columns: Sequence[str], *, name: str | None = None) -> Table:
    """All columns except ``columns``.

    Raises:
        UnknownColumnError: the table lacks a column.

    """
    (table,) = parents
    return _with_columns(table, "drop_columns", layouts.without(table, columns), name)


def rename_columns(parents: Sequence[Table], pairs: Sequence[str], *, name: str | None = None) -> Table:
    """All columns, some under new names: texts such as ``"New = Old"``."""
    (table,) = parents
    layout = layouts.renamed(table, [rename_pair(pair) for pair in _formulas(pairs)])
    return _with_columns(table, "rename_columns", layout, name)


def view(parents: Sequence[Table], formulas: Sequence[str], *, name: str | None = None) -> Table:
    """The results of formulas, evaluated when they are read."""
    (table,) = parents
    return _viewed(table, "view", _layout(table, formulas, keeps=False, is_stored=False), name)


def update_view(parents: Sequence[Table], formulas: Sequence[str], *, name: str | None = None) -> Table:
    """All columns and the results of formulas, evaluated when they are read."""
    (table,) = parents
    return _viewed(table, "update_view", _layout(table, formulas, keeps=True, is_stored=False), name)


def lazy_update(parents: Sequence[Table], formulas: Sequence[str], *, name: str | None = None) -> Table:
    """All columns and the results of formulas, evaluated when they are read."""
    (table,) = parents
    return _viewed(table, "lazy_update", _layout(table, formulas, keeps=True, is_stored=False), name)


def update(
    parents: Sequence[Table], formulas: Sequence[str], *, name: str | None = None, now: Clock | None = None
) -> Table:
    """All columns and the results of formulas, stored when their inputs change.

    ``now`` is the clock for ``now()``, in nanoseconds since 1970.
    """
    (table,) = parents
    return _with_results(table, "update", _layout(table, formulas, keeps=True, is_stored=True, now=now), name)


def select(
    parents: Sequence[Table], formulas: Sequence[str] = (), *, name: str | None = None, now: Clock | None = None
) -> Table:
    """The results of formulas, stored when their inputs change.

    Without formulas, the result has all columns. See :func:`update` for ``now``.
    """
    (table,) = parents
    if not formulas:
        return _with_columns(table, "select", layouts.without(table, ()), name)
    return _with_results(table, "select", _layout(table, formulas, keeps=False, is_stored=True, now=now), name)


def where(parents: Sequence[Table], conditions: Sequence[str | Condition], *, name: str | None = None) -> Table:
    """The rows for which all conditions hold, each a boolean formula or a tree.

    Raises:
        InvalidRequestError: a condition does not compile, or depends on positions that rows do not keep.
        UnknownColumnError: it names a column that the table lacks.
        LimitError: it is too large.

    """
    (table,) = parents
    given = (conditions,) if isinstance(conditions, str | Condition) else conditions
    made = [condition_of(table, condition) for condition in given]
    traits = table.traits
    operator = FilteredRows(
        table.schema, made, grows=_grows(table), keeps_history=traits.is_blink, comparisons=_comparisons(table, made)
    )
    return make([table], "where", operator, traits_of.of_rows(traits), key_columns=table.key_columns, name=name)


def _formulas(given: Sequence[str]) -> tuple[str, ...]:
    found = (given,) if isinstance(given, str) else tuple(given)
    if not found or not all(isinstance(formula, str) for formula in found):
        raise InvalidRequestError(f"formulas must be a list of strings, not {shown(given)}.")
    return found


def _layout(table: Table, formulas: Sequence[str], *, keeps: bool, is_stored: bool, now: Clock | None = None) -> Layout:
    pairs = [split_assignment(formula) for formula in _formulas(formulas)]

    def compiled(formula: Text, types: Mapping[str, pa.DataType]) -> Computation:
        made = compile_formula(formula, types, table.graph.functions)
        return made if made.is_pure or now is None else TimedFormula(made, now)

    return layouts.of_formulas(table, pairs, compiled, keeps=keeps, is_stored=is_stored)


def _viewed(table: Table, operation: str, layout: Layout, name: str | None) -> Table:
    # The position of a row is that in its own cycle. A blink table forgets it with the next cycle, so it is stored.
    if table.traits.is_blink and layout.uses_positions:
        return _with_results(table, operation, layout, name)
    return _with_columns(table, operation, layout, name)


def _with_columns(table: Table, operation: str, layout: Layout, name: str | None) -> Table:
    operator = ViewedColumns(layout, grows=_grows(table))
    return make(
        [table],
        operation,
        operator,
        traits_of.of_columns(table.traits),
        key_columns=layout.key_columns(table.column_numbers(table.key_columns) if table.key_columns else ()),
        name=name,
    )


def _with_results(table: Table, operation: str, layout: Layout, name: str | None) -> Table:
    if not layout.computed:
        return _with_columns(table, operation, layout, name)
    traits = table.traits
    operator = StoredColumns(
        layout,
        grows=_grows(table),
        is_append_only=not table.is_refreshing or (traits.append_only and traits.is_flat),
        keeps_history=traits.is_blink,
    )
    return make(
        [table],
        operation,
        operator,
        traits_of.of_columns(traits),
        key_columns=layout.key_columns(table.column_numbers(table.key_columns) if table.key_columns else ()),
        name=name,
    )


def condition_of(table: Table, condition: str | Condition) -> RowCondition:
    """Compile a condition on the rows of a table; raises as :func:`where` does."""
    if not isinstance(condition, str):
        return TreeCondition(condition, table)
    made = compile_condition(condition, {field.name: field.type for field in table.schema}, table.graph.functions)
    if made.positions:
        layouts.check_positions(table, condition)
    if not made.is_pure:
        raise InvalidRequestError(
            f"{condition!r} gives another result each time. Compute it with 'update', and filter by that column."
        )
    return made


def _comparisons(table: Table, conditions: Sequence[RowCondition]) -> Sequence[SharedComparison]:
    """The comparisons with constants that all of the conditions are, or none."""
    found = [each.comparison for each in conditions]
    known = [(table.column_numbers([each.column])[0], each) for each in found if each is not None]
    return table.constant_comparisons.share(known) if len(known) == len(found) else ()


def _grows(table: Table) -> bool:
    """Whether rows may be added behind a row."""
    return table.is_refreshing and not table.traits.is_blink

"""The comparison of two tables, cell by cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Verdict", "compare"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a comparison.

    Attributes:
        table: the table's name.
        rows: number of expected rows.
        cells: number of expected cells.
        missing: number of expected rows whose key is missing.
        surplus: number of unexpected rows, repeated keys included.
        differing: number of cells with another value, in rows that both tables have.
        example: one difference, in words; empty without any.
        in_order: whether the order of the rows was compared, so that the position of a row is one of its cells.
    """

    table: str
    rows: int
    cells: int
    missing: int
    surplus: int
    differing: int
    example: str
    in_order: bool = False

    @property
    def agrees(self) -> bool:
        """Whether both tables are equal, cell by cell."""
        return not (self.missing or self.surplus or self.differing or self.example)

    def __str__(self) -> str:
        if self.agrees:
            order = ", and so does their order" if self.in_order else ""
            return f"{self.table}: all {self.cells:,} cells of {self.rows:,} rows agree{order}"
        counts = ((self.missing, "rows missing"), (self.surplus, "rows too many"), (self.differing, "cells differ"))
        found = [f"{count:,} {what}" for count, what in counts if count]
        return f"{self.table}: DIFFERS: {', '.join(found) or 'the columns'} ({self.example})"


def compare(name: str, expected: pa.Table, actual: pa.Table, key: Sequence[str], *, in_order: bool = False) -> Verdict:
    """Compare ``actual`` with ``expected``; rows match by ``key``, null equals null.

    Both have the same columns in any order; the key columns hold no null. Doubles must be equal to the last bit. The
    order of the rows does not matter unless ``in_order``: then their position counts as one more cell of each row.
    """
    key = list(key)
    cells = expected.num_rows * (expected.num_columns + in_order)
    types = {field.name: field.type for field in expected.schema}
    if types != {field.name: field.type for field in actual.schema}:
        text = (
            f"columns {', '.join(expected.column_names)} were expected, and {', '.join(actual.column_names)} are there"
        )
        return Verdict(name, expected.num_rows, cells, 0, 0, 0, text)
    actual = actual.select(expected.column_names)
    if in_order:
        expected, actual = _with_positions(expected), _with_positions(actual)
    keys = actual.group_by(key).aggregate([])
    missing = expected.join(keys, key, join_type="left anti")
    surplus = actual.join(expected.select(key), key, join_type="left anti")
    repeated = actual.num_rows - keys.num_rows
    differing, example = 0, ""
    if repeated:
        example = "a key is there more than once"
    else:
        order = [(column, "ascending") for column in key]
        ours = actual.join(expected.select(key), key, join_type="left semi").sort_by(order)
        theirs = expected.join(keys, key, join_type="left semi").sort_by(order)
        differing, example = _differences(theirs, ours, key)
    for rows, what in ((missing, "is missing"), (surplus, "is too many")):
        if rows.num_rows and not example:
            example = f"{_row_name(rows.slice(0, 1), key)} {what}"
    too_many = surplus.num_rows + repeated
    return Verdict(name, expected.num_rows, cells, missing.num_rows, too_many, differing, example, in_order)


def _with_positions(rows: pa.Table) -> pa.Table:
    return rows.append_column("position", pa.array(range(rows.num_rows), pa.int64()))


def _differences(expected: pa.Table, actual: pa.Table, key: list[str]) -> tuple[int, str]:
    differing, example = 0, ""
    for column in expected.column_names:
        right, found = expected[column], actual[column]
        same = pc.fill_null(pc.equal(right, found), False)
        same = pc.or_(same, pc.and_(pc.is_null(right), pc.is_null(found)))
        count = len(same) - (pc.sum(same).as_py() or 0)
        if count and not example:
            row = pc.index(same, False).as_py()
            example = (
                f"{column} of {_row_name(expected.slice(row, 1), key)} is {found[row].as_py()!r}, "
                f"expected {right[row].as_py()!r}"
            )
        differing += count
    return differing, example


def _row_name(row: pa.Table, key: list[str]) -> str:
    return " ".join(f"{column}={row[column][0].as_py()}" for column in key)

"""Whether tables of two servers are equal."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

__all__ = ["differences", "same"]


def same(left: Any, right: Any) -> bool:
    """Whether two cells are equal, but for the last digits of floating-point numbers."""
    if isinstance(left, float) and isinstance(right, float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return left == right or math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-7)  # a deviation is a root
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and bool(left == right)


def differences(ours: pa.Table, theirs: pa.Table, *, ordered: bool = True) -> list[object]:
    """What is not equal: names or types of columns, the number of rows, or cells as ``(column, row, ours, theirs)``.

    Args:
        ours: one table.
        theirs: the other.
        ordered: whether rows must be in the same order.
    """
    types = [[(field.name, field.type) for field in table.schema] for table in (ours, theirs)]
    if types[0] != types[1]:
        return [("types", *types)]
    if ours.num_rows != theirs.num_rows:
        return [("rows", ours.num_rows, theirs.num_rows)]
    rows = [list(zip(*table.to_pydict().values(), strict=True)) for table in (ours, theirs)]
    if not ordered:
        rows = [sorted(listed, key=_place) for listed in rows]
    return [
        (name, number, left, right)
        for number, pair in enumerate(zip(*rows, strict=True))
        for name, left, right in zip(ours.schema.names, *pair, strict=True)
        if not same(left, right)
    ]


def _place(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """What rows are put in order by: floating-point numbers last, without their last digits."""
    exact = [repr(cell) for cell in row if not isinstance(cell, float | list)]
    return (*exact, *(_digits(cell) for cell in row if isinstance(cell, float | list)))


def _digits(cell: Any) -> str:
    if isinstance(cell, list):
        return repr([_digits(item) for item in cell])
    return f"{cell + 0.0:.6g}" if isinstance(cell, float) else repr(cell)

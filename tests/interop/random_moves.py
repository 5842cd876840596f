"""Random functions of ``update_by`` that are valid for the columns of a table."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from .random_formulas import INTEGERS, Column, condition

__all__ = ["moves"]

_WINDOWS: Final = ("3, 0", "2, 1", "2, -1", "0, 2", "1000, 1000")
_NEAR: Final = Column("double", exact=False, wild=True)


def _functions(new: str, old: str, column: Column, window: str) -> Iterator[tuple[str, Column]]:
    """Functions of a column. Those that Deephaven's own server computes otherwise are left out."""
    if column.many:
        return
    pair = f"'{new} = {old}'"
    yield f"forward_fill({pair})", column
    if column.type != "Instant":
        yield f"rolling_count_tick({pair}, {window})", Column("long", fine=True)
    yield f"rolling_group_tick({pair}, {window})", replace(column, many=new)
    if column.type in ("String", "Instant") or (column.is_number and not column.wild):
        for name in ("min", "max"):
            yield f"cum_{name}({pair})", column
            yield f"rolling_{name}_tick({pair}, {window})", column
    if column.is_number:
        total = Column("long" if column.type in INTEGERS else "double", False, wild=column.wild)
        total = replace(total, exact=column.exact and (column.type in INTEGERS or column.fine))
        yield f"cum_sum({pair})", total
        yield f"rolling_sum_tick({pair}, {window})", total
        yield f"rolling_avg_tick({pair}, {window})", _NEAR
        yield f"delta({pair})", replace(column, fine=False)
        if column.fine and not column.wild:
            yield f"rolling_std_tick({pair}, {window})", _NEAR
            yield f"ema_tick(2.5, {pair})", _NEAR
            yield f"ems_tick(3, {pair})", _NEAR
            yield f"emmax_tick(3, {pair})", _NEAR


def moves(
    chance: random.Random, columns: Mapping[str, Column], name: Callable[[], str]
) -> list[tuple[str, dict[str, Column]]]:
    """Functions as calls, with the columns that they make; ``name`` makes names."""
    made: list[tuple[str, dict[str, Column]]] = []
    for _ in range(chance.randint(1, 3)):
        new, old = name(), chance.choice(list(columns))
        if chance.random() < 0.1:
            text = condition(chance, {old: columns[old]})  # Deephaven's fails at equality of two columns
            found = [(f"cum_count_where('{new}', {text!r})", Column("long", fine=True))] if text else []
        else:
            found = list(_functions(new, old, columns[old], chance.choice(_WINDOWS)))
        if found:
            call, column = chance.choice(found)
            made.append((f"ub.{call}", {new: column}))
    return made

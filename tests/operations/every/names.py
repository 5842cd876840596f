"""The names of all that tables are computed with, and which of them some code uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

import barrage_server as bs
from barrage_server.engine import Table
from barrage_server.engine.partitioned import PartitionedTable
from barrage_server.plan import operation as plan
from barrage_server.plan.copyable import Copyable
from barrage_server.plan.operable import Operable
from barrage_server.plan.plottable import Plottable
from barrage_server.plan.update_by import CUMULATIVE, UpdateByOperation

METHODS: Final = [
    *((Operable, name) for name in vars(Operable) if name[0] != "_" and name != "operate"),
    (Plottable, "downsample"),
    *((Copyable, name) for name in ("snapshot_when", "blink_to_append_only", "ring_table")),
    (PartitionedTable, "transform"),
    (Table, "partition_by"),
]


def noted_names(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """A set that gets the names of all that tables are computed with from now on."""
    found: set[str] = set()

    def noted(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            found.add(name)
            return method(*arguments, **named)

        return call

    for owner, name in METHODS:
        method = getattr(owner, name)
        is_property = isinstance(method, property)
        monkeypatch.setattr(owner, name, property(noted(name, method.fget)) if is_property else noted(name, method))
    operate = Table.operate

    def operate_noted(self: Table, operation: plan.Operation, *others: Table) -> Table:
        match operation:
            case plan.AggregateBy(aggregations):
                found.update(f"agg.{one.function}" for one in aggregations)
            case plan.AggregateAllBy(one):
                found.add(f"agg.{one.function}")
            case plan.UpdateBy(functions):
                found.update(f"updateby.{name_of(one)}" for one in functions)
        found.add(operation.verb)
        return operate(self, operation, *others)

    monkeypatch.setattr(Table, "operate", operate_noted)
    return found


def name_of(function: UpdateByOperation) -> str:
    if function.function in CUMULATIVE:
        return function.function
    return f"{function.function}_{'tick' if function.time_column is None else 'time'}"


def names_of(module: Any) -> set[str]:
    return {name.rstrip("_") for name in module.__all__ if name[0].islower()}


def every_name() -> set[str]:
    """All that tables are computed with; what has no parent is a source, or in a function of its own."""
    return {
        *(name for _, name in METHODS),
        *(f"agg.{name}" for name in names_of(bs.agg) if name != "aggregation"),
        *(f"updateby.{name}" for name in names_of(bs.updateby)),
        *(operation.verb for operation in operations_of(plan.Operation) if operation.least_inputs),
    }


def operations_of(kind: type[plan.Operation]) -> list[type[plan.Operation]]:
    return [each for one in kind.__subclasses__() for each in (one, *operations_of(one)) if hasattr(each, "verb")]

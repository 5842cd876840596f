"""Results of a table that does not tick and begins to later, as an upload does that gets a name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barrage_server.engine import AppendTable, Table, UpdateGraph

OPERATIONS: dict[str, Callable[[Table, Table], Table]] = {
    "natural_join": lambda left, right: left.natural_join(right, "k", ["v"]),
    "join": lambda left, right: left.join(right, "k", ["v"]),
    "left_outer_join": lambda left, right: left.left_outer_join(right, "k", ["v"]),
    "where_in": lambda left, right: left.where_in(right, "k"),
    "where_not_in": lambda left, right: left.where_not_in(right, "k"),
    "aj": lambda left, right: left.aj(right, ["k", "id >= rid"], ["v"]),
    "raj": lambda left, right: left.raj(right, ["k", "id <= rid"], ["v"]),
    "sort": lambda _, right: right.sort("v"),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_they_are_of_the_rows_that_it_had(operation: str) -> None:
    graph = UpdateGraph()
    left = AppendTable(graph, "left", {"id": "int64", "k": "int64"})
    right = AppendTable(graph, "right", {"rid": "int64", "k": "int64", "v": "int64"})
    left.append({"id": [5, 6], "k": [1, 2]})
    right.append({"rid": [1], "k": [1], "v": [10]})
    right.is_refreshing = False
    as_it_was = right.snapshot()
    made = OPERATIONS[operation](left, right)
    right.is_refreshing = True
    for number in range(3):
        right.append({"rid": [2 + number], "k": [2 + number], "v": [20]})
        left.append({"id": [7 + number], "k": [1 + number]})
        assert made.failure is None
        assert made.to_arrow().equals(OPERATIONS[operation](left, as_it_was).to_arrow())

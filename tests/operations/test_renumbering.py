"""Groups that are numbered anew when most have lost their rows, on either side of a join."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barrage_server.engine import KeyedTable, Table, UpdateGraph

JOINS: dict[str, Callable[[Table, Table], Table]] = {
    "natural_join": lambda left, right: left.natural_join(right, "k", ["rid", "v"]),
    "natural_join, first": lambda left, right: left.natural_join(right, "k", ["rid", "v"], type="first_match"),
    "natural_join, last": lambda left, right: left.natural_join(right, "k", ["rid", "v"], type="last_match"),
    "join": lambda left, right: left.join(right, "k", ["rid", "v"]),
    "left_outer_join": lambda left, right: left.left_outer_join(right, "k", ["rid", "v"]),
    "where_in": lambda left, right: left.where_in(right, "k"),
    "where_not_in": lambda left, right: left.where_not_in(right, "k"),
    "aj": lambda left, right: left.aj(right, ["k", "id >= rid"], ["v"]),
    "raj": lambda left, right: left.raj(right, ["k", "id <= rid"], ["v"]),
}


@pytest.mark.parametrize("join", JOINS)
def test_keys_may_come_and_go_on_either_side(join: str) -> None:
    """Thousands of them, which the other side has never had."""
    graph = UpdateGraph()
    left = KeyedTable(graph, "left", {"id": "int64", "k": "int64"}, ["id"])
    right = KeyedTable(graph, "right", {"rid": "int64", "k": "int64", "v": "int64"}, ["rid"])
    right.upsert({"rid": [1, 2], "k": [1, 2], "v": [10, 20]})
    made = JOINS[join](left, right)

    def check() -> None:
        expected = JOINS[join](left.snapshot(), right.snapshot())
        assert made.to_arrow().to_pylist() == expected.to_arrow().to_pylist()

    count = 6_000
    for side, key, first in ((left, "id", count), (right, "rid", 3 * count)):
        other = ("id", left) if side is right else ("rid", right)
        rows = {key: range(100, 100 + count), "k": range(first, first + count)}
        side.upsert(rows | ({"v": range(count)} if side is right else {}))
        check()
        side.delete({key: range(100, count)})
        check()
        side.delete({key: range(count, count + 50)})
        check()
        alone = {other[0]: [50], "k": [first + count - 1]}
        other[1].upsert(alone | ({"v": [5]} if other[1] is right else {}))
        check()

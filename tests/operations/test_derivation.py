"""Tables made by operations: shared while they are referenced, gone afterwards, served like any other."""

from __future__ import annotations

import gc
import time
import weakref

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import barrage_server as bs
from barrage_server.plan import agg


def trades(graph: bs.UpdateGraph) -> bs.AppendTable:
    return bs.AppendTable(graph, "trades", {"sym": "string", "price": "float64", "size": "int64"})


def test_equal_operations_on_one_table_are_one() -> None:
    table, other = trades(bs.UpdateGraph()), trades(bs.UpdateGraph())
    first = table.where("price > 1").sort("price")
    assert table.where("price > 1").sort("price") is first
    assert table.where("price > 1.0") is not table.where("price > 1")
    assert table.where("price > 2") is not table.where("price > 1")
    assert other.where("price > 1") is not table.where("price > 1")
    assert table.head(1) is not table.tail(1)


def test_a_result_that_is_not_referenced_leaves_graph_and_memory() -> None:
    table = trades(bs.UpdateGraph())
    made = table.where("price > 1").update("x = price * 2").agg_by(agg.sum_("x"), "sym")
    seen = weakref.ref(made)
    assert len(table.children) == 1
    del made
    gc.collect()
    assert seen() is None
    table.append({"sym": ["a"], "price": [2.0], "size": [1]})
    assert len(table.children) == 0


def test_a_snapshot_is_of_its_moment() -> None:
    table = trades(bs.UpdateGraph())
    before = table.snapshot()
    table.append({"sym": ["a"], "price": [2.0], "size": [1]})
    assert (before.size, table.snapshot().size) == (0, 1)


def test_a_result_that_has_failed_is_made_anew() -> None:
    graph = bs.UpdateGraph()
    left, right = trades(graph), bs.KeyedTable(graph, "right", {"sym": "string", "x": "int64"}, ["sym"])
    exact = left.exact_join(right, "sym")
    left.append({"sym": ["a"], "price": [2.0], "size": [1]})
    assert exact.failure is not None
    right.upsert({"sym": ["a"], "x": [7]})
    again = left.exact_join(right, "sym")
    assert again is not exact
    assert again.to_arrow()["x"].to_pylist() == [7]


def test_results_are_served_like_any_table() -> None:
    """A chain of operations of two tables, subscribed to; and equal ones under two names."""
    with bs.Server() as server, bs.connect(server.uri) as client:
        prices = server.append_table("trades", {"sym": "string", "price": "float64", "size": "int64"})
        names = server.keyed_table("names", {"sym": "string", "name": "string"}, key="sym")
        best = (
            prices.where("price > 10")
            .update("cost = price * size")
            .agg_by([agg.sum_("cost"), agg.max_("best = price"), agg.count_("n")], "sym")
            .natural_join(names, "sym")
            .sort_descending("cost")
        )
        server.add_table("best", best)
        server.add_table("the best", best)
        with client.subscribe("best") as live:
            prices.append({"sym": ["a", "b", "a"], "price": [11.0, 50.0, 9.0], "size": [2, 1, 100]})
            names.upsert({"sym": ["a"], "name": ["Ann"]})
            prices.append({"sym": ["a"], "price": [20.0], "size": [5]})
            live.wait_until(lambda table: table.size == 2 and table["n"].to_pylist() == [2, 1])
            assert live.to_arrow().to_pylist() == [
                {"sym": "a", "cost": 122.0, "best": 20.0, "n": 2, "name": "Ann"},
                {"sym": "b", "cost": 50.0, "best": 50.0, "n": 1, "name": None},
            ]
        assert client.snapshot("the best") == client.snapshot("best")
        assert {table.name: table.kind for table in server.statistics().tables}["best"] == "derived"


def test_a_table_of_no_columns_takes_some() -> None:
    made = bs.empty_table(4).update(["x = i", "y = x * x"])
    assert made.to_arrow().to_pydict() == {"x": [0, 1, 2, 3], "y": [0, 1, 4, 9]}
    assert bs.empty_table(0).update("x = i").size == 0
    with pytest.raises(bs.InvalidRequestError, match="size must be at least 0"):
        bs.empty_table(-1)


def test_tables_are_merged_in_order() -> None:
    graph = bs.UpdateGraph()
    one, two = trades(graph), trades(graph)
    plain, ordered = bs.merge([one, two]), bs.merge([one, two], order_by="price")
    one.append({"sym": ["a"], "price": [3.0], "size": [1]})
    two.append({"sym": ["b", "c"], "price": [2.0, 4.0], "size": [1, 1]})
    assert plain.to_arrow()["sym"].to_pylist() == ["a", "b", "c"]
    assert ordered.to_arrow()["sym"].to_pylist() == ["b", "a", "c"]


def test_functions_of_users_are_called_for_rows_that_conditions_before_have_left() -> None:
    seen: list[int] = []

    def dear(value: int) -> bool:
        seen.append(value)
        return 10 // value > 2

    with bs.Server() as server:
        server.functions.register("dear", dear, returns=pa.bool_(), kind="scalar")
        table = server.append_table("t", {"x": "int64"})
        table.append({"x": [0, 1, 4, 2]})
        chosen = table.where(["x != 0", "dear(x)", "x != 1"])
        assert chosen.to_arrow()["x"].to_pylist() == [2]
        table.append({"x": [0, 0]})
        table.append({"x": [3, 0, 5]})
        assert chosen.to_arrow()["x"].to_pylist() == [2, 3]
        assert seen == [1, 4, 2, 3, 5]
        later = table.where(["x > 0", "ii >= 2 && dear(x)"])
        assert later.to_arrow()["x"].to_pylist() == [2, 3]
        assert chosen.failure is None


def test_formulas_name_functions_of_the_server() -> None:
    """Those registered when the formula is made. One that raises fails the result alone, and its text is not told."""
    with bs.Server() as server:
        table = server.append_table("t", {"x": "float64"})
        with pytest.raises(bs.InvalidRequestError, match="double_it"):
            table.update("y = double_it(x)")
        server.functions.register("double_it", lambda values: pc.multiply(values, 2.0), returns=pa.float64())
        first = table.update("y = double_it(x)")
        assert table.update("y = double_it(x)") is first
        server.functions.register("double_it", lambda values: pc.multiply(values, -2.0), returns=pa.float64())
        second, large = table.update("y = double_it(x)"), table.where("double_it(x) < -2")
        table.append({"x": [1.0, 2.0]})
        assert first.to_arrow()["y"].to_pylist() == [2.0, 4.0]
        assert second.to_arrow()["y"].to_pylist() == [-2.0, -4.0]
        assert large.to_arrow()["x"].to_pylist() == [2.0]

        def broken(values: pa.Array) -> pa.Array:
            raise ValueError("secret")

        server.functions.register("broken", broken, returns=pa.float64())
        with pytest.raises(bs.InternalError, match="'broken' raised") as caught:
            table.update("y = broken(x)")
        assert "secret" not in str(caught.value)
        later = table.slice(2, 3).update("y = broken(x)")
        table.append({"x": [3.0]})
        assert "'broken' raised" in str(later.failure)
        assert (table.size, first.size) == (3, 3)


def test_now_is_the_time_of_the_cycle() -> None:
    table = trades(bs.UpdateGraph())
    made = table.update("t = now()")
    before = time.time_ns()
    table.append({"sym": ["a"], "price": [2.0], "size": [1]})
    (found,) = made.to_arrow()["t"].cast(pa.int64()).to_pylist()
    assert before <= found <= time.time_ns()
    with pytest.raises(bs.InvalidRequestError, match="now"):
        table.where("now() > null")
    with pytest.raises(bs.InvalidRequestError, match="update"):
        table.view("t = now()")

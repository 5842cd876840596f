"""Errors about arguments name what the user has written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.plan.aggregation import Aggregation
from barrage_server.plan.update_by import DeltaControl, UpdateByOperation

LISTS = pa.table({"v": pa.array([[1.0], [2.0]], pa.list_(pa.float64())), "k": [1, 2], "p": [0.5, 0.25]})


@pytest.fixture
def table() -> Any:
    return bs.table(LISTS)


@pytest.mark.parametrize(
    "compute",
    [
        lambda t: t.agg_by(bs.agg.count_distinct("n = v"), "k"),
        lambda t: t.agg_by(bs.agg.unique("n = v"), "k"),
        lambda t: t.update_by(bs.updateby.cum_sum("s = p"), "v"),
        lambda t: t.count_by("n", "v"),
        lambda t: t.partition_by("v"),
    ],
)
def test_a_column_that_cannot_be_a_key_is_named(compute: Callable[[Any], Any], table: Any) -> None:
    with pytest.raises(bs.UnsupportedTypeError, match="Column 'v' cannot have the type list"):
        compute(table)


@pytest.mark.parametrize(
    "join",
    [
        lambda t, u: t.natural_join(u, "v", ["q = p"]),
        lambda t, u: t.exact_join(u, "v", ["q = p"]),
        lambda t, u: t.join(u, "v", ["q = p"]),
        lambda t, u: t.left_outer_join(u, "v", ["q = p"]),
        lambda t, u: t.where_in(u, "v"),
        lambda t, u: t.aj(u, ["v", "p >= p"], ["q = p"]),
        lambda t, u: t.range_join(u, ["v", "p <= k <= p"], bs.agg.group("q = p")),
        lambda t, u: bs.multi_join([t, u.rename_columns(["j = k", "o = p"])], "v"),
    ],
)
def test_a_join_tells_both_schemas(join: Callable[[Any, Any], Any], table: Any) -> None:
    with pytest.raises(bs.UnsupportedTypeError, match=r"The tables are '.*v: list<.*and '.*v: list<"):
        join(table, bs.table(LISTS))


@pytest.mark.parametrize(
    "compute",
    [
        lambda t: t.count_by("n = p", "k"),
        lambda t: t.agg_by(bs.agg.count_where("n = p", "p > 1"), "k"),
        lambda t: t.agg_by(bs.agg.partition("n = p"), "k"),
        lambda t: t.update_by(bs.updateby.cum_count_where("n = p", "p > 1"), "k"),
        lambda t: t.update_by(bs.updateby.rolling_count_where_tick("n = p", "p > 1", 2), "k"),
    ],
)
def test_a_count_is_of_no_column(compute: Callable[[Any], Any], table: Any) -> None:
    with pytest.raises(bs.InvalidRequestError, match="must be the name of the new column alone, not 'n = p'"):
        compute(table)


def test_a_multi_join_has_a_name_of_its_own() -> None:
    graph = bs.UpdateGraph()
    tables = [bs.table({"k": [1], name: [2]}, graph=graph) for name in "xy"]
    made = bs.multi_join(tables, "k")
    with pytest.raises(bs.UnknownColumnError, match=r"Table '.*multi_join' has no column 'zz'"):
        made.sort("zz")


@pytest.mark.parametrize(
    "wrong",
    [
        Aggregation("sum", ("p",), share=0.75),
        Aggregation("sum", ("p",), sentinel=5),
        Aggregation("avg", ("p",), weight="k"),
        Aggregation("first", ("p",), order_by=("k",)),
        Aggregation("count", ("n",), filters=("p > 1",)),
        Aggregation("max", ("p",), formula="max(each)", parameter="each"),
        UpdateByOperation("cum_sum", ("p",), decay=2),
        UpdateByOperation("cum_sum", ("p",), before=3),
        UpdateByOperation("rolling_sum", ("p",), before=3, decay=2),
        UpdateByOperation("ema", ("p",), decay=2, weight="k"),
        UpdateByOperation("forward_fill", ("p",), delta=DeltaControl.ZERO_DOMINATES),
    ],
    ids=repr,
)
def test_a_field_of_another_function_is_refused(wrong: Any, table: Any) -> None:
    """As a plan of JSON may have it: it would be ignored."""
    with pytest.raises(bs.InvalidRequestError, match=r"has no field '.*it is one of"):
        table.agg_by(wrong, "k") if isinstance(wrong, Aggregation) else table.update_by(wrong, "k")


def test_a_formula_of_all_columns_names_the_one_that_it_does_not_fit() -> None:
    table = bs.table({"k": [1, 1, 2], "x": [1.0, 2.0, 3.0], "s": ["a", "b", "c"]})
    with pytest.raises(bs.InvalidRequestError, match=r"For column 's': 'sum' does not take \(String"):
        table.agg_all_by(bs.agg.formula("sum(each)", "each"), "k")


def test_a_moving_function_that_refuses_a_row_is_named() -> None:
    table = bs.table({"x": [1.0, None]})
    control = bs.OperationControl(on_null=bs.BadDataBehavior.THROW)
    with pytest.raises(bs.InvalidRequestError, match="'emmax' was to fail at null or NaN"):
        table.update_by(bs.updateby.emmax_tick(3, "m = x", op_control=control))


@pytest.mark.parametrize(
    ("compute", "told"),
    [
        (lambda t, _: t.natural_join(t, "k", "p = v"), "'right_p = v'"),
        (lambda t, _: t.partition_by("kk"), "no column 'kk'. Did you mean 'k'?"),
        (lambda t, _: bs.merge([]), "a list of tables, one at least"),
        (lambda t, _: bs.multi_join([bs.MultiJoinInput(t, "k", "p")], "k"), "has its own on: leave out"),
        (lambda t, _: t.agg_by(bs.agg.sorted_first("v", "p"), "k"), "not column 'v' of type list"),
        (lambda t, _: t.agg_by(bs.agg.weighted_avg("p", "v"), "k"), "not column 'v' of type list"),
        (lambda t, _: t.update("m = p.mean()"), "avg(list)"),
        (lambda t, _: t.update("m = p.cumsum()"), "'update_by' has sums so far"),
        (lambda t, _: t.update("m = p.rolling(3)"), "'update_by' has windows"),
        (lambda t, other: t.where_in(other, "k"), "follow that one here: table.subscribe().table"),
        (lambda t, other: len(other), "read table.size, or follow it"),
    ],
)
def test_an_error_tells_what_to_write(compute: Callable[[Any, Any], Any], told: str, table: Any) -> None:
    with bs.Server(port=0) as server:
        server.append_table("t", {"k": "int64"})
        with bs.connect(server.uri) as client, pytest.raises(bs.InvalidRequestError) as refused:
            compute(table, client.table("t"))
    assert told in str(refused.value)
    assert "'p' of type" not in str(refused.value)

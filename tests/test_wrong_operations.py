"""Tables and plans with wrong arguments: an error of the tree, in words, and never one from the inside."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import barrage_server as bs
from barrage_server.engine import AppendTable, BlinkTable, KeyedTable, ReplacedTable, RingTable
from tests.wrong_arguments import ROWS, Case, World, faults, names_of, opened_world, untried


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with opened_world(tmp_path_factory.mktemp("world")) as found:
        yield found


def calls(world: World) -> dict[str, Case]:
    """The calls of tables and plans with good arguments, and which of them are to be wrong in which way."""
    return {
        **operations(world),
        "RemoteTable.to_arrow": (world.remote.to_arrow, {}, {"columns": "columns", "viewport": "viewport"}),
        "RemoteTable.subscribe": (
            world.remote.subscribe,
            {},
            {
                "columns": "columns",
                "viewport": "viewport",
                "interval_ms": "count",
                "dialect": "choice",
                "timeout": "seconds",
                "onto": "table",
                "on_update": "function",
            },
        ),
        "RemoteTable.widget": (world.remote.widget, {}, {"height": "height", "theme": "theme", "plot": "plot"}),
        "RemoteTable.partition_by": (  # a server is asked whether there is such a column
            lambda **given: world.remote.partition_by(**given).keys().to_arrow(),
            {"by": "k"},
            {"by": "names", "drop_keys": "text"},
        ),
        "RemotePartitionedTable.get_constituent": (
            world.remote_parted.get_constituent,
            {"key_values": "a"},
            {"key_values": "key"},
        ),
        "RemotePartitionedTable.transform": (
            world.remote_parted.transform,
            {"func": lambda each: each},
            {"func": "function"},
        ),
        "RemoteTable.bind": (world.remote.bind, {"name": "n"}, {"name": "text"}),
        "AppendTable.append": (world.append.append, {"rows": ROWS}, {"rows": "rows"}),
        "AppendTable.to_arrow": (world.append.to_arrow, {}, {"columns": "columns"}),
        "AppendTable.partition_by": (world.append.partition_by, {"by": "k"}, {"by": "names", "drop_keys": "text"}),
        "PartitionedTable.from_partitioned_table": (
            bs.PartitionedTable.from_partitioned_table,
            {"table": world.grouped},
            {"table": "table", "constituent_column": "text"},
        ),
        "PartitionedTable.get_constituent": (
            world.parted.get_constituent,
            {"key_values": "a"},
            {"key_values": "key"},
        ),
        "PartitionedTable.transform": (
            world.parted.transform,
            {"func": lambda each: each},
            {"func": "function"},
        ),
        "AppendTable.add_listener": (world.append.add_listener, {}, {"listener": "function"}),
        "RingTable.append": (world.ring.append, {"rows": ROWS}, {"rows": "rows"}),
        "KeyedTable.upsert": (world.keyed.upsert, {"rows": ROWS}, {"rows": "rows"}),
        "KeyedTable.replace": (world.keyed.replace, {"rows": ROWS}, {"rows": "rows"}),
        "KeyedTable.delete": (world.keyed.delete, {"keys": ROWS}, {"keys": "rows"}),
        "ReplacedTable.replace": (world.replaced.replace, {"rows": ROWS}, {"rows": "rows"}),
    }


def operations(world: World) -> dict[str, Case]:
    """Those of tables: the same for each."""
    table, quotes = world.append, world.keyed
    functions = ("sum", "abs_sum", "avg", "std", "var", "min", "max", "median", "first", "last")
    groups = [*(f"{function}_by" for function in functions), "group_by"]
    formulas = ("select", "view", "update", "update_view", "lazy_update")
    found: dict[str, Case] = {
        **{name: (getattr(table, name), {"formulas": "y = x"}, {"formulas": "formulas"}) for name in formulas},
        **{name: (getattr(table, name), {"by": "k"}, {"by": "columns to choose"}) for name in groups},
        "drop_columns": (table.drop_columns, {"cols": "x"}, {"cols": "names"}),
        "rename_columns": (table.rename_columns, {"cols": "y = x"}, {"cols": "pairs"}),
        "where": (table.where, {"filters": "x > 1"}, {"filters": "conditions"}),
        "head": (table.head, {}, {"num_rows": "count"}),
        "tail": (table.tail, {}, {"num_rows": "count"}),
        "head_pct": (table.head_pct, {"pct": 0.5}, {"pct": "share"}),
        "tail_pct": (table.tail_pct, {"pct": 0.5}, {"pct": "share"}),
        "slice": (table.slice, {"start": 0, "stop": 5}, {"start": "integer", "stop": "integer"}),
        "sort": (table.sort, {"order_by": "x"}, {"order_by": "names", "order": "direction"}),
        "sort_descending": (table.sort_descending, {"order_by": "x"}, {"order_by": "names"}),
        "natural_join": (
            table.natural_join,
            {"table": quotes, "on": "k", "joins": "y = x"},
            {"table": "table", "on": "columns to join", "joins": "columns to choose", "type": "match"},
        ),
        "where_in": (
            table.where_in,
            {"filter_table": quotes, "cols": "k"},
            {"filter_table": "table", "cols": "columns to join"},
        ),
        "where_not_in": (
            table.where_not_in,
            {"filter_table": quotes, "cols": "k"},
            {"filter_table": "table", "cols": "columns to join"},
        ),
        "snapshot_when": (
            table.snapshot_when,
            {"trigger_table": quotes, "stamp_cols": "y = x"},
            {
                "trigger_table": "table",
                "stamp_cols": "columns to choose",
                "initial": "text",
                "incremental": "text",
                "history": "text",
            },
        ),
        "range_join": (
            table.range_join,
            {"table": quotes, "on": ["k", "x <= x <= x"], "aggs": bs.agg.group("y = x")},
            {"table": "table", "on": "columns to join", "aggs": "aggregations"},
        ),
        "downsample": (
            table.downsample,
            {"x": "x", "ys": ["x"], "first": None, "last": None, "tail_rows": None, "tail_x": None, "pixels": 100},
            {
                "x": "axis",
                "ys": "columns to plot",
                "first": "place",
                "last": "place",
                "tail_rows": "positive",
                "tail_x": "place",
                "pixels": "positive",
            },
        ),
        "ring_table": (table.ring_table, {"capacity": 3}, {"capacity": "positive", "initialize": "text"}),
        "join": (
            table.join,
            {"table": quotes, "on": "k", "joins": "y = x"},
            {"table": "table", "on": "columns to pair", "joins": "columns to choose", "reserve_bits": "bits"},
        ),
        **{
            name: (
                getattr(table, name),
                {"table": quotes, "on": "k", "joins": "y = x"},
                {"table": "table", "on": "columns to join", "joins": "columns to choose"},
            )
            for name in ("left_outer_join", "full_outer_join", "aj", "raj")
        },
        "exact_join": (
            table.exact_join,
            {"table": quotes, "on": "k", "joins": "y = x"},
            {"table": "table", "on": "columns to join", "joins": "columns to choose"},
        ),
        "select_distinct": (table.select_distinct, {}, {"cols": "columns to choose"}),
        "agg_by": (
            table.agg_by,
            {"aggs": bs.agg.sum_("x"), "by": "k"},
            {"aggs": "aggregations", "by": "columns to choose"},
        ),
        "agg_all_by": (
            table.agg_all_by,
            {"agg": bs.agg.sum_(), "by": "k"},
            {"agg": "aggregation", "by": "columns to choose"},
        ),
        "update_by": (
            table.update_by,
            {"ops": bs.updateby.cum_sum("x"), "by": "k"},
            {"ops": "movements", "by": "columns to choose"},
        ),
        "head_by": (table.head_by, {"num_rows": 3, "by": "k"}, {"num_rows": "count", "by": "columns to choose"}),
        "tail_by": (table.tail_by, {"num_rows": 3, "by": "k"}, {"num_rows": "count", "by": "columns to choose"}),
        "ungroup": (world.lists.ungroup, {"cols": "x"}, {"cols": "names", "null_fill": "text"}),
        "count_by": (table.count_by, {"col": "n", "by": "k"}, {"col": "text", "by": "columns to choose"}),
    }
    return {
        **{f"AppendTable.{name}": case for name, case in found.items()},
        "multi_join": (
            bs.multi_join,
            {"input": [quotes], "on": "k"},
            {"input": "tables", "on": "keys of several"},
        ),
        "merge": (bs.merge, {"tables": [table, table]}, {"tables": "tables", "order_by": "choice"}),
        "show": (
            bs.show,
            {"table": table},
            {"table": "shown", "height": "height", "theme": "theme", "plot": "plot"},
        ),
        "empty_table": (bs.empty_table, {"size": 3}, {"size": "count", "graph": "table"}),
        "time_table": (
            bs.time_table,
            {"period": "PT1S"},
            {"period": "period", "start_time": "moment", "blink_table": "text", "graph": "table"},
        ),
    }


@pytest.mark.parametrize("name", names_of(calls))
def test_a_wrong_argument_is_refused_in_words(world: World, name: str) -> None:
    assert not faults(calls(world)[name])


CLASSES = [
    bs.RemotePartitionedTable,
    bs.RemoteTable,
    AppendTable,
    BlinkTable,
    KeyedTable,
    ReplacedTable,
    RingTable,
]
# For implementers of tables, of relays and of clients, with arguments of classes of their own.
INNER = [
    *("prepare_version", "peek", "show_version", "fail", "check_usable", "check_operations", "apply_operations"),
    *("readable_rows", "column_numbers", "operate", "then", "rename", "restate", "restore", "retire"),
]


def test_every_public_call_of_tables_is_tried() -> None:
    assert not untried(CLASSES, names_of(calls), INNER)

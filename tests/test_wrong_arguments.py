"""Public calls with wrong arguments: an error of the tree, in words, and never one from the inside."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.engine import AppendTable, BlinkTable, KeyedTable, ReplacedTable, RingTable

WRONG: dict[str, list[Any]] = {
    "text": [None, 3, 3.5, b"bytes", "", ["t"], object()],
    "optional text": [3, b"bytes", ["t"], object()],
    "schema": [None, 3, "int64", [], ["a"], {"a": 3}, {3: "int64"}, {"a": "nonsense"}, {}, pa.int64(), object()],
    "names": [3, b"k", [3], [None], object(), ["nope"], [], ""],
    "rows": [None, 3, "rows", [1], [{"k": "a"}], {"k": 3}, {"nope": [1]}, {}, object(), {3: [1]}, {"k": [object()]}],
    "viewport": [3, True, 1.5, "abc", (0, 5), [0, 5], [-1], range(-3, 3), [None], object(), slice("a", "b"), {1: 1}],
    "columns": [3, "k", [], [3], ["nope"], object(), b"k", [None]],
    "count": [None, "3", 3.5, -1, [], object(), True, 1 << 70],
    "positive": ["3", 3.5, -1, 0, [], object(), True, 1 << 70],
    "seconds": ["3", -1.0, float("nan"), [], object(), float("inf")],
    "function": [None, 3, "f", []],
    "port": [-1, "nonsense", 3.5, True, 70_000, []],
    "token": [3, b"bytes", [3], [], " ", object()],
    "roles": [3, "reader", ["reader"], {"r": "read"}, {3: bs.Role([], [])}],
    "role names": ["r", ["nope"]],
    "tls": [3, "pem", ("a",), ("", "")],
    "list of texts": [None, 3, "read", [3], [None], [""], object()],
    "column names": [3, "read", [], [3], [None], object()],
    "condition": [3, "", "x = 1", "x ==", "f(x) == 1", b"x == 1", [], object()],
    "path": [3, b"bytes", [], "", object()],
    "nanoseconds": [None, 3.5, [], b"PT1S", object(), True, np.timedelta64("NaT"), datetime(2024, 6, 15)],
    "integer": [None, "3", 3.5, [], object()],
    "schema or none": [3, "int64", ["a"], {"a": 3}, {"a": "nonsense"}, {"k": "string"}],
    "any rows": [None, 3, "rows", [1], {"k": 3}, {}, object(), {3: [1]}, {"k": [object()]}],
    "period": [None, 3.5, "nonsense", "2024-06-15", b"PT1S", [], object(), True, 0, -1, 999, 1 << 70, timedelta.max],
    "moment": [3.5, "nonsense", "PT1S", b"2024", [], object(), True, 1 << 70, datetime.max, pd.NaT],
    "choice": [3, "nonsense", b"append", []],
    "formulas": [None, 3, b"y = x", "", [], [3], "y =", "y = nope", "y = x +", "y = __import__('os')", object()],
    "conditions": [None, 3, b"x > 1", "", [3], "x >", "nope > 1", "x + 1", object()],
    "pairs": [None, 3, "", [], [3], "y", "y = nope", "y = x = k", object(), {}, {"nope": "y"}, {"x": 3}, {"x": "k"}],
    "columns to choose": [3, "", [], [3], "nope", object()],
    "columns to join": [None, 3, "", [], [3], "nope", "k = nope", "x = k", object()],
    "columns to pair": [3, "", [], [3], "nope", "k = nope", "x = k", object()],
    "axis": [3, "", [], ["x"], "nope", "k", object()],
    "columns to plot": [None, 3, "", [], [3], "nope", "k", ["x"] * 9, object()],
    "place": ["", "PT1S", "now", [], object(), True, float("nan"), 1 << 70],
    "bits": [None, "3", -1, 1.5, 32, 1 << 70, [], object()],
    "keys of several": [None, 3, "", [], [3], "nope", "k = nope", object()],
    "match": [None, 3, "", "first", [], object()],
    "share": [None, "3", -0.1, 1.5, float("nan"), [], object(), True],
    "direction": [3, "up", ["asc", "desc"], [3], [], object()],
    "aggregations": [None, 3, "sum", [3], object(), bs.agg.sum_("nope"), bs.agg.sum_("k"), bs.Aggregation("f", ("x",))],
    "aggregation": [None, 3, "sum", [], object(), bs.agg.sum_("x"), bs.Aggregation("f")],
    "movements": [
        None,
        3,
        "cum_sum",
        [],
        [3],
        object(),
        bs.agg.sum_("x"),
        bs.updateby.cum_sum("nope"),
        bs.updateby.cum_sum("k"),
        bs.updateby.ema_time("x", 5, "x"),
        bs.updateby.rolling_wavg_tick("k", "x", 3),
        bs.updateby.rolling_formula_tick("sum(e", "e", "x", 3),
        bs.updateby.cum_count_where("n", "nope > 1"),
        bs.UpdateByOperation("f", ("x",)),
        bs.UpdateByOperation("ema", ("x",), decay=-1.0),
        bs.UpdateByOperation("rolling_sum", ("x",), before=-3),
    ],
    "tables": [None, 3, "t", [], [3], object()],
    "key": [3.5, [], ["a", "b"], object(), {"k": 1}],
    "height": ["tall", 0, -1, 3.5, True, [], 1 << 70, object(), None],
    "theme": [3, "nonsense", b"dark", [], object(), None],
    "plot": [3, b"x", [3], ["x"] * 9, {"y": "x"}, {3: "x"}, {"x": 3}, {"range": 3}, {"ys": 3}, {"ys": b"x"}, object()],
    "shown": [None, 3, "t", [1], object(), {}],
    "table": [None, 3, "t", {"k": ["a"]}, pa.table({"k": ["a"]}), object()],
    "row set": [3, "t", [1], object()],
    "row sets": [None, 3, "t", [3], object()],
    "column numbers": [3, "k", ["k"], [7], [None], [0.5], object()],
    "boolean": [None, 3, "yes", [], object()],
}
SCHEMA = {"k": "string", "x": "float64"}
ROWS = {"k": ["a"], "x": [1.0]}

Case = tuple[Callable[..., Any], dict[str, Any], dict[str, str]]


class World:
    """A server with a table of every kind, a client and a live table."""

    def __init__(self, server: bs.Server, client: bs.Client, live: bs.LiveTable, upstream: bs.Server) -> None:
        self.server, self.client, self.live, self.upstream = server, client, live, upstream
        self.append = server.append_table("append", SCHEMA)
        self.keyed = server.keyed_table("keyed", SCHEMA, key="k")
        self.replaced = server.replaced_table("replaced", SCHEMA)
        self.parted = self.append.partition_by("k")
        self.grouped = self.append.agg_by(bs.agg.partition("rows"), "k")
        self.lists = self.append.group_by("k")
        self.ring = server.ring_table("ring", SCHEMA, capacity=3)
        self.publication = client.publish_live("published", bs.table(ROWS))
        self.followed = server.follow(f"{upstream.uri}/up")
        self.remote = client.table("t").where("x > 0")
        self.remote_parted = client.table("t").partition_by("k")
        updates = live.updates(20)
        live.set_viewport(0, 1)
        server.table("t").append(ROWS)  # type: ignore[attr-defined]
        live.set_viewport(0, 5)
        self.update = next(updates)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with bs.Server() as upstream, bs.Server() as server, bs.connect(server.uri, timeout=20) as client:
        upstream.append_table("up", SCHEMA)
        server.append_table("t", SCHEMA).append(ROWS)
        with client.subscribe("t", viewport=range(5)) as live:
            yield World(server, client, live, upstream)


def calls(world: World) -> dict[str, Case]:
    """Every public call with good arguments, and which of them are to be wrong in which way."""
    server, client, live = world.server, world.client, world.live
    schema = {"schema": SCHEMA}
    return {
        **value_calls(world),
        "Server": (
            bs.Server,
            {},
            {
                "host": "text",
                "port": "port",
                "token": "token",
                "limits": "table",
                "roles": "roles",
                "data_dir": "path",
                "fsync": "choice",
                "subscriptions": "table",
                "writers": "positive",
                "deephaven_port": "port",
            },
        ),
        "Role": (
            bs.Role,
            {"tables": ["t"], "rights": ["read"]},
            {"tables": "list of texts", "rights": "list of texts", "where": "condition", "columns": "column names"},
        ),
        "Server.append_table": (server.append_table, {"name": "n", **schema}, {"name": "text", "schema": "schema"}),
        "Server.blink_table": (server.blink_table, {"name": "n", **schema}, {"name": "text", "schema": "schema"}),
        "Server.replaced_table": (server.replaced_table, {"name": "n", **schema}, {"name": "text", "schema": "schema"}),
        "Server.ring_table": (
            server.ring_table,
            {"name": "n", **schema, "capacity": 3},
            {"name": "text", "schema": "schema", "capacity": "positive"},
        ),
        "Server.keyed_table": (
            server.keyed_table,
            {"name": "n", **schema, "key": "k"},
            {"name": "text", "schema": "schema", "key": "names"},
        ),
        "Server.add_table": (
            server.add_table,
            {"name": "n", "table": bs.table(ROWS)},
            {"name": "text", "table": "table"},
        ),
        "Server.table": (server.table, {"name": "t"}, {"name": "text"}),
        "Server.drop": (server.drop, {"name": "n"}, {"name": "text"}),
        "Server.reload": (
            server.reload,
            {},
            {"token": "token", "roles": "roles", "default_roles": "role names", "tls": "tls"},
        ),
        "Server.wait": (server.wait, {"timeout": 0}, {"timeout": "seconds"}),
        "Server.close": (server.close, {"grace": 1.0}, {"grace": "seconds"}),
        "Server.follow": (
            server.follow,
            {"uri": f"{world.upstream.uri}/up"},
            {
                "uri": "text",
                "name": "optional text",
                "token": "optional text",
                "user": "optional text",
                "password": "optional text",
                "headers": "count",
                "tls_certificate": "count",
                "tls_key": "count",
                "columns": "columns",
                "interval_ms": "count",
                "timeout": "seconds",
                "max_delay": "seconds",
                "wait": "seconds",
            },
        ),
        "table": (
            bs.table,
            {"rows": ROWS},
            {"rows": "any rows", "key": "names", "schema": "schema or none", "capacity": "positive", "name": "text"},
        ),
        "connect": (
            bs.connect,
            {"uri": server.uri},
            {
                "uri": "text",
                "token": "optional text",
                "user": "optional text",
                "password": "optional text",
                "timeout": "seconds",
                "retry": "table",
                "headers": "count",
                "tls_root_certs": "count",
                "tls_certificate": "count",
                "tls_key": "count",
                "wait": "seconds",
                "graph": "table",
            },
        ),
        "Client.table": (client.table, {"name": "t"}, {"name": "text"}),
        "Client.empty_table": (client.empty_table, {"size": 3}, {"size": "count"}),
        "Client.time_table": (
            client.time_table,
            {"period": "PT1S"},
            {"period": "nanoseconds", "start_time": "nanoseconds", "blink_table": "text"},
        ),
        "Client.snapshot": (
            client.snapshot,
            {"name": "t"},
            {"name": "text", "columns": "columns", "viewport": "viewport"},
        ),
        "Client.subscribe": (
            client.subscribe,
            {"name": "t"},
            {
                "name": "text",
                "columns": "columns",
                "viewport": "viewport",
                "interval_ms": "count",
                "dialect": "choice",
                "timeout": "seconds",
                "onto": "table",
                "on_update": "function",
            },
        ),
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
        "Client.publish": (
            client.publish,
            {"name": "n", "data": ROWS},
            {
                "name": "text",
                "data": "any rows",
                "key": "names",
                "mode": "choice",
                "kind": "choice",
                "capacity": "positive",
                "batch": "count",
                "epoch": "text",
            },
        ),
        "Client.publish (once)": (
            client.publish,
            {"name": "n", "data": ROWS, "publisher": "p", "batch": 0},
            {"name": "text", "publisher": "text", "batch": "count", "epoch": "optional text"},
        ),
        "Client.last_batch": (
            client.last_batch,
            {"name": "n", "publisher": "p"},
            {"name": "text", "publisher": "text", "epoch": "optional text"},
        ),
        "Client.publish_live": (
            client.publish_live,
            {"name": "n", "table": bs.table(ROWS)},
            {"name": "text", "table": "table", "interval_ms": "count"},
        ),
        "Client.append": (client.append, {"name": "t", "rows": ROWS}, {"name": "text", "rows": "rows"}),
        "Client.upsert": (client.upsert, {"name": "keyed", "rows": ROWS}, {"name": "text", "rows": "rows"}),
        "Client.delete": (client.delete, {"name": "keyed", "keys": ROWS}, {"name": "text", "keys": "rows"}),
        "Client.replace": (client.replace, {"name": "replaced", "rows": ROWS}, {"name": "text", "rows": "rows"}),
        "Client.create_table": (
            client.create_table,
            {"name": "n", **schema},
            {"name": "text", "schema": "schema", "key": "names", "kind": "choice", "capacity": "positive"},
        ),
        "Client.drop": (client.drop, {"name": "n"}, {"name": "text"}),
        "LiveTable.to_arrow": (live.to_arrow, {}, {"columns": "columns"}),
        "LiveTable.head": (live.head, {}, {"rows": "count"}),
        "LiveTable.tail": (live.tail, {}, {"rows": "count"}),
        "LiveTable.widget": (live.widget, {}, {"height": "height", "theme": "theme", "plot": "plot"}),
        "LiveTable.updates": (live.updates, {}, {"timeout": "seconds"}),
        "LiveTable.on_update": (live.on_update, {}, {"callback": "function"}),
        "LiveTable.on_state": (live.on_state, {}, {"callback": "function"}),
        "LiveTable.wait_until": (
            live.wait_until,
            {"predicate": lambda _: True},
            {"predicate": "function", "timeout": "seconds"},
        ),
        "LiveTable.wait_for_update": (live.wait_for_update, {}, {"timeout": "seconds"}),
        "LiveTable.set_viewport": (
            live.set_viewport,
            {"viewport": range(3)},
            {"viewport": "viewport", "columns": "columns", "timeout": "seconds"},
        ),
        "AppendTable.append": (world.append.append, {"rows": ROWS}, {"rows": "rows"}),
        "AppendTable.to_arrow": (world.append.to_arrow, {}, {"columns": "columns"}),
        **operations(world),
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
        "Publication.flush": (world.publication.flush, {}, {"timeout": "seconds"}),
        "FollowedTable.wait_live": (world.followed.wait_live, {}, {"timeout": "seconds"}),
        "FollowedTable.wait_for": (
            world.followed.wait_for,
            {"state": bs.FollowedState.LIVE},
            {"state": "choice", "timeout": "seconds"},
        ),
        "Update.added_values": (world.update.added_values, {}, {"columns": "columns"}),
        "Update.removed_values": (world.update.removed_values, {}, {"columns": "columns"}),
        "Update.modified_values": (world.update.modified_values, {}, {"column": "choice"}),
        "Update.modified_previous_values": (world.update.modified_previous_values, {}, {"column": "choice"}),
        "RetryPolicy": (
            bs.RetryPolicy,
            {},
            {"first_delay": "seconds", "factor": "seconds", "max_delay": "seconds", "jitter": "seconds"},
        ),
        "RowSet.from_range": (bs.RowSet.from_range, {"first": 0, "last": 3}, {"first": "integer", "last": "integer"}),
        "RowSet.from_keys": (bs.RowSet.from_keys, {}, {"keys": "table"}),
        "RowSet.flat": (bs.RowSet.flat, {}, {"size": "integer"}),
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


def value_calls(world: World) -> dict[str, Case]:
    """The calls of values: versions, row sets, limits and promises."""
    version, rows = world.append.version, bs.RowSet.flat(9)
    count = dict.fromkeys(("default_interval_ms", "min_interval_ms", "snapshot_part_cells", "shared_rows"), "count")
    flags = dict.fromkeys(("append_only", "add_only", "is_blink", "is_input", "is_flat"), "boolean")
    picked = {"rows": "row set", "columns": "column numbers"}
    return {
        "TableVersion.read": (version.read, {"rows": bs.RowSet.empty()}, picked),
        "TableVersion.to_table": (version.to_table, {}, picked),
        "TableVersion.batches": (
            lambda **given: list(version.batches(**given)),
            {},
            {**picked, "rows_per_batch": "positive"},
        ),
        "RowSet.union_all": (bs.RowSet.union_all, {"sets": [rows]}, {"sets": "row sets"}),
        "RowSet.is_superset": (rows.is_superset, {"other": rows}, {"other": "row set"}),
        "RowSet.is_disjoint": (rows.is_disjoint, {"other": rows}, {"other": "row set"}),
        "RowSet.subset": (rows.subset, {"positions": rows}, {"positions": "row set"}),
        "RowSet.invert": (rows.invert, {"keys": rows}, {"keys": "row set"}),
        "RowSet.restrict": (rows.restrict, {"first": 0, "last": 3}, {"first": "integer", "last": "integer"}),
        "RowSet.slice": (rows.slice, {"start": 0, "stop": 3}, {"start": "integer", "stop": "integer"}),
        "RowSet.shift": (rows.shift, {"delta": 3}, {"delta": "integer"}),
        "RowSet.blocks": (rows.blocks, {"bits": 3}, {"bits": "integer"}),
        "SubscriptionLimits": (bs.SubscriptionLimits, {}, count),
        "TableTraits": (bs.TableTraits, {}, {**flags, "ring_capacity": "integer"}),
    }


def _cases() -> list[str]:
    class _Any:
        def __getattr__(self, name: str) -> Any:
            return _Any()

        uri = ""

    return list(calls(_Any()))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", _cases())
def test_a_wrong_argument_is_refused_in_words(world: World, name: str) -> None:
    call, good, kinds = calls(world)[name]
    faults = []
    defaults = inspect.signature(call).parameters
    for argument, kind in kinds.items():
        for wrong in WRONG[kind]:
            if wrong is None and argument in defaults and defaults[argument].default is None:
                continue
            try:
                made = call(**{**good, argument: wrong})
            except bs.BarrageError as error:
                text = traceback.format_exc()
                if text.count("Traceback (most recent call last)") > 1:
                    faults.append(f"{argument}={wrong!r}: several tracebacks: {error}")
                if not str(error).strip():
                    faults.append(f"{argument}={wrong!r}: no words")
            except BaseException as error:  # whatever it is, it is wrong
                faults.append(f"{argument}={wrong!r}: {type(error).__name__}: {error}")
            else:
                faults.append(f"{argument}={wrong!r} was taken: {made!r}")
                if isinstance(made, bs.Server | bs.Client | bs.LiveTable | bs.FollowedTable):
                    made.close()
    assert not faults, "\n".join(faults)


CLASSES = [
    bs.Server,
    bs.Client,
    bs.LiveTable,
    bs.RemotePartitionedTable,
    bs.RemoteTable,
    bs.Publication,
    bs.FollowedTable,
    bs.Update,
    AppendTable,
    BlinkTable,
    KeyedTable,
    ReplacedTable,
    RingTable,
    bs.SubscriptionLimits,
    bs.TableTraits,
]
# For implementers of tables, of relays and of clients, with arguments of classes of their own.
INNER = {
    *("prepare_version", "peek", "show_version", "fail", "check_usable", "check_operations", "apply_operations"),
    *("readable_rows", "column_numbers", "wait_for_content", "then"),
    "operate",
    *("shutdown", "end_with_process", "join", "wait_first", "retire", "rename", "restate", "restore", "not_ready"),
}


def test_every_public_call_with_arguments_is_tried() -> None:
    tried = {name.split(" ")[0] for name in _cases()}
    methods = {name.partition(".")[2] for name in tried}
    missing = []
    for kind in CLASSES:
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            takes = [entry for entry in inspect.signature(method).parameters if entry != "self"]
            if takes and not name.startswith("_") and name not in INNER and name not in methods:
                missing.append(f"{kind.__name__}.{name}")
    assert not missing

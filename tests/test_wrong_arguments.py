"""Public calls with wrong arguments: an error of the tree, in words, and never one from the inside."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import barrage_server as bs
from tests.wrong_arguments import ROWS, SCHEMA, Case, World, faults, names_of, opened_world, untried


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with opened_world(tmp_path_factory.mktemp("world")) as found:
        yield found


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
                "default_roles": "role names",
                "tls_certificate": "pem",
                "tls_key": "pem",
                "tls_client_root_certs": "pem",
                "http_host": "text",
                "web_hosts": "some names",
                "release_publishers": "some names",
                "deephaven_web_origins": "some names",
                "front": "choice",
                "data_dir": "path",
                "fsync": "choice",
                "subscriptions": "table",
                "writers": "positive",
                "deephaven_port": "port",
            },
        ),
        "Principal": (bs.Principal, {"name": "x"}, {"name": "text", "roles": "roles of callers", "expires": "time"}),
        "TokenFile": (bs.TokenFile, {"path": world.token_file}, {"path": "file", "roles": "roles of callers"}),
        "CredentialFile": (bs.CredentialFile, {}, {"path": "file"}),
        "WebTokens": (
            bs.WebTokens,
            {"keys": world.token_file, "audience": "a", "issuer": "i"},
            {
                "keys": "web keys",
                "audience": "text",
                "issuer": "text",
                "algorithms": "names",
                "name_claim": "text",
                "roles_claim": "text",
                "leeway": "seconds",
                "clock": "function",
            },
        ),
        "Server.functions.register": (
            server.functions.register,
            {"name": "f", "function": lambda x: x, "returns": "int64"},
            {"name": "text", "function": "function", "returns": "type", "kind": "choice"},
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
            {
                "token": "token",
                "roles": "roles",
                "default_roles": "role names",
                "tls_certificate": "pem",
                "tls_key": "pem",
            },
        ),
        "Server.wait": (server.wait, {"timeout": 0}, {"timeout": "seconds"}),
        "Server.close": (server.close, {"grace": 1.0}, {"grace": "seconds"}),
        "Server.follow": (
            server.follow,
            {"uri": f"{world.upstream.uri}/up"},
            {
                "uri": "text",
                "name": "optional text",
                "token": "bearer",
                "user": "optional text",
                "password": "optional text",
                "headers": "headers",
                "tls_certificate": "pem",
                "tls_key": "pem",
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
                "token": "bearer",
                "user": "optional text",
                "password": "optional text",
                "timeout": "seconds",
                "retry": "table",
                "headers": "headers",
                "tls_root_certs": "pem",
                "tls_certificate": "pem",
                "tls_key": "pem",
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
        "LiveTable.wait_for_content": (live.wait_for_content, {}, {"timeout": "some seconds"}),
        "LiveTable.wait_for_update": (live.wait_for_update, {}, {"timeout": "seconds"}),
        "LiveTable.set_viewport": (
            live.set_viewport,
            {"viewport": range(3)},
            {"viewport": "viewport", "columns": "columns", "timeout": "seconds"},
        ),
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


@pytest.mark.parametrize("name", names_of(calls))
def test_a_wrong_argument_is_refused_in_words(world: World, name: str) -> None:
    assert not faults(calls(world)[name])


CLASSES = [
    bs.Server,
    bs.Client,
    bs.LiveTable,
    bs.Publication,
    bs.FollowedTable,
    bs.Update,
    bs.SubscriptionLimits,
    bs.TableTraits,
]
# For implementers of tables, of relays and of clients, with arguments of classes of their own.
INNER = [
    "then",
    "shutdown",
    "end_with_process",
    "join",
    "wait_first",
    "retire",
    "rename",
    "restate",
    "restore",
    "not_ready",
]


def test_every_public_call_with_arguments_is_tried() -> None:
    assert not untried(CLASSES, names_of(calls), INNER)

"""This server, given the same table and the same requests, says what the real one said: message by message.

Each captured scenario is played on the engine and the subscription machine. Rows come from the captured table
contents; which rows are written when comes from the scenario's own steps. Where the captured server marks cells as
modified although their value stayed (its keyed tables mark whole rows), this one may name fewer cells: never others,
and always every row.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from barrage_server.engine import AppendTable, KeyedTable, UpdateGraph
from barrage_server.rowset import RowSet
from barrage_server.subscription import Dialect, Subscription, TableFeed
from barrage_server.wire.batches import LengthMode
from barrage_server.wire.metadata import SubscriptionOptions, SubscriptionRequest, UpdateMetadata

GOLDEN = Path(__file__).parent.parent / "golden"
APPENDED = ["append_full", "empty_table", "viewport_append", "viewport_reverse"]
KEYED = ["batch_size_7", "columns_subset", "modifies_keyed", "removes_keyed", "viewport_modifies"]
OPERATION = re.compile(r"\w+\.(add|delete)\(mk\((\d+),(\d+)")


def rows_of(content: dict[str, Any], first: int, count: int) -> pa.Table:
    """The rows of a captured content whose key is in the range that a step wrote."""
    columns = content["columns"]
    picked = [index for index, key in enumerate(columns["L"]) if first <= key < first + count]
    return pa.table(
        {"L": pa.array([columns["L"][index] for index in picked], pa.int64())}
        | {
            name: pa.array([str(columns[name][index]) for index in picked], pa.string())
            for name in columns
            if name != "L"
        }
    )


def request_of(options: dict[str, Any]) -> SubscriptionRequest:
    viewport = options.get("viewport")
    ranges = None if viewport is None else RowSet.from_ranges([a for a, _ in viewport], [b for _, b in viewport])
    columns = options.get("columns")
    return SubscriptionRequest(
        ticket=b"s/t",
        columns=None if columns is None else tuple(columns),
        viewport=ranges,
        reverse_viewport=options.get("reverse", False),
        options=SubscriptionOptions(min_update_interval_ms=1, columns_as_list=True),
    )


def ranges_of(rows: RowSet | None) -> list[list[int]] | None:
    if rows is None:
        return None
    starts, ends = rows.ranges()
    return [list(pair) for pair in zip(starts.tolist(), ends.tolist(), strict=True)]


def check(ours: UpdateMetadata, theirs: dict[str, Any], note: str) -> None:
    assert ours.is_snapshot == theirs["is_snapshot"], note
    assert ours.effective_reverse_viewport == theirs["effective_reverse_viewport"], note
    assert ranges_of(ours.effective_viewport) == theirs["effective_viewport"], note
    assert ranges_of(ours.added_rows) == theirs["added_rows"], note
    assert ranges_of(ours.removed_rows) == theirs["removed_rows"], note
    assert ranges_of(ours.added_rows_included) == theirs["added_rows_included"], note
    assert (ours.shift_data is None) == (theirs["shift_data"] is None), note
    assert ours.table_size == (theirs["table_size"] or 0), note
    assert ours.modified_rows is not None
    named = [RowSet.from_ranges([a for a, _ in rows], [b for _, b in rows]) for rows in theirs["mods"]]
    for rows, expected in zip(ours.modified_rows, named, strict=True):
        assert expected.is_superset(rows), note
    assert RowSet.union_all(ours.modified_rows) == RowSet.union_all(named), note


@pytest.mark.parametrize("name", [*APPENDED, *KEYED])
def test_messages_equal_those_of_the_real_server(name: str) -> None:
    """Same rows added, removed and modified, same viewports, same sizes, in the same order."""
    manifest = json.loads((GOLDEN / name / "manifest.json").read_text())
    captured = [message["update"] for message in manifest["messages"] if "update" in message]
    steps = [step for step in manifest["steps"] if step["expected_full_table"] is not None]
    first = steps[0]["expected_full_table"]
    schema = rows_of(first, 0, 0).schema
    graph = UpdateGraph()
    table = AppendTable(graph, "t", schema) if name in APPENDED else KeyedTable(graph, "t", schema, ["L"])

    def write(kind: str, rows: pa.Table) -> None:
        if isinstance(table, AppendTable):
            table.append(rows)
        elif kind == "add":
            table.upsert(rows)
        else:
            table.delete(rows)

    write("add", rows_of(first, 0, 1 << 40))
    subscription = Subscription(
        TableFeed(table),
        request_of(steps[0]["request"]["options"]),
        dialect=Dialect.FLATTENED,
        lengths=LengthMode.PADDED,
    )
    now, seen = 0.0, 0
    for number, step in enumerate(steps):
        if number and "request" in step:
            subscription.change(request_of(step["request"]["options"]))
        elif number:
            match = OPERATION.match(step["server_code"])
            assert match is not None, step["server_code"]
            kind, start, count = match.group(1), int(match.group(2)), int(match.group(3))
            source = steps[number - 1] if kind == "delete" else step
            write(kind, rows_of(source["expected_full_table"], start, count))
        now += 1.0
        for message in subscription.poll(now).messages:
            check(message.metadata, captured[seen], f"{name}: {step['note']}")
            seen += 1
    assert seen == len(captured)

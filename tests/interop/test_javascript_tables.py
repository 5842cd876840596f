"""Deephaven's JavaScript API, unmodified: tables of every kind and of all column types, as they change."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from barrage_server import Server
from barrage_server.engine import ReplicaTable, ReplicaUpdate, UpdateGraph
from barrage_server.rowset import RowSet
from barrage_server.subscription import SubscriptionLimits
from tests.engine.samples import SAMPLES, pick
from tests.properties.sources import (
    SCHEMA,
    AppendSource,
    KeyedSource,
    ReplacedSource,
    RingSource,
    ShiftingSource,
    Source,
)
from tests.waiting import until

from .deephaven import DeephavenServer
from .javascript import Cells, JavaScript, Page, Subscription, View, nothing_left, shown
from .peer import PeerError

pytestmark = pytest.mark.interop

CHANGES = 400


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(deephaven_web_port=0, subscriptions=SubscriptionLimits(default_interval_ms=1)) as server:
        yield server
        until(lambda: nothing_left(server))


@pytest.fixture
def page(javascript: JavaScript, server: Server) -> Iterator[Page]:
    assert server.deephaven_web_uri is not None
    with javascript.connect(server.deephaven_web_uri) as page:
        yield page


class Replay:
    """A subscription, of which every change that its cells show must have been told."""

    def __init__(self, subscription: Subscription, *, shifts: bool) -> None:
        self._subscription = subscription
        self._shifts = shifts
        self._rows: dict[int, tuple[Any, ...]] = {}
        self.cells: Cells | None = None
        self.updates = 0

    def reach(self, expected: Cells) -> None:
        """Take updates until the page shows just that."""
        while self.cells != expected:
            self._take(self._subscription.next())

    def _take(self, update: dict[str, Any]) -> None:
        self.updates += 1
        self.cells = update["cells"]
        rows = dict(zip(update["index"], zip(*update["cells"].values(), strict=True), strict=True))
        assert len(rows) == len(update["index"])
        if not self._shifts:  # the API does not tell of them
            for key in update["removed"]:
                del self._rows[key]
            self._rows |= {key: rows[key] for key in [*update["added"], *update["modified"]]}
            assert self._rows == rows
        self._rows = rows


class Look:
    """A viewport, and what it showed last."""

    def __init__(self, view: View) -> None:
        self.view = view
        self._last: dict[str, Any] | None = None

    def reach(self, rows: pa.Table, first: int, last: int, columns: list[str]) -> None:
        """Take updates until it shows those rows of a table."""
        cells = shown(rows.select(columns).slice(first, max(0, last + 1 - first)))
        if first == rows.num_rows > 0:  # so the API shows a viewport that begins just behind the end, with every server
            cells = {name: [None] for name in columns}
        expected = {"offset": first, "cells": cells, "size": rows.num_rows}
        if not cells[columns[0]]:
            del expected["offset"]
        while self._last is None or not self._last.items() >= expected.items():
            try:
                self._last = self.view.event("viewport")
            except PeerError as error:
                pytest.fail(f"wanted {first}..{last}\n{expected}\nand saw last\n{self._last}\n{error}", pytrace=False)


@pytest.mark.parametrize("kind", [AppendSource, RingSource, KeyedSource, ReplacedSource, ShiftingSource])
def test_pages_see_every_change_of_every_kind_of_table(
    server: Server, page: Page, kind: Callable[[UpdateGraph], Source]
) -> None:
    chance = random.Random(kind.__name__)
    source = kind(server.graph)
    server.add_table("t", source.table)
    table = page.open("t")
    whole = Replay(table.subscribe(), shifts=kind is ShiftingSource)
    first, last, columns = 2, 8, SCHEMA.names
    look = Look(table.look(first, last, columns))
    for _ in range(CHANGES):
        for _ in range(chance.choice([1, 1, 1, 3])):
            source.change(chance)
        if chance.random() < 0.2:
            first = chance.choice([0, 0, 1, 5, 20])
            last = first + chance.choice([0, 3, 10, 50])
            columns = chance.choice([SCHEMA.names, ["key"], ["text", "flag"]])
            look.view.move(first, last, columns)
        if chance.random() < 0.7:
            rows = source.table.to_arrow()
            whole.reach(shown(rows))
            look.reach(rows, first, last, columns)
    source.check()
    whole.reach(shown(source.table.to_arrow()))
    assert whole.updates > CHANGES / 3


def test_a_blink_table_shows_every_row_once(server: Server, page: Page) -> None:
    table = server.blink_table("t", pa.schema([("n", pa.int32())]))
    whole = page.open("t").subscribe()
    assert whole.next()["cells"] == {"n": []}
    heard: list[int] = []
    gone: list[int] = []
    for first in range(0, 300, 3):
        table.append({"n": [first, first + 1, first + 2]})
    while len(heard) < 300:
        update = whole.next()
        assert update["removed"] == gone
        assert update["added"] == update["index"]
        heard += update["cells"]["n"]
        gone = update["index"]
    assert heard == list(range(300))


LEFT_OUT = {
    "month_day_nano_interval",
    "map<string, int32>",
    "struct<>",
    "struct",
    "list<struct>",
    "struct<struct<null>>",
    "struct of times",
    "struct of leaves",
    "list_view<list_view<string>>",
    "struct<list_view<string>>",
    "dense_union",
    "sparse_union",
    "list<dense_union>",
    "struct<sparse_union>",
    "union<list_view>",
}
HEXADECIMAL = {"binary", "large_binary", "uuid", *(f"fixed_size_binary[{width}]" for width in (0, 3, 8, 12))}
SIGNED = {"int8": -(2**7), "int16": -(2**15), "int32": -(2**31), "int64": -(2**63), "uint16": 2**16 - 1}
"""Values that every client of Deephaven takes for null."""


def _hexadecimal(value: Any) -> Any:
    if isinstance(value, list):
        return [_hexadecimal(item) for item in value]
    return None if value is None else getattr(value, "bytes", value).hex()


def _expected(rows: pa.Table) -> Cells:
    cells = shown(rows.drop([name for name in rows.schema.names if name in LEFT_OUT]))
    for name in (*HEXADECIMAL, "list<uuid>"):
        cells[name] = _hexadecimal(cells[name])
    cells["duration"] = [
        None if value is None else {"text": str(value // dt.timedelta(microseconds=1) * 1000)}
        for value in cells["duration"]
    ]
    for name, null in SIGNED.items():
        absent = (null, {"text": str(null)})
        cells[name] = [None if value in absent else value for value in cells[name]]
    return cells


def test_columns_of_all_types(server: Server, page: Page) -> None:
    """As docs/types.md says: in snapshots, subscriptions and viewports, as rows that are added and modified."""
    rows = pa.table({name: pick(sample, range(8)) for name, sample in SAMPLES.items()})
    schema = pa.schema([("id", pa.int32()), *rows.schema])
    table = server.keyed_table("all", schema, key=["id"])

    def publish(rows: pa.Table) -> Cells:
        table.upsert(pa.table([pa.array(range(rows.num_rows), pa.int32()), *rows.columns], schema=schema))
        return {"id": [*range(table.size)], **_expected(rows)}

    expected = publish(rows)
    opened = page.open("all")
    assert [name for name, _ in opened.columns] == [name for name in schema.names if name not in LEFT_OUT]
    assert opened.snapshot(0, 10) == expected
    whole, view = opened.subscribe(), opened.look(0, 20)
    whole.until(expected)
    view.until(expected, size=8)
    for other in (rows.take(pa.array([*range(1, 8), 0])), pa.concat_tables([rows, rows])):
        expected = publish(other)
        whole.until(expected)
        view.until(expected, size=other.num_rows)


# Columns that a Deephaven server makes text of before a page gets them: here they come as what they are.
TEXT_THERE = {"Duration", "Bytes", "Longs", "Texts", "Instants"}
# Types that pages have no name of here.
NAMED_OTHERWISE = {"Duration": "long", "Bytes": "java.lang.String", "Object": "java.lang.String"}


def test_a_deephaven_servers_columns_look_the_same_here(
    deephaven: DeephavenServer, javascript: JavaScript, server: Server, page: Page
) -> None:
    """Cells of all types that it has, read off it, served here, and shown by the same page side by side."""
    deephaven.execute(
        "from deephaven import empty_table\n"
        "from tests.interop.peers.ticking_tables import ALL_TYPES\n"
        "js_types = empty_table(60).update(['A = ii', 'B = ii * 7 % 60']).update(ALL_TYPES)"
    )
    rows = deephaven.content("js_types")
    table = ReplicaTable(server.graph, "t", rows.schema)
    table.apply(ReplicaUpdate(added=RowSet.from_range(0, rows.num_rows - 1), columns=rows.columns))
    server.add_table("t", table)
    here = page.open("t")
    with javascript.connect(f"http://127.0.0.1:{deephaven.port}") as other:
        there = other.open("js_types")
        types = {**dict(there.columns), **NAMED_OTHERWISE}
        assert here.columns == [*types.items()]
        wanted, found = there.subscribe().next()["cells"], here.subscribe().next()["cells"]
    for name, cells in wanted.items():
        assert any(cell is not None for cell in cells)
        if name not in TEXT_THERE:
            assert (name, found[name]) == (name, cells)
    durations = rows["Duration"].cast(pa.int64()).to_pylist()
    assert found["Duration"] == [None if cell is None else {"text": str(cell)} for cell in durations]


def test_a_table_of_many_rows_comes_in_several_messages(server: Server, page: Page) -> None:
    """The API takes 100,000 rows and 10 MB in a message."""
    count = 120_000
    schema = pa.schema([("n", pa.int32()), ("text", pa.string())])
    table = server.append_table("t", schema)

    def append(first: int, size: int) -> None:
        numbers = pa.array(range(first, first + size), pa.int32())
        table.append(pa.table([numbers, pa.repeat("x" * 100, size)], schema=schema))

    append(0, count)
    opened = page.open("t")
    total = opened.sum("n")
    heard = total.event("sum")
    assert (heard["rows"], heard["sum"]) == (count, count * (count - 1) // 2)
    append(count, count)
    heard = total.event("sum")
    assert (heard["rows"], heard["sum"]) == (2 * count, 2 * count * (2 * count - 1) // 2)
    [gauges] = server.statistics().subscriptions
    assert gauges.messages == 2
    assert gauges.batches >= 4
    view = opened.look(count - 2, count + 1)
    view.until({"n": [*range(count - 2, count + 2)], "text": ["x" * 100] * 4}, size=2 * count, offset=count - 2)

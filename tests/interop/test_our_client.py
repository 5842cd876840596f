"""Our client against a real Deephaven server: what it lists, reads and follows is what Deephaven's own client reads.

Content is compared at *quiet points*: the server makes a change and says at which step of its update graph each table
changed last; the messages of a subscription carry the step that they lead to; so once a live table has reached the
step of its table, what it shows and what the server has must be the same.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import barrage_server as bs
from tests.waiting import until

from .deephaven import DeephavenServer

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

TABLES = ["append", "keyed", "sorted", "removed_from", "flat", "ring", "reversed", "merged", "grouped"]
QUICK = bs.RetryPolicy(first_delay=0.05, max_delay=0.2, deadline=60)


@pytest.fixture(scope="module")
def client(deephaven: DeephavenServer) -> Iterator[bs.Client]:
    with bs.connect(deephaven.uri, retry=QUICK) as client:
        yield client


@dataclass
class Watched:
    """A live table, and what it is to show."""

    live: bs.LiveTable
    start: int = 0
    stop: int | None = None
    reverse: bool = False

    def expected(self, whole: pa.Table) -> pa.Table:
        """The part of ``whole`` that is in view."""
        part = whole.select(self.live.schema.names)
        if self.stop is None:
            return part
        size = whole.num_rows
        first, last = (size - self.stop, size - self.start) if self.reverse else (self.start, self.stop)
        first, last = max(0, min(first, size)), max(0, min(last, size))
        return part.slice(first, last - first)

    def move(self, chance: random.Random, names: list[str]) -> None:
        """Look at other rows, and at times at other columns."""
        self.start = chance.randrange(80)
        self.stop, self.reverse = self.start + chance.randrange(1, 50), chance.random() < 0.5
        columns = None if chance.random() < 0.5 else chance.sample(names, chance.randrange(1, 4))
        self.live.set_viewport(range(self.start, self.stop), columns, reverse=self.reverse)


def _assert_same(found: pa.Table, expected: pa.Table) -> None:
    assert found.schema.remove_metadata().names == expected.schema.names
    for name in expected.column_names:
        assert found[name].type == expected[name].type, name
        assert found[name].combine_chunks().equals(expected[name].combine_chunks()), (
            name,
            found[name].to_pylist(),
            expected[name].to_pylist(),
        )


def _make(deephaven: DeephavenServer, prefix: str, seed: int) -> list[str]:
    names = deephaven.peer.call("make_ticking", prefix=prefix, seed=seed)
    assert names == [prefix + name for name in TABLES]
    return [prefix + name for name in TABLES]


def _change(deephaven: DeephavenServer, prefix: str, times: int) -> dict[str, int]:
    steps: dict[str, int] = deephaven.peer.call("change_ticking", prefix=prefix, times=times)
    return steps


def _reach(live: bs.LiveTable, step: int) -> None:
    live.wait_until(lambda view: view.step >= step, timeout=20)


def test_content_is_equal_at_every_quiet_point(deephaven: DeephavenServer, client: bs.Client) -> None:
    """Whole tables, windows and reverse windows, over 250 quiet points with one to three random changes before each.

    The tables: appended to, keyed, sorted (rows shift), removed from, flattened (rows shift all the time), a ring,
    reversed, merged, grouped into arrays; with all column types and their nulls. Windows move and change their columns.
    """
    chance = random.Random(1)
    names = _make(deephaven, "quiet_", seed=1)
    watched: dict[str, list[Watched]] = {}
    for name in names:
        watched[name] = [
            Watched(client.subscribe(name, interval_ms=1)),
            Watched(client.subscribe(name, viewport=range(5, 25), interval_ms=1), 5, 25),
            Watched(client.subscribe(name, viewport=range(10), reverse=True, interval_ms=40), 0, 10, True),
        ]
    columns = {name: watched[name][0].live.schema.names for name in names}
    steps: dict[str, int] = {}
    for point in range(250):
        steps = _change(deephaven, "quiet_", chance.choice([1, 1, 1, 2, 3]))
        for name, (_, window, last) in watched.items():
            if chance.random() < 0.1:
                chance.choice([window, last]).move(chance, columns[name])
        for name, views in watched.items():
            for view in views:
                _reach(view.live, steps[name])
        for name, views in watched.items():
            whole = deephaven.read(name)
            for view in views:
                _assert_same(view.live.to_arrow(), view.expected(whole))
                assert view.live.table_size == whole.num_rows, (name, point)
    for views in watched.values():
        for view in views:
            assert view.live.state is bs.LiveState.LIVE
            view.live.close()


@pytest.mark.parametrize("columns", [None, ["K", "Text", "Longs"]], ids=["all", "some"])
def test_the_first_content_may_come_in_parts_while_the_table_ticks(columns: list[str] | None) -> None:
    """Deephaven sends large tables in growing parts, with changes of what is there already in between."""
    few_cells = [f"-DBarrageUtil.{bound}SnapshotCellCount=200" for bound in ("min", "max")]
    server = DeephavenServer(cycle_ms=2, interval_ms=1, jvm_args=few_cells)
    try:
        with bs.connect(server.uri) as client:
            _make(server, "parts_", seed=2)
            _change(server, "parts_", 60)
            for name in ("append", "keyed", "sorted", "removed_from", "flat", "merged"):
                done = threading.Event()
                steps: dict[str, int] = {}

                def churn(done: threading.Event = done, steps: dict[str, int] = steps) -> None:
                    steps.update(_change(server, "parts_", 25))
                    done.set()

                churning = threading.Thread(target=churn)
                churning.start()
                with client.subscribe(f"parts_{name}", columns, interval_ms=1) as live:
                    churning.join(60)
                    assert done.is_set()
                    _reach(live, steps[f"parts_{name}"])
                    whole = server.read(f"parts_{name}")
                    _assert_same(live.to_arrow(), whole.select(columns) if columns else whole)
                    assert live.attributes == client.table(f"parts_{name}").attributes
    finally:
        server.close()


def test_updates_say_what_has_changed(deephaven: DeephavenServer, client: bs.Client) -> None:
    """The rows that updates name, taken together, lead from each content to the next."""
    _make(deephaven, "said_", seed=3)
    with client.subscribe("said_sorted", ["K", "A", "Text"], interval_ms=1) as live:
        rows: dict[int, Any] = dict(zip(live.row_set.keys().tolist(), live.to_arrow().to_pylist(), strict=True))
        updates = live.updates(timeout=0)
        for _ in range(60):
            _reach(live, _change(deephaven, "said_", 1)["said_sorted"])
            for update in updates:
                for key, gone in zip(update.removed.keys().tolist(), update.removed_values().to_pylist(), strict=True):
                    assert rows.pop(key) == gone
                moved = update.shifted.apply_keys(np.array(list(rows), np.int64)).tolist()
                rows = dict(zip(moved, rows.values(), strict=True))
                rows |= zip(update.added.keys().tolist(), update.added_values().to_pylist(), strict=True)
                changed = zip(update.modified_rows.keys().tolist(), update.modified_values().to_pylist(), strict=True)
                rows |= changed
            updates = live.updates(timeout=0)
            assert rows == dict(zip(live.row_set.keys().tolist(), live.to_arrow().to_pylist(), strict=True))


def test_snapshots_are_what_pydeephaven_reads(deephaven: DeephavenServer, client: bs.Client) -> None:
    """The whole table, a window from either end, some of the columns, and both."""
    names = _make(deephaven, "once_", seed=4)
    _change(deephaven, "once_", 30)
    for name in names:
        whole = deephaven.read(name)
        some = whole.column_names[:1] + whole.column_names[-2:]
        size = whole.num_rows
        _assert_same(client.snapshot(name), whole)
        _assert_same(client.snapshot(name, some), whole.select(some))
        _assert_same(client.snapshot(name, viewport=range(3, 9)), whole.slice(3, 6))
        _assert_same(client.snapshot(name, viewport=range(2), reverse=True), whole.slice(size - 2))
        _assert_same(client.snapshot(name, some, range(1, 4)), whole.slice(1, 3).select(some))
        _assert_same(client.snapshot(name, viewport=range(size, size + 5)), whole.slice(0, 0))


def test_an_empty_table_fills_and_empties(deephaven: DeephavenServer, client: bs.Client) -> None:
    deephaven.execute(
        "from deephaven import dtypes, input_table, new_table\n"
        "from deephaven.column import long_col, string_col\n"
        'empties = input_table(col_defs={"K": dtypes.long, "S": dtypes.string}, key_cols="K")'
    )
    assert client.snapshot("empties").num_rows == 0
    with client.subscribe("empties", interval_ms=1) as whole, client.subscribe("empties", viewport=range(3)) as window:
        assert whole.size == window.size == 0
        assert whole.schema == pa.schema([("K", pa.int64()), ("S", pa.string())])
        deephaven.execute('empties.add(new_table([long_col("K", [1, 2]), string_col("S", ["a", None])]))')
        for live in (whole, window):
            live.wait_until(lambda view: view.size == 2)
            assert live.to_arrow().to_pydict() == {"K": [1, 2], "S": ["a", None]}
        deephaven.execute('empties.delete(new_table([long_col("K", [1, 2])]))')
        for live in (whole, window):
            live.wait_until(lambda view: view.size == 0)


@pytest.mark.parametrize("interval", [1, 60])
def test_every_row_of_a_blink_table_comes_once(deephaven: DeephavenServer, client: bs.Client, interval: int) -> None:
    """Rows that live for one cycle on the server are in some update, however few updates there are."""
    deephaven.execute(
        "from deephaven import dtypes, new_table\n"
        "from deephaven.column import long_col\n"
        "from deephaven.stream.table_publisher import table_publisher\n"
        'blinking, publisher = table_publisher("blinking", {"X": dtypes.long})'
    )
    found: list[int] = []
    with client.subscribe("blinking", interval_ms=interval) as live:
        assert live.attributes["BlinkTable"] is True
        live.on_update(lambda update: found.extend(update.added_values()["X"].to_pylist()))
        for number in range(40):
            deephaven.execute(f'publisher.add(new_table([long_col("X", [{2 * number}, {2 * number + 1}])]))')
        until(lambda: len(found) >= 80)
    assert found == list(range(80))


def test_tables_are_listed_with_what_the_server_says_of_them(deephaven: DeephavenServer, client: bs.Client) -> None:
    deephaven.execute(
        "from deephaven import dtypes, empty_table, input_table\n"
        'listed = empty_table(3).update(["A = ii", "B = `b` + ii"])\n'
        'listed_keyed = input_table(col_defs={"K": dtypes.long, "V": dtypes.double}, key_cols="K")\n'
        "no_table = 5"
    )
    found = {info.name: info for info in client.tables()}
    assert client.is_deephaven
    assert "no_table" not in found
    assert found["listed"].size == 3
    assert found["listed"].attributes["IsFlat"] is True
    assert found["listed"].schema == pa.schema([("A", pa.int64()), ("B", pa.string())])
    assert found["listed_keyed"].key_columns == ("K",)
    assert client.table("listed") == found["listed"]
    with client.subscribe("listed_keyed") as live:
        assert live.key_columns == ("K",)


def test_a_column_that_cannot_be_read_does_not_keep_the_others_back(
    deephaven: DeephavenServer, client: bs.Client, caplog: pytest.LogCaptureFixture
) -> None:
    """Periods become an Arrow type that pyarrow can name and not hold."""
    deephaven.execute(
        "from deephaven import empty_table\n"
        'periods = empty_table(4).update(["A = ii", "P = java.time.Period.ofMonths((int)ii)", "B = `b` + ii"])'
    )
    expected = {"A": [0, 1, 2, 3], "B": ["b0", "b1", "b2", "b3"]}
    assert client.snapshot("periods").to_pydict() == expected
    assert "left out, because their types cannot be read here: P" in caplog.text
    with client.subscribe("periods") as live:
        assert live.to_arrow().to_pydict() == expected
    with client.subscribe("periods", ["B"], viewport=range(1, 3)) as live:
        assert live.to_arrow().to_pydict() == {"B": ["b1", "b2"]}
        live.set_viewport(range(2), None)
        assert live.to_arrow().to_pydict() == {"A": [0, 1], "B": ["b0", "b1"]}
    with pytest.raises(bs.UnsupportedTypeError, match="Column 'P' of table 'periods' has the type month_interval"):
        client.snapshot("periods", ["P"])
    assert client.table("periods").schema.names == ["A", "P", "B"]


def test_a_view_can_become_any_other(deephaven: DeephavenServer, client: bs.Client) -> None:
    """Between a window and the whole table, forwards and backwards, with more and with fewer columns."""
    _make(deephaven, "views_", seed=5)
    steps = _change(deephaven, "views_", 20)
    whole = deephaven.read("views_keyed")
    with client.subscribe("views_keyed", interval_ms=1) as live:
        _reach(live, steps["views_keyed"])
        for viewport, columns, reverse in (
            (range(10), None, False),
            (range(5, 15), ["K", "Text"], False),
            (range(5, 15), ["Text", "Bool"], True),
            (None, ["K"], False),
            (None, None, False),
            (range(1000, 1010), None, False),
            (range(3), ["Longs"], True),
        ):
            live.set_viewport(viewport, columns, reverse=reverse)
            part = Watched(live, 0, None)
            if viewport is not None:
                part = Watched(live, viewport.start, viewport.stop, reverse)
            _assert_same(live.to_arrow(), part.expected(whole))


def test_errors_of_the_server_are_ours_and_say_what_to_do(deephaven: DeephavenServer, client: bs.Client) -> None:
    deephaven.execute("from deephaven import empty_table\nknown = empty_table(1).update('A = ii')\nnumber = 5")
    for name in ("nowhere", "number"):
        for ask in (client.table, client.snapshot, client.subscribe):
            with pytest.raises(bs.UnknownTableError, match=rf"no table '{name}' on the Deephaven server.*tables\(\)"):
                ask(name)
    with pytest.raises(bs.UnknownTableError, match="no application exists"):
        client.subscribe("app/none/field/x")
    with pytest.raises(bs.UnknownColumnError, match="no column 'B'; it has: A"):
        client.subscribe("known", ["B"])
    with pytest.raises(bs.UnsupportedOperationError, match="flattened"):
        client.subscribe("known", viewport=range(3), dialect="key-space")


def test_what_a_deephaven_server_does_not_offer_is_said(deephaven: DeephavenServer, client: bs.Client) -> None:
    rows = {"A": [1]}
    with bs.Server() as ours, client.subscribe(_one(deephaven)) as live:
        local = ours.append_table("local", pa.schema([("A", pa.int64())]))
        for refused in (
            client.statistics,
            client.functions,
            lambda: client.publish("new", rows),
            lambda: client.publish_live("new", local),
            lambda: client.publish_live("new", live),
            lambda: client.append("new", rows),
            lambda: client.upsert("new", rows),
            lambda: client.replace("new", rows),
            lambda: client.delete("new", rows),
            lambda: client.create_table("new", pa.schema([("A", pa.int64())])),
            lambda: client.drop("new"),
        ):
            with pytest.raises(bs.UnsupportedOperationError, match="is a Deephaven server, which does not offer"):
                refused()
    assert "new" not in [info.name for info in client.tables()]


def _one(deephaven: DeephavenServer) -> str:
    deephaven.execute("from deephaven import empty_table\nrefusing = empty_table(1).update('A = ii')")
    return "refusing"


def test_a_live_table_of_a_deephaven_server_is_published_on_ours(deephaven: DeephavenServer, client: bs.Client) -> None:
    """One side feeds the other, with every column type."""
    _make(deephaven, "fed_", seed=6)
    with (
        bs.Server() as ours,
        bs.connect(ours.uri) as there,
        client.subscribe("fed_sorted", interval_ms=1) as live,
        there.publish_live("copy", live, interval_ms=1) as publication,
    ):
        for _ in range(20):
            _reach(live, _change(deephaven, "fed_", 2)["fed_sorted"])
            publication.flush()
        _assert_same(there.snapshot("copy"), deephaven.read("fed_sorted"))
        # what an Arrow type does not tell of a column stays with the replica
        assert live.table.schema.field("Decimal").metadata == {b"deephaven:type": b"java.math.BigDecimal"}

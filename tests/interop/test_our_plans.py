"""Plans of our client that a real Deephaven server computes: what is told of them, what is kept, what is lost."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.client.plan_calls import Computed
from barrage_server.client.table_service import TableService
from barrage_server.plan.condition import Column, Compare, Comparison, Not
from barrage_server.plan.plan import Plan
from tests.waiting import until

from .comparison import differences
from .deephaven import DeephavenServer

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

QUICK = bs.RetryPolicy(first_delay=0.05, max_delay=0.2, deadline=60)
TABLES = """
from deephaven import dtypes, empty_table, input_table, new_table
from deephaven.column import double_col, long_col, string_col
numbers = empty_table(10).update(["a = ii", "b = ii % 3", "s = `x` + (ii % 4)", "d = (ii - 5) / 2.0"])
ticking = input_table(col_defs={"K": dtypes.long, "V": dtypes.double}, key_cols="K")

def put(keys, values):
    ticking.add(new_table([long_col("K", keys), double_col("V", values)]))

put([1, 2, 3], [1.0, 2.0, 3.0])
"""


@pytest.fixture
def client(deephaven: DeephavenServer) -> Iterator[bs.Client]:
    deephaven.execute(TABLES)
    with bs.connect(deephaven.uri, retry=QUICK) as client:
        yield client


@dataclass
class Exports:
    """The results that a client's plans have had, as exports of its session."""

    made: list[tuple[TableService, Computed]] = field(default_factory=list)

    def exists(self, number: int) -> bool:
        """Whether the session has one still."""
        service, result = self.made[number]
        try:
            return service.size(result) >= 0
        except bs.BarrageError:
            return False


@pytest.fixture
def exports(monkeypatch: pytest.MonkeyPatch) -> Exports:
    exports = Exports()
    compute = TableService.compute

    def recorded(service: TableService, plan: Plan) -> Computed:
        result = compute(service, plan)
        exports.made.append((service, result))
        return result

    monkeypatch.setattr(TableService, "compute", recorded)
    return exports


def test_a_plan_is_described_read_and_followed(deephaven: DeephavenServer, client: bs.Client) -> None:
    large = client.table("ticking").where("V > 1").update("W = V * 2").sort_descending("V")
    assert large.schema == pa.schema([("K", pa.int64()), ("V", pa.float64()), ("W", pa.float64())])
    assert (large.size, large.is_static, client.table("numbers").head(2).is_static) == (2, False, True)
    assert large.to_arrow().to_pydict() == {"K": [3, 2], "V": [3.0, 2.0], "W": [6.0, 4.0]}
    assert large.to_arrow(["K"], range(1)).to_pydict() == {"K": [3]}
    with large.subscribe(interval_ms=1) as whole, large.subscribe(["W"], range(2), interval_ms=1) as window:
        deephaven.execute("put([4, 1], [2.5, 9.0])")
        whole.wait_until(lambda view: view.to_arrow()["K"].to_pylist() == [1, 3, 4, 2], timeout=20)
        window.wait_until(lambda view: view.to_arrow().to_pydict() == {"W": [18.0, 6.0]}, timeout=20)
    until(lambda: large.size == 4)


def test_tables_are_made_without_a_source(client: bs.Client) -> None:
    assert client.empty_table(3).update("x = ii * 2").to_arrow().to_pydict() == {"x": [0, 2, 4]}
    with client.time_table("PT0.02S").update("x = ii").subscribe(interval_ms=1) as live:
        live.wait_until(lambda view: view.size >= 3, timeout=20)
        assert live.to_arrow()["x"].to_pylist()[:3] == [0, 1, 2]


def test_operations_have_our_meaning(client: bs.Client) -> None:
    """Those that random plans leave out."""
    numbers = client.table("numbers").view(["a", "b", "d"])
    assert numbers.reverse().head(2).to_arrow()["a"].to_pylist() == [9, 8]
    assert numbers.sort("abs(d)").head(3).to_arrow()["d"].to_pylist() == [0.0, -0.5, 0.5]
    assert numbers.sort_descending("abs(d)").head(1).to_arrow()["d"].to_pylist() == [-2.5]
    assert numbers.select().size == 10
    assert numbers.where([bs.col("a") > 7, "b == 2"]).to_arrow()["a"].to_pylist() == [8]
    assert bs.merge([numbers.head(1), client.table("numbers").where([]).view(["a", "b", "d"])]).size == 11
    assert client.table("numbers").where([]).size == 10
    assert numbers.agg_by(bs.agg.unique("a", non_unique_sentinel=-1), "b").to_arrow()["a"].to_pylist() == [-1] * 3
    assert numbers.meta_table.to_arrow()["Name"].to_pylist() == ["a", "b", "d"]
    joined = bs.multi_join([numbers.view(["a", "b"]), numbers.view(["a", "d"])], on="a")
    assert joined.to_arrow().equals(numbers.to_arrow())
    merged = bs.merge([numbers.where("b == 0"), numbers.where("b == 1")], order_by="a")
    assert merged.to_arrow()["a"].to_pylist() == [0, 1, 3, 4, 6, 7, 9]
    ranges = client.empty_table(2).update(["low = ii * 1.0", "high = low + 1"])
    lists = ranges.range_join(numbers.sort("d"), "low <= d <= high", bs.agg.group("found = d"))
    assert lists.to_arrow()["found"].to_pylist() == [[0.0, 0.5, 1.0], [1.0, 1.5, 2.0]]
    by_b = numbers.partition_by("b")
    assert by_b.keys().to_arrow()["b"].to_pylist() == [0, 1, 2]
    first = by_b.get_constituent(1)
    assert first is not None
    assert first.to_arrow()["a"].to_pylist() == [1, 4, 7]
    assert by_b.get_constituent(7) is None


def test_equality_without_regard_to_case_has_our_meaning(client: bs.Client) -> None:
    """The server's own comparison takes ``!=`` for ``==`` then (42.7)."""
    table = client.empty_table(5).update("v = i == 0 ? `Ab` : i == 1 ? `AB` : i == 2 ? `ab` : i == 3 ? `b` : null")
    equal = Compare(Comparison.EQUAL, Column("v"), "aB", ignores_case=True)
    other = Compare(Comparison.NOT_EQUAL, Column("v"), "aB", ignores_case=True)
    cases: list[tuple[Compare | Not, list[str | None]]] = [
        (equal, ["Ab", "AB", "ab"]),
        (other, ["b", None]),
        (Not(equal), ["b", None]),
    ]
    for condition, wanted in cases:
        assert table.where(condition).to_arrow()["v"].to_pylist() == wanted, condition


def test_medians_and_percentiles_of_both_kinds_are_the_same(client: bs.Client) -> None:
    """In the process and on the server, of groups of one to nine rows, in values and types."""
    here = bs.empty_table(45).update(
        ["n = (int)(sqrt(2 * ii + 0.25) - 0.5)", "v = ii * ii", "d = v / 4.0", "f = (float)d", "s = `x` + v"]
    )
    there = client.empty_table(45).update(
        ["n = (int)(sqrt(2 * ii + 0.25) - 0.5)", "v = ii * ii", "d = v / 4.0", "f = (float)d", "s = `x` + v"]
    )
    columns = ["v", "d", "f", "s"]
    for way in (True, False):
        for found in (
            bs.agg.median(columns, average_evenly_divided=way),
            *(bs.agg.pct(part / 20, columns, average_evenly_divided=way) for part in range(21)),
        ):
            ours, theirs = here.agg_by(found, "n").to_arrow(), there.agg_by(found, "n").to_arrow()
            assert ours.num_rows == 9
            assert differences(ours, theirs) == [], found


def test_what_cannot_be_computed_is_told_with_the_operation(client: bs.Client) -> None:
    numbers = client.table("numbers")
    for wrong in (
        numbers.where("nope > 3").head(2),
        numbers.head(3).update("x = a +* 2"),
        numbers.drop_columns("nope").sort("a"),
        numbers.exact_join(numbers, on="b", joins="z = a"),
    ):
        verb = {"where.head": "where", "head.update": "update", "drop_columns.sort": "drop_columns"}.get(
            wrong.name.partition(".")[2], "exact_join"
        )
        for ask in (wrong.to_arrow, wrong.subscribe, lambda table=wrong: table.schema):
            told = rf"The Deephaven server refused '{verb}'. It tells clients no reason: its log does, under the id "
            with pytest.raises(bs.InvalidRequestError, match=told):
                ask()
    with pytest.raises(bs.UnknownColumnError, match=r"refused 'sort': column\(s\) not found: nope\."):
        numbers.sort("nope").to_arrow()
    with pytest.raises(bs.InvalidRequestError, match=r"refused 'where', 'range_join': RangeJoinMatch must have dist"):
        numbers.where("a > 1").range_join(numbers, "a <= d <= a", bs.agg.group("g = d")).to_arrow()
    with pytest.raises(bs.UnsupportedOperationError, match=r"A Deephaven server cannot be asked for 'head_pct'\. Use"):
        numbers.head_pct(0.5).to_arrow()
    assert numbers.head(2).size == 2  # the session goes on


def test_a_table_that_is_gone_is_unknown(deephaven: DeephavenServer, client: bs.Client) -> None:
    deephaven.execute("passing = empty_table(1).update('a = ii')")
    plan = client.table("passing").head(1)
    deephaven.execute("del passing")
    with pytest.raises(bs.UnknownTableError, match="There is no table 'passing' on the Deephaven server"):
        plan.to_arrow()


def test_a_result_is_released_when_its_handle_is_closed_or_collected(client: bs.Client, exports: Exports) -> None:
    closed, dropped = client.table("ticking").where("V > 1"), client.table("ticking").where("V > 2")
    assert (closed.size, dropped.size) == (2, 1)
    assert exports.exists(0)
    assert exports.exists(1)
    closed.close()
    until(lambda: not exports.exists(0))
    assert exports.exists(1)
    del dropped
    gc.collect()
    until(lambda: not exports.exists(1))
    with pytest.raises(bs.InvalidRequestError, match="was closed; make it again"):
        closed.to_arrow()


def test_a_live_table_keeps_the_result_that_it_follows(deephaven: DeephavenServer, client: bs.Client) -> None:
    live = client.table("ticking").where("V > 1").subscribe(interval_ms=1)
    gc.collect()
    deephaven.execute("put([8], [8.0])")
    live.wait_until(lambda view: 8 in view.to_arrow()["K"].to_pylist(), timeout=20)
    live.close()


def test_a_result_can_have_a_name(deephaven: DeephavenServer, client: bs.Client) -> None:
    plan = client.table("ticking").where("V > 1")
    bound = plan.bind("large_ones")
    plan.close()
    assert bound.name == "large_ones"
    deephaven.execute("put([7], [7.0])")
    until(lambda: 7 in client.snapshot("large_ones")["K"].to_pylist())
    assert deephaven.evaluate("large_ones.size") == bound.to_arrow().num_rows
    with pytest.raises(bs.AlreadyExistsError, match="There is a table 'large_ones'"):
        client.table("ticking").head(1).bind("large_ones")
    with pytest.raises(bs.InvalidRequestError, match="is a table of the server, and has a name"):
        bound.bind("other")
    deephaven.execute("del large_ones")


def test_results_of_a_lost_session_are_computed_again(
    deephaven: DeephavenServer, client: bs.Client, exports: Exports
) -> None:
    plan = client.table("ticking").where("V > 1").sort_descending("V")
    with plan.subscribe(interval_ms=1) as live:
        deephaven.end_all_sessions()
        assert plan.size == live.size
        assert plan.to_arrow().num_rows == live.size
        assert exports.made[0][1].ticket != exports.made[-1][1].ticket
        deephaven.execute("put([9], [99.0])")
        live.wait_until(lambda view: view.to_arrow()["K"].to_pylist()[0] == 9, timeout=30)
        deephaven.end_all_sessions()
        assert plan.to_arrow(["K"], range(1)).to_pydict() == {"K": [9]}
        deephaven.end_all_sessions()
        assert plan.bind("found_again").to_arrow()["K"].to_pylist()[0] == 9
    deephaven.execute("del found_again")


def test_a_plan_is_followed_through_a_restart() -> None:
    first = DeephavenServer()
    second: DeephavenServer | None = None
    try:
        first.execute(TABLES)
        with bs.connect(first.uri, retry=QUICK) as client:
            plan = client.table("ticking").where("V > 1").update("W = V * 2")
            with plan.subscribe(interval_ms=1) as live:
                second = first.restarted()
                live.wait_until(lambda view: view.state is bs.LiveState.RECONNECTING, timeout=30)
                second.execute(TABLES + "put([5], [5.0])")
                live.wait_until(lambda view: view.to_arrow()["W"].to_pylist() == [4.0, 6.0, 10.0], timeout=30)
                assert plan.to_arrow()["K"].to_pylist() == [2, 3, 5]
    finally:
        for server in (first, second):
            if server is not None:
                server.close()

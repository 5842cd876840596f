"""Rows with columns of the nearest row of another table, against a search through all of its rows."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barrage_server as bs
from barrage_server.engine import AppendTable, BlinkTable, KeyedTable, UpdateGraph
from barrage_server.engine.order_index import OrderIndex
from barrage_server.errors import BarrageError, InvalidRequestError, UnknownColumnError, UnsupportedTypeError
from barrage_server.operations import stamped_rows
from barrage_server.operations.as_of import as_of_join
from barrage_server.operations.waiting_rows import WaitingRows
from tests.operations.oracle import Row, Rows, Watch, plain_rows
from tests.operations.pairs import FORMS, PairCase, check_pair, key_of


def in_order(value: Any) -> tuple[int, Any]:
    """Null first, NaN last and equal to itself."""
    if value is None:
        return (0, 0)
    return (2, 0) if isinstance(value, float) and math.isnan(value) else (1, value)


def nearest(row: Row, right: Rows, keys: list[int], stamp: int, relation: str) -> Row | None:
    """The last row with the greatest stamp before ``row``, or the first with the least stamp behind it."""
    mine = in_order(row[stamp])
    found: Row | None = None
    for other in right:
        theirs = in_order(other[stamp])
        if key_of(row, keys) != key_of(other, keys):
            continue
        if not {">=": theirs <= mine, ">": theirs < mine, "<=": theirs >= mine, "<": theirs > mine}[relation]:
            continue
        if (
            found is None
            or (relation in (">=", ">") and theirs >= in_order(found[stamp]))
            or (relation in ("<=", "<") and theirs < in_order(found[stamp]))
        ):
            found = other
    return found


def case_of(keys: list[int], stamp: int, relation: str) -> PairCase:
    names = ["key", "number", "text", "flag", "items"]
    on = [*(names[key] for key in keys), f"{names[stamp]} {relation} {names[stamp]}"]
    needed = [*keys, stamp]

    def expected(left: Rows, right: Rows) -> Rows:
        found = [(row, nearest(row, right, keys, stamp, relation)) for row in left]
        return [(*row, *((None,) * 3 if other is None else (other[0], other[1], other[4]))) for row, other in found]

    return PairCase(
        lambda left, right: as_of_join(
            [left, right], on, ["k = key", "n = number", "l = items"], reverse=relation in ("<=", "<")
        ),
        expected,
        [*([number] for number in range(5)), *[needed] * 3],
        [*([[]] * 5), *([number, *needed] for number in (0, 1, 4))],
    )


@pytest.mark.parametrize("relation", [">=", ">", "<=", "<"])
@pytest.mark.parametrize("right_form", FORMS)
@given(seed=st.integers(0, 1 << 32), keys=st.sampled_from([[], [3], [2, 3]]), stamp=st.sampled_from([0, 1, 2]))
@settings(deadline=None, max_examples=6)
def test_each_row_has_the_nearest_one(relation: str, right_form: str, seed: int, keys: list[int], stamp: int) -> None:
    """After any changes of one side or both, with stamps that are numbers, text, null, NaN and equal."""
    if stamp in keys:
        keys = [3]
    check_pair(case_of(keys, stamp, relation), seed, right_form=right_form)


def tables() -> tuple[KeyedTable, KeyedTable]:
    graph = UpdateGraph()
    left = KeyedTable(graph, "trades", {"id": "int64", "sym": "string", "time": "int64"}, ["id"])
    right = KeyedTable(graph, "quotes", {"n": "int64", "sym": "string", "quoted": "int64", "bid": "float64"}, ["n"])
    return left, right


def test_what_a_change_modifies() -> None:
    """The rows between the stamp that comes or goes and the next one, in the columns of the right table."""
    left, right = tables()
    left.upsert({"id": [1, 2, 3, 4], "sym": ["a"] * 4, "time": [1, 2, 3, 4]})
    right.upsert({"n": [1, 2], "sym": ["a", "a"], "quoted": [1, 4], "bid": [1.0, 4.0]})
    made = left.aj(right, ["sym", "time >= quoted"], ["bid", "at = quoted"])
    watch = Watch(made)
    right.upsert({"n": [3], "sym": ["a"], "quoted": [3], "bid": [3.0]})
    right.upsert({"n": [3], "sym": ["a"], "quoted": [3], "bid": [3.5]})
    right.upsert({"n": [3], "sym": ["a"], "quoted": [2], "bid": [3.5]})
    right.delete({"n": [1]})
    assert [[list(rows) for rows in update.modified[3:]] for update in watch.updates] == [
        [[2], [2]],
        [[], [2]],
        [[1, 2], [1]],
        [[0], [0]],
    ]
    assert plain_rows(made) == [(1, "a", 1, None, None), (2, "a", 2, 2, 3.5), (3, "a", 3, 2, 3.5), (4, "a", 4, 4, 4.0)]
    watch.check_held()


def test_of_equal_stamps_the_last_or_the_first_is_taken() -> None:
    left, right = tables()
    left.upsert({"id": [1], "sym": ["a"], "time": [5]})
    right.upsert({"n": [1, 2, 3], "sym": ["a"] * 3, "quoted": [5] * 3, "bid": [1.0, 2.0, 3.0]})
    before = left.aj(right, ["sym", "time >= quoted"], "bid")
    behind = left.raj(right, ["sym", "time <= quoted"], "bid")
    assert (plain_rows(before)[0][-1], plain_rows(behind)[0][-1]) == (3.0, 1.0)
    assert plain_rows(left.aj(right, ["sym", "time > quoted"], "bid"))[0][-1] is None
    right.delete({"n": [1, 3]})
    assert (plain_rows(before)[0][-1], plain_rows(behind)[0][-1]) == (2.0, 2.0)


def test_the_columns_without_joins() -> None:
    left, right = tables()
    assert left.aj(right, ["sym", "time >= quoted"]).schema.names == ["id", "sym", "time", "quoted", "n", "bid"]
    same = right.rename_columns("time = quoted")
    assert left.aj(same, ["sym", "time"]).schema.names == ["id", "sym", "time", "n", "bid"]
    assert left.key_columns == left.aj(same, ["sym", "time"]).key_columns


def test_columns_that_are_compared_come_with_the_others() -> None:
    """Where the left table has no column of that name, and before those that are named, as on a Deephaven server."""
    left, quotes = tables()
    right = quotes.rename_columns("symbol = sym")
    on = ["sym = symbol", "time >= quoted"]
    left.upsert({"id": [1], "sym": ["a"], "time": [5]})
    for joins, names in (
        (None, ["symbol", "quoted", "n", "bid"]),
        (["bid"], ["symbol", "quoted", "bid"]),
        (["bid", "quoted"], ["symbol", "quoted", "bid"]),
        (["bid", "at = quoted"], ["symbol", "at", "bid"]),
        (["quoted = bid"], ["symbol", "quoted"]),
        (["at = quoted", "then = quoted"], ["symbol", "at", "then"]),
    ):
        for made in (left.aj(right, on, joins), left.raj(right, ["sym = symbol", "time <= quoted"], joins)):
            assert made.schema.names == ["id", "sym", "time", *names]
    assert left.aj(right, on, ["quoted = bid"]).schema.field("quoted").type == pa.float64()


def test_no_value_is_copied() -> None:
    left, right = tables()
    names = ["a" * 10_000] * 1_000
    left.upsert({"id": np.arange(1_000), "sym": names, "time": np.arange(1_000)})
    right.upsert({"n": np.arange(1_000), "sym": names, "quoted": np.arange(1_000), "bid": np.zeros(1_000)})
    made = left.aj(right, ["sym", "time >= quoted"], ["s = sym", "bid"])
    assert made.nbytes - left.nbytes - right.nbytes < 700_000


def test_keys_that_have_gone_on_both_sides_are_forgotten() -> None:
    left, right = tables()
    made = left.aj(right, ["sym", "time >= quoted"], "bid")
    watch = Watch(made)
    sizes = []
    for batch in range(12):
        keys = np.arange(batch * 600, (batch + 1) * 600)
        names = [f"s{key:06}" for key in keys]
        right.upsert({"n": keys, "sym": names, "quoted": keys, "bid": keys * 1.0})
        left.upsert({"id": keys, "sym": names, "time": keys})
        assert made.to_arrow()["bid"].to_pylist() == (keys * 1.0).tolist()
        left.delete({"id": keys})
        right.delete({"n": keys})
        sizes.append(made.nbytes - left.nbytes - right.nbytes)
    assert max(sizes[6:]) <= 1.2 * max(sizes[:6])
    watch.check_held()


def test_rows_of_a_blink_table_take_what_there_is() -> None:
    graph = UpdateGraph()
    left = BlinkTable(graph, "left", {"t": "int64"})
    right = AppendTable(graph, "right", {"at": "int64"})
    right.append({"at": [10]})
    made, still = left.aj(right, "t >= at"), left.aj(right.snapshot(), "t >= at")
    for stamp in (5, 15, 25):
        left.append({"t": [stamp, stamp + 1]})
        wanted = [(stamp, 10 if stamp > 10 else None), (stamp + 1, 10 if stamp > 10 else None)]
        assert plain_rows(made) == plain_rows(still) == wanted
    assert still.traits.is_blink and not made.traits.is_blink


def test_a_cycle_reads_few_rows() -> None:
    """Those that have changed, and the left rows that get another right one; of others some are compared."""
    left, right = tables()
    count = 20_000
    names = [f"s{n % 10}" for n in range(count)]
    right.upsert({"n": np.arange(count), "sym": names, "quoted": np.arange(count), "bid": np.zeros(count)})
    left.upsert({"id": np.arange(count), "sym": names, "time": np.arange(count)})
    made = left.aj(right, ["sym", "time >= quoted"], "bid")
    read: list[int] = []
    pieces = type(left.version).pieces

    def counted(self: Any, rows: Any, columns: Any) -> Any:
        read.append(rows.size)
        return pieces(self, rows, columns)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(left.version), "pieces", counted)
        right.delete({"n": [5]})
        left.upsert({"id": [3], "sym": ["s5"], "time": [7]})
    assert sum(read) < 20
    assert made.to_arrow()["bid"].null_count == 2


@pytest.mark.parametrize("relation", [">=", ">", "<=", "<"])
@pytest.mark.parametrize("spread", [1, 10**17])
@pytest.mark.parametrize("kind", ["int64", "float64", "timestamp[ns]"])
def test_many_rows_that_are_there_at_first_find_the_same_as_one_by_one(relation: str, spread: int, kind: str) -> None:
    random = np.random.default_rng(8)
    graph = UpdateGraph()
    left = AppendTable(graph, "trades", {"sym": "int64", "time": kind})
    right = AppendTable(graph, "quotes", {"sym": "int64", "quoted": kind, "n": "int64"})

    def stamps(count: int, most: int) -> pa.Array:
        return pa.array(random.integers(-most, most, count) * spread).cast(kind, safe=False)

    right.append({"sym": random.integers(0, 30, 300), "quoted": stamps(300, 40), "n": np.arange(300)})
    left.append({"sym": random.integers(0, 40, 1000), "time": stamps(1000, 60)})
    join = left.raj if "<" in relation else left.aj
    at_start = join(right, ["sym", f"time {relation} quoted"], "n")
    quotes, found = plain_rows(right), plain_rows(at_start)
    assert len(found) == 1000
    for row in found[:200]:
        expected = nearest(row, quotes, [0], 1, relation)
        assert row[3] == (None if expected is None else expected[2])


WRONG: dict[str, tuple[list[str], list[str], type[BarrageError], str]] = {
    "left column": (["sm = sym", "time >= quoted"], [], UnknownColumnError, "'trades' has no column 'sm'"),
    "right stamps": (["sym", "time"], [], UnknownColumnError, "'quotes' has no column 'time'"),
    "types": (["sym", "time >= bid"], [], InvalidRequestError, "'time' of 'trades' is int64, and 'bid' of 'quotes'"),
    "name": (["sym", "time >= quoted"], ["sym"], InvalidRequestError, "'sym' twice"),
    "direction": (["sym", "time <= quoted"], [], InvalidRequestError, "'time >= quoted' or 'time > quoted' in aj, not"),
    "no relation": (["sym", "time = quoted"], [], InvalidRequestError, "The last entry of on is 'time'"),
    "two relations": (["sym", "time >= a >= b"], [], InvalidRequestError, "The last entry of on is 'time'"),
    "nothing": ([], [], InvalidRequestError, "the stamps last"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused_at_once(case: str) -> None:
    on, joins, error, text = WRONG[case]
    left, right = tables()
    with pytest.raises(error, match=text):
        as_of_join([left, right], on, joins)
    assert len(left.children) == 0


def test_values_that_cannot_be_keys_or_stamps_are_refused() -> None:
    graph = UpdateGraph()
    left, right = (AppendTable(graph, name, {"k": pa.list_(pa.int64()), "t": "int64"}) for name in "lr")
    with pytest.raises(UnsupportedTypeError):
        as_of_join([left, right], ["k", "t"], ["r = t"])
    with pytest.raises(InvalidRequestError, match="Column 'k' has no order: it has the type list"):
        as_of_join([left, right], ["k"], ["r = t"])
    with pytest.raises(InvalidRequestError, match="'time <= quoted' or 'time < quoted' in raj"):
        left.raj(right, "t >= t", "r = t")


@pytest.mark.parametrize("relation", [">=", ">", "<=", "<"])
@pytest.mark.parametrize("rows", [0, 1, 3_000])
def test_a_start_finds_the_same_rows_whatever_the_order_of_the_left_ones(relation: str, rows: int) -> None:
    """Stamps that ascend are looked for in another way than others."""
    chance = np.random.default_rng(rows)
    left = pa.table(
        {"id": np.arange(rows), "sym": chance.integers(0, 5, rows), "at": np.sort(chance.integers(0, 900, rows))}
    )
    right = pa.table({"sym": chance.integers(0, 5, 700), "then": chance.integers(0, 900, 700), "bid": range(700)})
    graph = UpdateGraph()
    found = []
    for order in (np.arange(rows), chance.permutation(rows)):
        tables = [bs.table(each, graph=graph).snapshot() for each in (left.take(order), right)]
        on = ["sym", f"at {relation} then"]
        joined = as_of_join(tables, on, ["bid"], reverse=relation in ("<=", "<"))
        found.append(dict(joined.version.to_table().select(["id", "bid"]).to_pandas().itertuples(index=False)))
    ascending, others = ({key: None if math.isnan(bid) else int(bid) for key, bid in each.items()} for each in found)
    assert ascending == others
    assert len(ascending) == rows


def in_time(first: int, rows: int, syms: int, seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {
        "id": first + np.arange(rows),
        "sym": [f"s{number}" for number in random.integers(0, syms, rows)],
        "time": first + np.sort(random.integers(0, rows, rows)),
    }


def quoted_in(trades: dict[str, Any]) -> dict[str, Any]:
    return {"n": trades["id"], "sym": trades["sym"], "quoted": trades["time"], "bid": trades["time"] * 0.5}


def test_rows_in_the_order_of_time_need_no_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until one comes late: then all get them at once."""
    left, right = tables()
    left.upsert(in_time(0, 100, 5, 1))
    right.upsert(quoted_in(in_time(0, 100, 5, 2)))
    made = left.aj(right, ["sym", "time >= quoted"], "bid")
    made_late: list[int] = []
    change = OrderIndex.change

    def counted(self: OrderIndex, gone: Any, new: Any, *rest: Any) -> Any:
        made_late.append(len(new))
        return change(self, gone, new, *rest)

    monkeypatch.setattr(OrderIndex, "change", counted)
    for cycle in range(1, 6):
        with left.graph.cycle():
            right.upsert(quoted_in(in_time(100 * cycle, 100, 5, 10 + cycle)))
            left.upsert(in_time(100 * cycle, 100, 5, 20 + cycle))
    assert made_late == []
    right.upsert({"n": [10_000], "sym": ["s1"], "quoted": [250], "bid": [-1.0]})
    assert sorted(made_late) == [1, 500, 500]
    again = left.snapshot().aj(right.snapshot(), ["sym", "time >= quoted"], "bid")
    assert plain_rows(made) == plain_rows(again)
    assert any(row[-1] == -1.0 for row in plain_rows(made))


def rows_that_get_places(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each change of an order from now on gives places; it grows with them."""
    taken: list[int] = []
    change = OrderIndex.change

    def counted(self: OrderIndex, gone: Any, new: Any, *rest: Any) -> Any:
        taken.append(len(new))
        return change(self, gone, new, *rest)

    monkeypatch.setattr(OrderIndex, "change", counted)
    return taken


def test_no_more_rows_wait_than_get_places_in_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cycle that needs all of them must not take long."""
    left, right = tables()
    right.upsert(quoted_in(in_time(0, 100, 5, 2)))
    left.upsert(in_time(0, 100, 5, 1))
    made = left.aj(right, ["sym", "time >= quoted"], "bid")
    taken = rows_that_get_places(monkeypatch)
    for cycle in range(1, 6):
        left.upsert(in_time(30_000 * cycle, 30_000, 5, cycle))
    assert len(taken) > 1
    assert max(taken) <= 1 << 16
    assert made.size == 150_100


def test_rows_that_wait_get_places_in_turns_by_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most cycles place none, the others some; the rows of all groups come to their turn."""
    monkeypatch.setattr(stamped_rows, "_ENOUGH_WAITING", 400)
    monkeypatch.setattr(stamped_rows, "_FEWEST_PLACED", 10)
    left, right = tables()
    right.upsert(quoted_in(in_time(0, 100, 40, 2)))
    left.upsert(in_time(0, 100, 40, 1))
    made = left.aj(right, ["sym", "time >= quoted"], "bid")
    taken = rows_that_get_places(monkeypatch)
    for cycle in range(1, 31):
        with left.graph.cycle():
            right.upsert(quoted_in(in_time(100 * cycle, 100, 40, 100 + cycle)))
            left.upsert(in_time(100 * cycle, 100, 40, 200 + cycle))
    assert 10 < len(taken) < 30
    assert max(taken) < 400
    assert sum(taken) > 2 * 2_000
    right.upsert({"n": [10_000], "sym": ["s1"], "quoted": [250], "bid": [-1.0]})
    again = left.snapshot().aj(right.snapshot(), ["sym", "time >= quoted"], "bid")
    assert plain_rows(made) == plain_rows(again)
    assert any(row[-1] == -1.0 for row in plain_rows(made))


def test_rows_that_come_singly_wait_in_little_room() -> None:
    waiting = WaitingRows()
    tracemalloc.start()
    for key in range(5000):
        waiting.add(np.array([key]), np.array([key - 1]))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert waiting.nbytes == 80_000
    assert used < 3 * waiting.nbytes
    rows, behind = waiting.take()
    assert list(rows) == list(range(5000))
    assert behind.tolist() == list(range(-1, 4999))
    assert (waiting.count, waiting.nbytes) == (0, 0)


@pytest.mark.parametrize("relation", [">=", ">", "<=", "<"])
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=15)
def test_rows_that_wait_for_places_are_found(relation: str, seed: int) -> None:
    """By late rows, deletions, rows with other stamps or keys, and rows of new groups."""
    random = np.random.default_rng(seed)
    left, right = tables()
    rows, syms = int(random.integers(1, 50)), int(random.integers(1, 5))
    left.upsert(in_time(0, rows, syms, seed))
    right.upsert(quoted_in(in_time(0, rows, syms, seed + 1)))
    on, is_reverse = ["sym", f"time {relation} quoted"], relation in ("<=", "<")
    made = as_of_join([left, right], on, ["bid", "n"], reverse=is_reverse)
    watch = Watch(made)
    for cycle in range(1, 12):
        with left.graph.cycle():
            left.upsert(in_time(rows * cycle, rows, syms, seed + 2 * cycle))
            right.upsert(quoted_in(in_time(rows * cycle, rows, syms + (cycle == 5), seed + 2 * cycle + 1)))
        for table, form in ((left, dict), (right, quoted_in)):
            if random.random() < 0.2:
                chosen = random.choice(rows * cycle, int(random.integers(1, rows + 1)), replace=False)
                late = in_time(0, len(chosen), syms, seed + 100 + cycle) | {"id": chosen}
                table.upsert(form(late))
            if random.random() < 0.1:
                gone = random.choice(rows * cycle, int(random.integers(1, rows + 1)), replace=False)
                table.delete({table.key_columns[0]: gone})
        again = as_of_join([left.snapshot(), right.snapshot()], on, ["bid", "n"], reverse=is_reverse)
        assert plain_rows(made) == plain_rows(again)
    watch.check_held()

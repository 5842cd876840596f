"""Results of operations for clients: rights on what they show, limits on what they take, figures of what they do."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from itertools import count

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.engine import AppendTable, Table, UpdateGraph
from barrage_server.engine.derived import DerivedTable
from barrage_server.errors import (
    BarrageError,
    ForbiddenError,
    InvalidRequestError,
    LimitError,
    UnavailableError,
    UnknownTableError,
)
from barrage_server.plan import agg
from barrage_server.plan import operation as plan
from barrage_server.plan.joins import FullOuterJoin, Join, NaturalJoin
from barrage_server.server import Limits, Principal, Role
from barrage_server.server.access import AccessControl, Right
from barrage_server.server.catalog import Catalog
from barrage_server.server.principal import OPEN
from barrage_server.server.private_tables import Need, PrivateTables
from barrage_server.server.results import Results

SCHEMA = pa.schema([("n", pa.int64()), ("desk", pa.int64())])
ANN, BOB = Principal("ann"), Principal("bob")


class House:
    """A catalog with one table of 100 rows, and the results of its callers."""

    def __init__(self, limits: Limits | None = None, roles: dict[str, Role] | None = None) -> None:
        self.graph = UpdateGraph()
        self.catalog = Catalog(self.graph)
        self.table = AppendTable(self.graph, "t", SCHEMA)
        self.catalog.add(self.table)
        self.append(100)
        self.access = AccessControl(self.catalog, roles)
        self.private = PrivateTables(self.access)
        self.results = Results(self.graph, self.private, limits or Limits())

    def append(self, rows: int) -> None:
        numbers = list(range(rows))
        self.table.append(pa.record_batch([numbers, [number % 2 for number in numbers]], schema=SCHEMA))

    def compute(self, principal: Principal, operation: plan.Operation, *inputs: Table) -> Table:
        takes = (self.table,) if operation.most_inputs else ()
        return self.results.compute(principal, operation, inputs or takes)


@pytest.fixture
def house() -> Iterator[House]:
    yield House()


def test_a_result_follows_its_table_and_equal_operations_give_one(house: House) -> None:
    result = house.compute(ANN, plan.Where(("n < 3",)))
    assert result.size == 3
    house.append(2)
    assert result.size == 5
    assert house.compute(BOB, plan.Where(("n < 3",))) is result
    assert len(house.results) == 1


def test_a_result_that_nobody_holds_is_gone(house: House) -> None:
    result = house.compute(ANN, plan.Where(("n < 3",)))
    del result
    gc.collect()
    assert not len(house.results)
    assert not list(house.table.children)


def test_a_result_is_not_that_of_the_program(house: House) -> None:
    assert house.table.where("n < 3") is not house.compute(ANN, plan.Where(("n < 3",)))


def test_a_result_of_results_shows_the_tables_that_they_began_with(house: House) -> None:
    uploaded = bs.table({"desk": [0], "name": ["a"]}, graph=house.graph)
    house.private.add(uploaded)
    some = house.compute(ANN, plan.Where(("n < 3",)))
    joined = house.compute(ANN, NaturalJoin(("desk",)), some, uploaded)
    assert house.private.origins(joined) == (house.table,)
    assert house.private.origins(uploaded) == ()
    assert house.private.needs(joined) == (Need("t", Right.READ),)


def test_what_may_not_be_read_may_not_be_computed_with() -> None:
    house = House(roles={"lister": Role(["t"], ["list"]), "reader": Role(["t"], ["read"])})
    reader, lister = Principal("r", roles=["reader"]), Principal("l", roles=["lister"])
    result = house.compute(reader, plan.Head(3))
    with pytest.raises(ForbiddenError):
        house.compute(lister, plan.Head(3))
    with pytest.raises(UnknownTableError):
        house.compute(ANN, plan.Head(3))
    for principal in (lister, ANN):
        with pytest.raises(BarrageError):
            house.private.check(principal, result, Right.READ)
    house.private.check(reader, result, Right.READ)


def test_a_result_of_a_part_is_for_those_who_see_that_part() -> None:
    roles = {
        "all": Role(["t"], ["read"]),
        "even": Role(["t"], ["read"], where="desk == 0"),
        "odd": Role(["t"], ["read"], where="desk == 1"),
    }
    house = House(roles=roles)
    whole, even, odd = (Principal(name, roles=[name]) for name in roles)
    part = house.access.get(even, "t", Right.READ)
    result = house.compute(even, plan.Head(3), part)
    assert result.to_arrow()["n"].to_pylist() == [0, 2, 4]
    house.private.check(even, result, Right.READ)
    for other in (whole, odd):
        with pytest.raises(BarrageError, match="has changed"):
            house.private.check(other, result, Right.READ)
    (need,) = house.private.needs(result)
    assert need.name == "t" and need.restriction is not None


def test_a_caller_has_no_more_results_than_its_limit_and_another_one_has(house: House) -> None:
    house = House(Limits(results_per_caller=2, total_results=4))
    held = [house.compute(ANN, plan.Head(number)) for number in (1, 2)]
    with pytest.raises(LimitError, match="results_per_caller"):
        house.compute(ANN, plan.Head(3))
    held += [house.compute(BOB, plan.Head(number)) for number in (3, 4)]
    with pytest.raises(LimitError, match="total_results"):
        house.compute(Principal("anyone", credential=OPEN), plan.Head(5))
    del held[:2]
    gc.collect()
    held.append(house.compute(ANN, plan.Head(6)))


def test_a_result_that_would_be_too_large_is_refused_before_it_is_computed() -> None:
    house = House(Limits(result_bytes=50_000))
    rows = bs.empty_table(1_000_000, house.graph)
    house.private.add(rows)
    viewed = house.compute(ANN, plan.View(("x = ii",)), rows)
    assert viewed.size == 1_000_000
    for operation in (plan.Update(("x = ii",)), plan.Sort((plan.SortColumn("x"),))):
        with pytest.raises(LimitError, match=r"would take about \d+(\.\d)? MiB, .* may take 48.9 KiB \(result_bytes\)"):
            house.compute(ANN, operation, viewed)
    assert len(house.results) == 1


def test_texts_are_counted_while_they_are_computed() -> None:
    house = House(Limits(result_bytes=4 << 20))
    rows = bs.empty_table(200_000, house.graph)
    house.private.add(rows)
    with pytest.raises(LimitError, match="MiB is the most"):
        house.compute(ANN, plan.Update(("x = `" + 100 * "x" + "` + ii",)), rows)


def test_a_result_that_outgrows_its_limit_fails_and_its_table_goes_on() -> None:
    house = House(Limits(result_bytes=4 << 20))
    result = house.compute(ANN, plan.Sort((plan.SortColumn("n", descending=True),)))
    below = house.compute(ANN, plan.Head(1), result)
    house.append(300_000)
    house.results.tidy(0.0)
    assert isinstance(result.failure, LimitError)
    assert below.failure is not None
    house.append(10)
    assert house.table.size == 300_110
    with pytest.raises(BarrageError, match="result_bytes"):
        result.check_usable()


FULL_OUTER: plan.Operation = FullOuterJoin(("desk",), ("m = n",))
SORTED: plan.Operation = plan.Merge("n")


@pytest.mark.parametrize("operation", [FULL_OUTER, SORTED])
def test_a_result_of_several_tables_outgrows_its_limit_with_all_of_them(operation: plan.Operation) -> None:
    house = House(Limits(result_bytes=4 << 20))
    other = AppendTable(house.graph, "o", SCHEMA)
    other.append(pa.record_batch([[1], [0]], schema=SCHEMA))
    house.catalog.add(other)
    result = house.compute(ANN, operation, house.table, other)
    for _ in range(3):
        house.append(100_000)
    (entry,) = house.results.statistics()
    assert entry.state_bytes == result.state_bytes > 4 << 20
    house.results.tidy(0.0)
    assert isinstance(result.failure, LimitError)
    parts = [table for source in (house.table, other) for table in source.children]
    assert parts
    assert all(part.failure is not None for part in parts)


def test_the_parts_of_a_result_have_its_time() -> None:
    house = House(Limits(result_seconds=3))
    result = house.compute(ANN, FULL_OUTER, house.table, house.table)
    slow = count(step=4)
    house.graph.clock = lambda: float(next(slow))
    house.append(1)
    assert result.failure is not None
    assert "result_seconds" in str(result.failure)
    (entry,) = house.results.statistics()
    assert entry.failed
    cycles = [table.cycles for table in house.table.children]
    house.append(1)
    assert [table.cycles for table in house.table.children] == cycles


def test_the_figures_of_a_result_have_those_of_its_parts(house: House) -> None:
    times = count()
    house.graph.clock = lambda: float(next(times))
    result = house.compute(ANN, FULL_OUTER, house.table, house.table)
    house.append(3)
    (entry,) = house.results.statistics()
    parts = set(house.table.children)
    assert len(parts) == 2
    assert isinstance(result, DerivedTable)
    assert entry.seconds == result.seconds + sum(part.seconds for part in parts) > result.seconds


def test_all_results_together_have_a_limit_of_which_one_caller_has_nine_tenths() -> None:
    house = House(Limits(total_result_bytes=105_000))
    house.append(2_000)
    with pytest.raises(LimitError, match="of one caller"):
        house.compute(ANN, plan.Sort((plan.SortColumn("n"),)))
    anyone = Principal("anyone", credential=OPEN)
    held = house.compute(anyone, plan.Sort((plan.SortColumn("n"),)))
    with pytest.raises(LimitError, match="Try again later"):
        house.compute(anyone, plan.Sort((plan.SortColumn("desk"),)))
    assert held.size == 2_100


def test_a_result_that_takes_too_long_in_a_cycle_fails() -> None:
    house = House(Limits(result_seconds=3))
    quick, slow = count(), count(step=4)
    house.graph.clock = lambda: next(quick) / 1_000
    result = house.compute(ANN, plan.Where(("n < 3",)))
    house.append(1)
    assert not result.failure
    house.graph.clock = lambda: float(next(slow))
    own = house.table.where("n < 4")
    house.append(1)
    assert isinstance(result.failure, LimitError) and "the 3 s that it may take for such tables" in str(result.failure)
    assert own.failure is None


def test_a_slow_cycle_is_broken_off_between_two_pieces() -> None:
    house = House(Limits(result_seconds=3))
    times = iter(range(1_000))
    house.graph.clock = lambda: float(next(times))
    result = house.compute(ANN, plan.Update(("m = n * 2",)))
    house.append(600_000)  # ten pieces
    assert isinstance(result.failure, LimitError)
    assert next(times) < 20


def test_several_results_share_the_time_of_a_cycle() -> None:
    house = House(Limits(result_seconds=100))
    results = [house.compute(ANN, plan.Update((f"m = n * {factor}",))) for factor in range(4)]
    times = count()
    house.graph.clock = lambda: 10.0 * next(times)
    house.append(100)
    assert [result.failure is None for result in results] == [True, True, False, False]


def test_a_start_ends_when_its_caller_has_gone(house: House) -> None:
    house.append(600_000)
    asked: list[int] = []

    def is_gone() -> bool:
        asked.append(len(asked))
        return len(asked) > 2

    with pytest.raises(UnavailableError, match="has gone"):
        house.results.compute(ANN, plan.Update(("m = n * 2",)), [house.table], is_gone)
    assert len(asked) == 3
    assert not len(house.results)


def test_a_start_that_takes_too_long_is_refused() -> None:
    house = House(Limits(start_seconds=1e-9))
    with pytest.raises(LimitError, match="start_seconds"):
        house.compute(ANN, plan.Update(("m = n * 2",)))


def test_snapshots_count_what_their_table_keeps_for_them(house: House) -> None:
    table = bs.table({"k": list(range(1_000))}, graph=house.graph, key="k")
    house.private.add(table)
    held = house.compute(ANN, plan.Snapshot(), table)
    first = house.compute(ANN, plan.Head(1), held)
    assert held.state_bytes == table.nbytes
    assert first.state_bytes == table.nbytes + first.version.row_set.nbytes
    assert house.compute(ANN, plan.Snapshot()).state_bytes == 0  # nothing of an append-only table is overwritten


def test_row_keys_count_and_bound_merges_of_merges() -> None:
    """Each has the row keys of all its tables, whose ranges do not join."""
    house = House(Limits(result_bytes=1 << 20))
    table: Table = house.table
    sizes = list[int]()
    for _ in range(2):
        table = house.compute(ANN, plan.Merge(None), *[table] * 100)
        sizes.append(table.state_bytes)
    assert sizes[1] >= 16 * 10_000, "a range of keys for each of the rows"
    with pytest.raises(LimitError, match="result_bytes"):
        house.compute(ANN, plan.Merge(None), *[table] * 100)


def test_row_keys_of_a_filter_count(house: House) -> None:
    numbered = house.compute(ANN, plan.UpdateView(("x = ii",)), house.compute(ANN, plan.EmptyTable(100_000)))
    assert house.compute(ANN, plan.Where(("x % 2 = 0",)), numbered).state_bytes > 10_000
    assert numbered.state_bytes < 1_000, "it has the row set of its parent"


def test_lists_that_a_join_repeats_are_refused_before_they_are_copied(house: House) -> None:
    values = house.compute(ANN, plan.EmptyTable(400_000))
    numbered = house.compute(ANN, plan.UpdateView(("x = ii",)), values)
    grouped = house.compute(ANN, plan.AggregateAllBy(agg.group()), numbered)
    many = house.compute(ANN, plan.EmptyTable(400))
    joined = house.compute(ANN, Join(), many, grouped)
    with pytest.raises(LimitError, match="at once"):
        house.compute(ANN, plan.Update(("s = sum(x)",)), joined)


def test_time_tables_have_a_limit(house: House) -> None:
    with pytest.raises(InvalidRequestError, match="period"):
        house.compute(ANN, plan.TimeTable(1_000))
    held = house.results.compute(ANN, plan.TimeTable("PT1H"), ())
    assert held.size == 1


def test_rows_that_a_time_table_begins_with_count_before_they_are_made() -> None:
    house = House(Limits(result_bytes=1_000_000))
    start = time.time_ns() - 200_000 * 10**9
    with pytest.raises(LimitError, match=r"would take about 1.6 MiB.* 976.6 KiB \(result_bytes\)"):
        house.results.compute(ANN, plan.TimeTable("PT1S", start), ())
    for operation, rows in [(plan.TimeTable("PT1S", start, blink=True), 1), (plan.TimeTable("PT10S", start), 20_001)]:
        held = house.results.compute(ANN, operation, ())
        assert rows <= held.size <= rows + 10


def test_figures_of_results(house: House) -> None:
    times = count()
    house.graph.clock = lambda: next(times) / 1_000
    result = house.compute(ANN, plan.Sort((plan.SortColumn("n"),)))
    house.append(3)
    (entry,) = house.results.statistics()
    assert (entry.operation, entry.user, entry.tables, entry.rows) == ("sort", "ann", ("t",), result.size)
    assert (entry.cycles, entry.changed_rows, entry.failed) == (1, 3, False)
    assert entry.seconds > 0
    assert entry.state_bytes == result.state_bytes > 0


def test_starts_at_once_stay_within_the_limit() -> None:
    house = House(Limits(results_per_caller=8))
    held: list[Table] = []
    refused: list[str] = []

    def start(number: int) -> None:
        try:
            held.append(house.compute(ANN, plan.Where((f"n < {number}",))))
        except LimitError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=start, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(held) == len(house.results) <= 8
    assert len(held) + len(refused) == 24

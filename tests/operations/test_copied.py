"""``blink_to_append_only`` and ``ring_table``: rows in the order of their arrival, whatever becomes of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barrage_server as bs
from barrage_server.engine import AppendTable, BlinkTable, KeyedTable, RingTable, Table, UpdateGraph
from barrage_server.errors import InvalidRequestError, LimitError
from barrage_server.operations.budget import budget
from barrage_server.operations.copied import blink_to_append_only, ring_table
from tests.operations.oracle import Watch, cells_of, make_row, plain_rows
from tests.properties.sources import SCHEMA, to_table

FORMS: dict[str, Callable[[Table], Table]] = {
    "as it is": lambda table: table,
    "some": lambda table: table.where("key > 3"),
    "columns": lambda table: table.update("twice = key * 2"),
}


@given(seed=st.integers(0, 1 << 32), capacity=st.sampled_from([None, 1, 3, 8, 100]), form=st.sampled_from(list(FORMS)))
@settings(deadline=None, max_examples=60)
def test_content_and_updates(seed: int, capacity: int | None, form: str) -> None:
    """Of a blink table and what is computed from it; cycles without rows of it remove those of the last one."""
    chance = random.Random(seed)
    graph = UpdateGraph()
    source, other = BlinkTable(graph, "t", SCHEMA), AppendTable(graph, "other", {"x": "int64"})
    source.append(to_table([make_row(chance) for _ in range(chance.randrange(5))]))
    table = FORMS[form](source)
    begins = chance.choice([True, False])
    made = table.blink_to_append_only() if capacity is None else table.ring_table(capacity, begins)
    wanted = cells_of(plain_rows(table)) if begins or capacity is None else []
    watch = Watch(made)
    for _ in range(10):
        if chance.random() < 0.8:
            source.append(to_table([make_row(chance) for _ in range(chance.choice([1, 2, 7, 20]))]))
            wanted += cells_of(plain_rows(table))
        else:
            other.append({"x": [1]})
        wanted = wanted if capacity is None else wanted[-capacity:]
        assert cells_of(plain_rows(made)) == wanted
    watch.check_held()


@pytest.mark.parametrize("capacity", [None, 5])
def test_rows_that_come_and_go_beside_the_start_are_there(capacity: int | None) -> None:
    blink = BlinkTable(UpdateGraph(), "blink", {"t": "int64"})
    blink.append({"t": [0]})
    with pytest.MonkeyPatch.context() as patch:
        attach = UpdateGraph.attach

        def attach_late(self: UpdateGraph, table: Any) -> None:
            for number in (1, 2, 3):
                blink.append({"t": [number]})
            attach(self, table)

        patch.setattr(UpdateGraph, "attach", attach_late)
        made = blink.blink_to_append_only() if capacity is None else blink.ring_table(capacity)
    blink.append({"t": [4, 5]})
    assert made.to_arrow()["t"].to_pylist() == [0, 1, 2, 3, 4, 5][-(capacity or 6) :]


def test_what_holds_for_them() -> None:
    """The one is append-only, and can be computed from as such; the other says how many rows it has."""
    blink = BlinkTable(UpdateGraph(), "blink", {"t": "int64"})
    every, recent = blink.blink_to_append_only(), blink.ring_table(3)
    assert every.traits.append_only and every.traits.is_flat and not every.traits.is_blink
    assert recent.traits.attributes == {"RingCapacity": 3}
    before = every.update("former = t_[ii - 1]")
    blink.append({"t": [1, 2]})
    blink.append({"t": [3]})
    assert before.to_arrow()["former"].to_pylist() == [None, 1, 2]


def test_a_ring_of_other_tables() -> None:
    graph = UpdateGraph()
    grows, ring = AppendTable(graph, "grows", {"x": "int64"}), RingTable(graph, "ring", {"x": "int64"}, 2)
    still = bs.table({"x": [1, 2, 3, 4]}, graph=graph).snapshot()
    made = grows.ring_table(3), ring.ring_table(3), still.ring_table(3)
    for first in (0, 2, 4):
        for table in (grows, ring):
            table.append({"x": [first, first + 1]})
    assert [table.to_arrow()["x"].to_pylist() for table in made] == [[3, 4, 5], [3, 4, 5], [2, 3, 4]]
    assert not made[2].is_refreshing


def test_a_ring_of_a_table_without_columns_has_its_rows() -> None:
    made = bs.empty_table(10).ring_table(3)
    assert (made.size, made.schema.names) == (3, [])


def test_a_ring_gives_storage_back() -> None:
    blink = BlinkTable(UpdateGraph(), "blink", {"t": "int64", "s": "string"}, history=10)
    made = blink.ring_table(5_000)
    sizes = []
    for batch in range(40):
        blink.append({"t": range(5_000), "s": [f"text {batch} {number}" for number in range(5_000)]})
        sizes.append(made.nbytes)
    assert max(sizes[20:]) <= 1.2 * max(sizes[:20])


def test_they_stay_within_their_budget() -> None:
    blink = BlinkTable(UpdateGraph(), "blink", {"t": "int64"})
    with budget(2 << 20):
        made, ring = blink_to_append_only([blink]), ring_table([blink], 100_000)
    for _ in range(10):
        blink.append({"t": range(50_000)})
    assert isinstance(made.failure, LimitError)
    assert ring.failure is None and ring.size == 100_000


def test_what_does_not_fit_is_refused_at_once() -> None:
    graph = UpdateGraph()
    grows, keyed = AppendTable(graph, "grows", {"x": "int64"}), KeyedTable(graph, "keyed", {"x": "int64"}, "x")
    with pytest.raises(InvalidRequestError, match="'grows' is no blink table"):
        grows.blink_to_append_only()
    with pytest.raises(InvalidRequestError, match="rows of 'keyed' may be modified"):
        keyed.ring_table(3)
    with pytest.raises(InvalidRequestError, match="capacity must be at least 1"):
        ring_table([grows], 0)
    for capacity in ((1 << 31) + 1, 1 << 60, 1 << 80):
        for make in (grows.ring_table, lambda rows: ring_table([grows], rows)):
            with pytest.raises(InvalidRequestError, match=f"capacity must be at most 2147483648, not {capacity}"):
                make(capacity)
    assert len(grows.children) == len(keyed.children) == 0
    grows.append({"x": [1]})
    assert grows.ring_table(1 << 31).size == 1

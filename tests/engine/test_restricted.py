"""Parts of tables: some rows, some columns, under keys that do not tell what is left out."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.engine import (
    AppendTable,
    BlinkTable,
    KeyedTable,
    ReplacedTable,
    ReplicaTable,
    RingTable,
    Table,
    TableTraits,
    UpdateGraph,
)
from barrage_server.engine.condition import Condition
from barrage_server.engine.restricted import RestrictedTable, Restriction, restrict, source_of
from barrage_server.engine.types import normalise, plain_type
from barrage_server.engine.where import Predicate
from barrage_server.errors import InvalidRequestError, TableFailedError, UnsupportedOperationError
from barrage_server.rowset import RowSet
from tests.engine.followers import Follower
from tests.engine.samples import SAMPLES
from tests.properties.sources import SCHEMA, SOURCES, Row, rows_of

KINDS = list(dict.fromkeys(SOURCES))
NUMBERS = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("s", pa.string())])


def by_function(batch: pa.RecordBatch) -> pa.Array:
    assert batch.schema.names == SCHEMA.names
    return pc.equal(batch["text"], "ab")


CHOICES: list[tuple[Condition | Predicate, Any]] = [
    (Condition("number > 0"), lambda row: row[1] is not None and row[1] > 0),
    (Condition("flag"), lambda row: row[3] is True),
    (Condition("text in ('', 'a') and key < 6"), lambda row: row[2] in ("", "a") and row[0] < 6),
    (Condition("not (number > 0) or key == 3"), lambda row: (row[1] is not None and row[1] <= 0) or row[0] == 3),
    (by_function, lambda row: row[2] == "ab"),
]
COLUMNS: list[frozenset[str] | None] = [
    None,
    frozenset(["key"]),
    frozenset(["text", "flag", "no such column"]),
    frozenset(SCHEMA.names),
]


def model(table: pa.Table, chosen: list[Any], columns: frozenset[str] | None) -> list[Row]:
    """The rows and columns, worked out one by one."""
    places = [number for number, name in enumerate(SCHEMA.names) if columns is None or name in columns]
    rows = [row for row in rows_of(table) if not chosen or any(holds(row) for holds in chosen)]
    return [tuple(row[place] for place in places) for row in rows]


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 1 << 32), data=st.data())
@settings(deadline=None, max_examples=10)
def test_a_part_is_what_plain_python_finds(kind: Any, seed: int, data: st.DataObject) -> None:
    """Made at any time, after any changes, one by one or several in a cycle: its rows and its updates are right, its
    versions stay what they were, and its keys have no gaps where rows are left out. Those of a keyed table come in an
    order of their own.
    """
    chance = random.Random(seed)
    source = kind(UpdateGraph())
    made: list[tuple[RestrictedTable, list[Any], frozenset[str] | None, Follower]] = []
    for _ in range(10):
        if not made or chance.random() < 0.2:
            chosen = data.draw(st.lists(st.sampled_from(CHOICES), max_size=2))
            columns = data.draw(st.sampled_from(COLUMNS))
            restriction = Restriction(frozenset(condition for condition, _ in chosen), columns)
            table = restrict(source.table, restriction)
            made.append((table, [holds for _, holds in chosen], columns, Follower(table)))
        with source.table.graph.cycle():
            for _ in range(chance.choice([1, 1, 3])):
                source.change(chance)
        for table, holds, columns, follower in made:
            shown, wanted = rows_of(table.to_arrow()), model(source.table.to_arrow(), holds, columns)
            if holds and isinstance(source.table, KeyedTable):
                assert sorted(shown, key=repr) == sorted(wanted, key=repr)
                assert all(update.shifted.size == 0 for update in follower.updates)
            else:
                assert shown == wanted
                keys = table.version.row_set
                assert not holds or keys.is_empty or keys.is_contiguous
            follower.hold(table.version)
    for _, _, _, follower in made:
        follower.check_held()


def numbers(*values: int, text: str = "x") -> dict[str, list[Any]]:
    return {"k": list(values), "n": list(values), "s": [text] * len(values)}


def part(table: Any, where: str, *columns: str) -> RestrictedTable:
    return restrict(table, Restriction(frozenset([Condition(where)]), frozenset(columns) or None))


def test_rows_that_are_left_out_leave_no_trace() -> None:
    """No update comes of them, and keys count the rows that are shown."""
    table = AppendTable(UpdateGraph(), "t", NUMBERS)
    table.append(numbers(*range(100)))
    made = part(table, "n >= 90", "k", "s")
    seen = Follower(made)
    assert made.version.row_set == RowSet.flat(10)
    table.append(numbers(1, 2, 3))
    table.append(numbers(91, 4, 92))
    assert made.version.row_set == RowSet.flat(12)
    assert [update.added for update in seen.updates] == [RowSet.from_range(10, 11)]
    assert made.traits == TableTraits(append_only=True, add_only=True, is_flat=True)


def filled(kind: str, rows: pa.Table) -> Table:
    graph, schema = UpdateGraph(), rows.schema
    if kind == "keyed":
        keyed = KeyedTable(graph, "t", schema, "k")
        keyed.upsert(rows)
        return keyed
    if kind == "replaced":
        replaced = ReplacedTable(graph, "t", schema)
        replaced.replace(rows)
        return replaced
    table = AppendTable(graph, "t", schema)
    table.append(rows)
    return table


@pytest.mark.parametrize("kind", ["append", "keyed", "replaced"])
@pytest.mark.parametrize("name", SAMPLES)
def test_not_a_bit_of_what_is_left_out_is_read(name: str, kind: str) -> None:
    """Nor does a bitmap have it behind its last bit, or an array of items beside those of the rows: the bytes of arrays
    are those of a table whose hidden rows are others.
    """
    sample = normalise(SAMPLES[name], plain_type(SAMPLES[name].type))
    is_shown = [True, *[False] * 7, True, False, True, True, *[False] * 5, True, True, True, *[False] * 9, True]
    found = []
    for shift in range(min(3, len(sample))):
        places = [(place if at else place + shift) % len(sample) for place, at in enumerate(is_shown)]
        rows = {"k": list(range(len(places))), "v": is_shown, "x": sample.take(pa.array(places))}
        schema = pa.schema([("k", pa.int64()), ("v", pa.bool_()), ("x", sample.type)])
        version = part(filled(kind, pa.table(rows, schema)), "v", "v", "x").version
        first, size = version.row_set.first_key, version.row_set.size
        chosen = [
            RowSet.from_range(first + start, first + stop) for start in range(size) for stop in range(start, size)
        ]
        chosen.append(RowSet.from_keys([first, first + 3]))
        batches = [pa.record_batch(version.read(rows), ["v", "x"]) for rows in chosen]
        found.append([batch.serialize().to_pybytes() for batch in batches])
    assert all(other == found[0] for other in found[1:])


def test_a_change_of_a_hidden_column_leaves_no_trace() -> None:
    table = KeyedTable(UpdateGraph(), "t", NUMBERS, "k")
    table.upsert(numbers(1, 2, 3))
    made = restrict(table, Restriction(columns=frozenset(["n", "k"])))
    filtered = part(table, "s != 'z'", "n", "k")
    seen = Follower(made), Follower(filtered)
    table.upsert(numbers(1, 2, text="y"))
    assert [follower.updates for follower in seen] == [[], []]
    table.upsert(numbers(1, text="z"))
    assert [len(follower.updates) for follower in seen] == [0, 1]
    assert filtered.to_arrow()["k"].to_pylist() == [2, 3]


def test_a_row_moves_into_and_out_of_a_condition() -> None:
    table = KeyedTable(UpdateGraph(), "t", NUMBERS, "k")
    table.upsert(numbers(1, 2, 3, 4))
    made = part(table, "n < 10", "k", "n")
    seen = Follower(made)
    for value, rows in ((20, [1, 3, 4]), (5, [1, 2, 3, 4]), (6, [1, 2, 3, 4])):
        table.upsert({"k": [2], "n": [value], "s": ["x"]})
        assert made.to_arrow()["k"].to_pylist() == rows
    assert [str(update) for update in seen.updates] == ["+0 -1 ~0", "+1 -0 ~0", "+0 -0 ~1"]


def test_rows_of_a_ring_are_not_moved() -> None:
    """What leaves in front leaves its keys unused: no later row gets another one."""
    table = RingTable(UpdateGraph(), "t", NUMBERS, 10)
    table.append(numbers(*range(10)))
    made = part(table, "n < 1000")
    seen = Follower(made)
    table.append(numbers(10, 11, 2000))
    assert [update.shifted.size for update in seen.updates] == [0]
    assert made.version.row_set == RowSet.from_range(3, 11)


def test_rows_of_a_blink_table_stay_readable() -> None:
    """For subscribers that look less often than it blinks; not those that are left out."""
    table = BlinkTable(UpdateGraph(), "t", NUMBERS, history=6)
    table.append(numbers(1, 2))
    made = part(table, "n < 10", "n")
    assert made.traits.is_blink
    table.append(numbers(3, 30, 4))
    table.append(numbers(40))
    table.append(numbers(5))
    assert made.version.row_set == RowSet.from_range(4, 4)
    assert made.version.readable == RowSet.from_range(1, 4)
    assert [made.version.read(made.version.readable)[0].to_pylist()] == [[2, 3, 4, 5]]
    whole = restrict(table, Restriction(columns=frozenset(["n"])))
    assert whole.version.readable == table.version.readable


def test_what_could_speak_of_the_rest_is_not_said() -> None:
    """Keys of hidden columns, metadata of the schema, attributes of other servers."""
    schema = pa.schema([pa.field("k", pa.int64(), metadata={"own": "1"}), ("n", pa.int64())], {"pandas": "of n"})
    graph = UpdateGraph()
    traits = TableTraits.of({"SortedColumns": "n=Ascending", "BarrageRoute": "a/b", "RingCapacity": 3})
    table = ReplicaTable(graph, "t", schema, traits=traits, key_columns=["k"])
    hidden = restrict(table, Restriction(columns=frozenset(["n"])))
    assert (hidden.key_columns, hidden.schema) == ((), pa.schema([("n", pa.int64())]))
    shown = restrict(table, Restriction(columns=frozenset(["k"])))
    assert shown.key_columns == ("k",)
    assert shown.schema.metadata is None and shown.schema.field("k").metadata == {b"own": b"1"}
    assert shown.attributes == {"RingCapacity": 3, "BarrageRoute": "a/b"}


@given(seed=st.integers(0, 1 << 32), columns=st.sampled_from([(), ("n",), ("k", "s")]))
@settings(deadline=None, max_examples=60)
def test_updates_of_replaced_rows_are_those_of_a_table_with_other_hidden_rows(
    seed: int, columns: tuple[str, ...]
) -> None:
    """Of two tables that differ in hidden rows alone, wherever they are and however many there are, the parts have the
    same keys and the same updates: none at all when only hidden rows change.
    """
    chance = random.Random(seed)
    tables = [ReplacedTable(UpdateGraph(), "t", NUMBERS) for _ in range(2)]
    parts = [part(table, "n >= 0", *columns) for table in tables]
    seen = [Follower(made) for made in parts]
    shown: list[tuple[Any, ...]] = []
    for _ in range(8):
        before, appends = list(shown), chance.random() < 0.3
        if not appends:
            shown = [row for row in shown if chance.random() < chance.choice([1.0, 0.8])]
            shown = [(chance.randrange(9), *row[1:]) if chance.random() < 0.1 else row for row in shown]
        new = [
            (chance.randrange(9), chance.randrange(3), chance.choice("ab")) for _ in range(chance.choice([0, 0, 1, 3]))
        ]
        shown += new
        counts = [len(follower.updates) for follower in seen]
        for table in tables:
            rows = list(new if appends else shown)
            for _ in range(chance.choice([0, 1, 5])):
                rows.insert(chance.randrange(len(rows) + 1), (7, -1 - chance.randrange(9), "hidden"))
            content = pa.table([list(column) for column in zip(*rows, strict=True)] or [[], [], []], NUMBERS)
            if appends:
                table.append(content)
            else:
                table.replace(content)
        if shown == before:
            assert [len(follower.updates) for follower in seen] == counts
        assert [made.version.row_set for made in parts] == [RowSet.flat(len(shown))] * 2
        names = parts[0].schema.names
        wanted = [tuple(row["kns".index(name)] for name in names) for row in shown]
        assert [rows_of(made.to_arrow()) for made in parts] == [wanted, wanted]
    first, second = (
        [(each.added, each.removed, each.shifted.size, each.modified) for each in follower.updates] for follower in seen
    )
    assert first == second


@pytest.mark.parametrize("columns", [(), ("k", "n"), ("k",)])
def test_metadata_does_not_speak_of_hidden_rows(columns: tuple[str, ...]) -> None:
    """As that of pandas does, which counts them; what says the type of a column stays."""
    schema = pa.schema(
        [
            pa.field("k", pa.binary(), metadata={"deephaven:type": "java.math.BigInteger", "most": "9"}),
            pa.field("n", pa.int64(), metadata={"most": "9"}),
        ],
        {"pandas": '{"index_columns": [{"kind": "range", "start": 0, "stop": 123}]}'},
    )
    made = part(AppendTable(UpdateGraph(), "t", schema), "n > 1", *columns)
    assert made.schema.metadata is None
    assert made.schema.field("k").metadata == {b"deephaven:type": b"java.math.BigInteger"}
    assert all(field.metadata is None for field in made.schema if field.name != "k")


def test_it_has_the_name_of_its_table_and_no_other() -> None:
    table = AppendTable(UpdateGraph(), "t", NUMBERS)
    made = part(table, "n < 10")
    table.rename("u")
    assert made.name == "u" and source_of(made) is table and source_of(table) is table
    with pytest.raises(UnsupportedOperationError, match="part of table 'u'"):
        made.rename("v")


def test_a_condition_that_fails_fails_its_part_alone() -> None:
    table = AppendTable(UpdateGraph(), "t", NUMBERS)
    table.append(numbers(1))

    def touchy(batch: pa.RecordBatch) -> pa.Array:
        assert 7 not in batch["n"].to_pylist(), "secret"
        return pc.greater(batch["n"], 0)

    made = restrict(table, Restriction(frozenset([touchy])))
    other = part(table, "n < 10")
    table.append(numbers(7))
    table.append(numbers(8))
    assert (table.size, other.size, made.size) == (3, 3, 1)
    with pytest.raises(TableFailedError, match="'t' cannot be shown any more") as told:
        made.check_usable()
    assert "secret" not in str(told.value)


def test_a_restriction_that_does_not_fit_is_an_error() -> None:
    table = AppendTable(UpdateGraph(), "t", NUMBERS)
    for restriction, words in (
        (Restriction(columns=frozenset(["a", "b"])), "none of the columns a, b"),
        (Restriction(frozenset([Condition("region == 'EU'")])), "names 'region', which is no column"),
        (Restriction(frozenset([Condition("n == 'EU'")])), "type int64, and 'EU' is no such value"),
    ):
        with pytest.raises(InvalidRequestError, match=words):
            restriction.check(NUMBERS)
        with pytest.raises(InvalidRequestError, match=words):
            restrict(table, restriction)


def test_a_part_without_holders_is_gone() -> None:
    """At once: nothing else keeps it, and no later cycle follows it."""
    table = AppendTable(UpdateGraph(), "t", NUMBERS)
    made = part(table, "n < 10")
    assert len(table.children) == 1
    del made
    assert len(table.children) == 0

"""What a publisher's rows do to a table that is there, and which table they make when there is none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from barrage_server.engine import AppendTable, BlinkTable, KeyedTable, ReplacedTable, RingTable, Table, UpdateGraph
from barrage_server.errors import (
    AlreadyExistsError,
    BarrageError,
    ForbiddenError,
    InvalidRequestError,
    KeyMismatchError,
    SchemaMismatchError,
    UnavailableError,
    UnknownTableError,
    UnsupportedOperationError,
    UnsupportedTypeError,
)
from barrage_server.publish import Target, publish_rows
from barrage_server.publish.delta import Part, publish_parts
from barrage_server.server.catalog import Catalog
from barrage_server.wire.protocol import PublishMode, TableKind

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])


@pytest.fixture
def catalog() -> Catalog:
    return Catalog(UpdateGraph())


def batch(**columns: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns, schema=SCHEMA)


def publish(catalog: Catalog, target: Target, *batches: pa.RecordBatch, schema: pa.Schema = SCHEMA) -> Table:
    rows, table = publish_rows(catalog, target, schema, batches)
    assert rows == sum(entry.num_rows for entry in batches)
    return table


ROWS = batch(k=["a", "b"], v=[1, 2])


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        (Target("t"), AppendTable),
        (Target("t", mode=PublishMode.APPEND), AppendTable),
        (Target("t", key=("k",)), KeyedTable),
        (Target("t", mode=PublishMode.UPSERT, key=("k",)), KeyedTable),
        (Target("t", mode=PublishMode.REPLACE, key=("k",)), KeyedTable),
        (Target("t", mode=PublishMode.REPLACE), ReplacedTable),
        (Target("t", capacity=10), RingTable),
        (Target("t", kind=TableKind.RING, capacity=10), RingTable),
        (Target("t", kind=TableKind.BLINK), BlinkTable),
        (Target("t", kind=TableKind.REPLACED), ReplacedTable),
        (Target("t", kind=TableKind.KEYED, key=("k",)), KeyedTable),
    ],
)
def test_a_new_table_is_of_the_kind_that_the_publisher_needs(
    catalog: Catalog, target: Target, kind: type[Table]
) -> None:
    table = publish(catalog, target, ROWS)
    assert type(table) is kind
    assert table.to_arrow().to_pydict() == {"k": ["a", "b"], "v": [1, 2]}
    assert catalog.find("t") is table


@pytest.mark.parametrize(
    ("target", "error"),
    [
        (Target("t", mode=PublishMode.UPSERT), KeyMismatchError),
        (Target("t", mode=PublishMode.DELETE, key=("k",)), UnknownTableError),
        (Target("t", kind=TableKind.KEYED), KeyMismatchError),
        (Target("t", kind=TableKind.BLINK, key=("k",)), KeyMismatchError),
        (Target("t", key=("nope",)), KeyMismatchError),
        (Target("t", kind=TableKind.RING), InvalidRequestError),
        (Target("t", kind=TableKind.BLINK, capacity=3), InvalidRequestError),
        (Target("", kind=TableKind.BLINK), InvalidRequestError),
        (Target("t", kind=TableKind.BLINK, mode=PublishMode.REPLACE), UnsupportedOperationError),
    ],
)
def test_what_does_not_go_together_makes_no_table(catalog: Catalog, target: Target, error: type[BarrageError]) -> None:
    with pytest.raises(error):
        publish(catalog, target, ROWS)
    assert catalog.tables() == ()


def test_a_type_that_tables_cannot_hold_makes_no_table(catalog: Catalog) -> None:
    kind = pa.int8()
    for _ in range(70):
        kind = pa.list_(kind)
    with pytest.raises(UnsupportedTypeError, match="deeper than 64"):
        publish(catalog, Target("t"), schema=pa.schema([("deep", kind)]))
    assert catalog.tables() == ()


def test_batches_become_one_cycle(catalog: Catalog) -> None:
    updates: list[Any] = []
    table = publish(catalog, Target("t"))
    table.add_listener(lambda update, before, after: updates.append(update))
    publish(catalog, Target("t"), ROWS, ROWS, ROWS)
    assert [update.added.size for update in updates] == [6]


def test_rows_for_a_table_with_keys_are_upserts_and_the_last_row_of_a_key_wins(catalog: Catalog) -> None:
    publish(catalog, Target("t", key=("k",)), ROWS)
    for mode in (None, PublishMode.APPEND, PublishMode.UPSERT):
        table = publish(catalog, Target("t", mode=mode), batch(k=["b", "c"], v=[20, 30]), batch(k=["b"], v=[21]))
        assert table.to_arrow().to_pydict() == {"k": ["a", "b", "c"], "v": [1, 21, 30]}


def test_delete_takes_the_key_columns(catalog: Catalog) -> None:
    publish(catalog, Target("t", key=("k",)), ROWS)
    keys = pa.record_batch({"k": ["a", "zz"]})
    table = publish(catalog, Target("t", mode=PublishMode.DELETE), keys, schema=keys.schema)
    assert table.to_arrow().to_pydict() == {"k": ["b"], "v": [2]}


@pytest.mark.parametrize("key", [("k",), None])
def test_replace_makes_the_rows_the_whole_content(catalog: Catalog, key: tuple[str, ...] | None) -> None:
    target = Target("t", mode=PublishMode.REPLACE, key=key)
    publish(catalog, target, ROWS)
    table = publish(catalog, target, batch(k=["c"], v=[3]))
    assert table.to_arrow().to_pydict() == {"k": ["c"], "v": [3]}
    assert publish(catalog, target).size == 0


def test_null_is_a_key_like_any_other(catalog: Catalog) -> None:
    publish(catalog, Target("t", key=("k",)), batch(k=[None, "a"], v=[1, 2]))
    table = publish(catalog, Target("t"), batch(k=[None], v=[3]))
    assert table.to_arrow().to_pydict() == {"k": [None, "a"], "v": [3, 2]}


@pytest.mark.parametrize(
    ("first", "second", "error"),
    [
        (Target("t"), Target("t", mode=PublishMode.UPSERT), UnsupportedOperationError),
        (Target("t", capacity=3), Target("t", mode=PublishMode.REPLACE), UnsupportedOperationError),
        (Target("t", kind=TableKind.BLINK), Target("t", mode=PublishMode.REPLACE), UnsupportedOperationError),
        (Target("t"), Target("t", mode=PublishMode.REPLACE, kind=TableKind.APPEND), UnsupportedOperationError),
        (Target("t"), Target("t", mode=PublishMode.REPLACE, kind=TableKind.REPLACED), AlreadyExistsError),
        (Target("t", key=("k",)), Target("t", key=("v",)), KeyMismatchError),
        (Target("t", key=("k",)), Target("t", key=("k", "v")), KeyMismatchError),
        (Target("t"), Target("t", key=("k",)), KeyMismatchError),
        (Target("t"), Target("t", kind=TableKind.BLINK), AlreadyExistsError),
        (Target("t", capacity=3), Target("t", kind=TableKind.RING, capacity=4), AlreadyExistsError),
    ],
)
def test_a_second_publisher_with_other_ideas_changes_nothing(
    catalog: Catalog, first: Target, second: Target, error: type[BarrageError]
) -> None:
    table = publish(catalog, first, ROWS)
    version = table.version
    with pytest.raises(error):
        publish(catalog, second, ROWS)
    assert catalog.find("t") is table
    assert table.version is version


def test_a_batch_that_does_not_fit_changes_nothing_even_behind_one_that_does(catalog: Catalog) -> None:
    table = publish(catalog, Target("t"), ROWS)
    wrong = pa.record_batch({"k": ["a"], "other": [1]})
    with pytest.raises(SchemaMismatchError):
        publish_rows(catalog, Target("t"), SCHEMA, [ROWS, wrong])
    assert table.size == 2


def test_a_schema_that_does_not_fit_is_told_even_without_rows(catalog: Catalog) -> None:
    publish(catalog, Target("t"))
    with pytest.raises(SchemaMismatchError):
        publish(catalog, Target("t"), schema=pa.schema([("k", pa.string()), ("v", pa.float32())]))


def test_encodings_and_protocol_metadata_are_left_behind(catalog: Catalog) -> None:
    schema = pa.schema(
        [pa.field("k", pa.dictionary(pa.int8(), pa.string()), metadata={"deephaven:type": "x", "mine": "1"})],
        metadata={"deephaven:attribute.x": "y", "barrage:put": "{}", "mine": "2"},
    )
    rows = pa.record_batch([pa.array(["a"]).dictionary_encode().cast(schema.field(0).type)], schema=schema)
    table = publish(catalog, Target("t"), rows, schema=schema)
    assert table.schema.field("k").type == pa.string()
    assert table.schema.metadata == {b"mine": b"2"}
    assert table.schema.field("k").metadata == {b"mine": b"1"}
    assert table.to_arrow().to_pydict() == {"k": ["a"]}


class Meanwhile(list[pa.RecordBatch]):
    """Batches; when they are read for the first time, something happens on another thread in between."""

    def __init__(self, batches: list[pa.RecordBatch], happens: Callable[[], object]) -> None:
        super().__init__(batches)
        self.happens: Callable[[], object] | None = happens

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        happens, self.happens = self.happens, None
        if happens is not None:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(happens).result()
        return super().__iter__()


STRICT = pa.schema([("k", pa.string()), pa.field("v", pa.int64(), nullable=False)])
GOOD = pa.RecordBatch.from_pydict({"k": ["a", "b"], "v": [1, 2]}, schema=STRICT)
WRONG = pa.RecordBatch.from_pydict({"k": ["a"], "v": [None]}, schema=STRICT)
NEW_TABLES = [
    Target("t"),
    Target("t", key=("k",)),
    Target("t", mode=PublishMode.REPLACE),
    Target("t", capacity=10),
    Target("t", kind=TableKind.BLINK),
]


@pytest.mark.parametrize("target", NEW_TABLES)
@pytest.mark.parametrize("refused_is_first", [True, False])
def test_refused_rows_take_no_table_away_that_another_publisher_uses(
    catalog: Catalog, target: Target, refused_is_first: bool
) -> None:
    """Two publishers begin a table at the same time; the rows of one of them are refused."""
    made: list[Table] = []

    def publish_good(batches: list[pa.RecordBatch]) -> None:
        made.append(publish_rows(catalog, target, STRICT, batches)[1])

    def publish_wrong(batches: list[pa.RecordBatch]) -> None:
        with pytest.raises(SchemaMismatchError, match="without nulls"):
            publish_rows(catalog, target, STRICT, batches)

    if refused_is_first:
        publish_wrong(Meanwhile([WRONG], lambda: publish_good([GOOD])))
    else:
        publish_good(Meanwhile([GOOD], lambda: publish_wrong([WRONG])))
    assert catalog.find("t") is made[0]
    assert made[0].size == 2


@pytest.mark.parametrize("target", NEW_TABLES)
def test_a_table_that_two_publishers_begin_at_once_has_the_rows_of_both(catalog: Catalog, target: Target) -> None:
    """The slower one's goes where the faster one's went; the table that it had begun leaves nothing behind."""
    other = pa.RecordBatch.from_pydict({"k": ["c"], "v": [3]}, schema=SCHEMA)
    slower = Meanwhile([other], lambda: publish(catalog, target, ROWS))
    rows, table = publish_rows(catalog, target, SCHEMA, slower)
    assert rows == 1
    assert catalog.tables() == (table,)
    replaces = target.mode is PublishMode.REPLACE or target.kind is TableKind.BLINK
    assert table.to_arrow().column("v").to_pylist() == ([3] if replaces else [1, 2, 3])
    step = catalog.graph.step
    AppendTable(catalog.graph, "other", SCHEMA).append(ROWS)
    assert catalog.graph.step == step + 1


def test_a_table_is_found_with_its_first_rows_only(catalog: Catalog) -> None:
    """Until then nothing of it can be seen, so that refused rows leave nothing behind."""
    seen: list[object] = []
    publish_rows(catalog, Target("t"), SCHEMA, Meanwhile([ROWS], lambda: seen.append(catalog.find("t"))))
    assert seen == [None]
    with pytest.raises(SchemaMismatchError):
        publish_rows(catalog, Target("u"), STRICT, [WRONG])
    assert [table.name for table in catalog.tables()] == ["t"]


@pytest.mark.parametrize("kind", [TableKind.APPEND, TableKind.RING, TableKind.BLINK, TableKind.REPLACED])
def test_no_rows_of_nested_encodings_are_no_rows(catalog: Catalog, kind: TableKind) -> None:
    runs = pa.run_end_encoded(pa.int32(), pa.string())
    schema = pa.schema([("f", pa.list_(pa.list_(runs), 2)), ("s", pa.struct([("d", pa.dictionary(pa.int8(), runs))]))])
    target = Target("t", kind=kind, capacity=3 if kind is TableKind.RING else None)
    for _ in range(2):
        assert publish(catalog, target, schema=schema).size == 0


def test_overwriting_an_append_table_makes_one_that_takes_both(catalog: Catalog) -> None:
    """In one step for readers, and the promise that no row is removed is withdrawn."""
    before = publish(catalog, Target("t"), ROWS)
    assert isinstance(before, AppendTable)
    table = publish(catalog, Target("t", mode=PublishMode.REPLACE), batch(k=["z"], v=[26]))
    assert isinstance(table, ReplacedTable)
    assert catalog.find("t") is table
    assert "AppendOnly" not in table.attributes
    assert publish(catalog, Target("t", mode=PublishMode.APPEND), ROWS) is table
    assert table.to_arrow().to_pydict() == {"k": ["z", "a", "b"], "v": [26, 1, 2]}
    assert publish(catalog, Target("t", mode=PublishMode.REPLACE)) is table
    assert table.size == 0
    assert before.to_arrow().to_pydict() == {"k": ["a", "b"], "v": [1, 2]}
    with pytest.raises(UnavailableError, match="was overwritten"):
        before.append(ROWS)


def test_an_overwriting_that_does_not_fit_changes_nothing(catalog: Catalog) -> None:
    table = publish(catalog, Target("t"), ROWS)
    wrong = pa.record_batch({"k": ["a"], "other": [1]})
    with pytest.raises(SchemaMismatchError):
        publish_rows(catalog, Target("t", mode=PublishMode.REPLACE), wrong.schema, [wrong])
    assert catalog.find("t") is table
    assert publish(catalog, Target("t"), ROWS).size == 4


def test_a_table_is_made_only_by_a_publisher_that_may_make_it(catalog: Catalog) -> None:
    """Also one that is dropped while the rows arrive: the check comes when the table is made, not before."""

    def check_new(names: Collection[str]) -> None:
        raise ForbiddenError(f"no right to make {', '.join(names)}")

    with pytest.raises(ForbiddenError, match="no right to make t"):
        publish_rows(catalog, Target("t"), SCHEMA, [ROWS], check_new=check_new)
    assert catalog.find("t") is None
    publish(catalog, Target("t"), ROWS)
    rows, table = publish_rows(catalog, Target("t"), SCHEMA, [ROWS], check_new=check_new)
    assert (rows, table.size) == (2, 4)


def test_a_commit_makes_only_tables_that_its_publisher_may_make(catalog: Catalog) -> None:
    publish(catalog, Target("there"), ROWS)
    parts = [Part(Target(name), SCHEMA, [ROWS]) for name in ("there", "new")]

    def check_new(names: Collection[str]) -> None:
        raise ForbiddenError(f"no right to make {', '.join(names)}")

    with pytest.raises(ForbiddenError, match="no right to make new"):
        publish_parts(catalog, parts, check_new=check_new)
    assert catalog.get("there").size == 2

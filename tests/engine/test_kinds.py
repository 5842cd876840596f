"""Tables of each kind are made of a specification, and say which."""

from __future__ import annotations

import pyarrow as pa
import pytest

from barrage_server.engine import ReplicaTable, UpdateGraph
from barrage_server.engine.kinds import KIND_NAMES, kind_name, make_table, spec_of
from barrage_server.wire.protocol import TableKind
from barrage_server.wire.table_spec import TableSpec

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string())])
SPECS = {
    TableKind.APPEND: TableSpec(TableKind.APPEND),
    TableKind.RING: TableSpec(TableKind.RING, capacity=7),
    TableKind.BLINK: TableSpec(TableKind.BLINK),
    TableKind.KEYED: TableSpec(TableKind.KEYED, ("b", "a")),
    TableKind.REPLACED: TableSpec(TableKind.REPLACED),
}


@pytest.mark.parametrize("kind", TableKind)
def test_a_table_is_of_the_specification_that_it_was_made_of(kind: TableKind) -> None:
    table = make_table(UpdateGraph(), "t", SCHEMA, SPECS[kind])
    assert spec_of(table) == SPECS[kind]
    assert (table.name, table.schema, table.size) == ("t", SCHEMA, 0)
    assert kind_name(table) == kind


def test_tables_that_publishers_do_not_make_have_none() -> None:
    assert spec_of(ReplicaTable(UpdateGraph(), "t", SCHEMA)) is None


def test_every_kind_has_a_name_once() -> None:
    graph = UpdateGraph()
    tables = [
        *(make_table(graph, "t", SCHEMA, spec) for spec in SPECS.values()),
        ReplicaTable(graph, "t", SCHEMA),
        ReplicaTable(graph, "u", SCHEMA).where("a > 1"),
    ]
    assert [kind_name(table) for table in tables] == list(KIND_NAMES)

"""What is promised about a table: typed, read-only, and written as attributes only where it is sent."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest
from hypothesis import given
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

SCHEMA = pa.schema([("n", pa.int64())])
NAMES = ["AppendOnly", "AddOnly", "BlinkTable", "InputTable", "IsFlat", "RingCapacity", "SortedColumns", "Mine"]


def tables() -> list[Table]:
    graph = UpdateGraph()
    return [
        AppendTable(graph, "append", SCHEMA),
        RingTable(graph, "ring", SCHEMA, 5),
        BlinkTable(graph, "blink", SCHEMA, is_input=True),
        KeyedTable(graph, "keyed", SCHEMA, ["n"]),
        ReplacedTable(graph, "replaced", SCHEMA),
        ReplicaTable(graph, "replica", SCHEMA, traits=TableTraits.of({"IsFlat": True, "Mine": 1})),
    ]


def test_each_kind_states_what_holds_for_it() -> None:
    """These names and values are what clients are sent."""
    assert {table.name: table.attributes for table in tables()} == {
        "append": {"AppendOnly": True, "AddOnly": True, "IsFlat": True},
        "ring": {"RingCapacity": 5},
        "blink": {"BlinkTable": True, "InputTable": True},
        "keyed": {},
        "replaced": {"IsFlat": True},
        "replica": {"IsFlat": True, "Mine": 1},
    }


@pytest.mark.parametrize("table", tables(), ids=lambda table: table.name)
def test_what_describes_a_table_cannot_be_changed(table: Table) -> None:
    """Storage and subscriptions have decided by it already."""
    for name in ("name", "schema", "key_columns", "traits", "attributes"):
        before = getattr(table, name)
        with pytest.raises(AttributeError):
            setattr(table, name, before)
    before = table.attributes
    table.attributes.clear()
    table.attributes["BlinkTable"] = True
    assert table.attributes == before
    with pytest.raises(dataclasses.FrozenInstanceError):
        table.traits.is_blink = True  # type: ignore[misc]


VALUES = st.one_of(st.booleans(), st.integers(-3, 3), st.text(max_size=3), st.floats(allow_nan=False), st.none())


@given(st.dictionaries(st.sampled_from(NAMES), VALUES))
def test_attributes_that_were_sent_are_passed_on_as_they_are(sent: dict[str, object]) -> None:
    """Known or not, of the right type or not; only a true flag and a whole capacity decide anything."""
    traits = TableTraits.of(sent)
    passed = traits.attributes
    assert passed == sent
    assert {name: type(value) for name, value in passed.items()} == {name: type(value) for name, value in sent.items()}
    assert traits.is_blink is (sent.get("BlinkTable") is True)
    assert traits.append_only is (sent.get("AppendOnly") is True)
    capacity = sent.get("RingCapacity")
    assert traits.ring_capacity == (capacity if type(capacity) is int else None)

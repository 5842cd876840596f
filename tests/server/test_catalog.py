"""Names and the tables behind them: added, replaced, reserved, dropped."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.engine import AppendTable, BlinkTable, ReplicaTable, Table, UpdateGraph
from barrage_server.errors import AlreadyExistsError, InvalidRequestError, UnknownTableError
from barrage_server.server import Server
from barrage_server.server.catalog import Catalog
from barrage_server.wire.protocol import TableKind
from barrage_server.wire.table_spec import TableSpec
from tests.waiting import until

SCHEMA = pa.schema([("x", pa.int64())])


@pytest.fixture
def dropped() -> list[Table]:
    return []


@pytest.fixture
def catalog(dropped: list[Table]) -> Catalog:
    return Catalog(UpdateGraph(), dropped.append)


def test_a_table_of_the_graph_is_served_under_any_name(catalog: Catalog) -> None:
    table = ReplicaTable(catalog.graph, "made as", SCHEMA)
    catalog.add(table, "served as")
    assert catalog.get("served as") is table
    assert table.name == "served as"
    catalog.add(table)
    assert catalog.tables() == (table,)


def test_a_name_has_one_table_and_a_further_name_one_of_its_own(catalog: Catalog) -> None:
    first, second = ReplicaTable(catalog.graph, "a", SCHEMA), ReplicaTable(catalog.graph, "b", SCHEMA)
    catalog.add(first)
    again = catalog.add(first, "c")
    assert (first.name, again.name, catalog.get("c")) == ("a", "c", again)
    assert again is not first
    with pytest.raises(AlreadyExistsError, match="There is a table 'a' already"):
        catalog.add(second, "a")
    assert second.name == "b"


def test_a_table_of_another_graph_is_refused(catalog: Catalog) -> None:
    with pytest.raises(InvalidRequestError, match=r"in server\.graph"):
        catalog.add(ReplicaTable(UpdateGraph(), "t", SCHEMA))


def test_a_table_takes_the_place_of_another_in_one_step(catalog: Catalog, dropped: list[Table]) -> None:
    first, second = ReplicaTable(catalog.graph, "t", SCHEMA), ReplicaTable(catalog.graph, "u", SCHEMA)
    catalog.add(first)
    catalog.replace(first, second)
    assert catalog.get("t") is second
    assert dropped == [first]
    with pytest.raises(UnknownTableError, match="was dropped"):
        catalog.replace(first, second)


def test_a_name_that_is_reserved_is_for_its_holder_alone(catalog: Catalog) -> None:
    give_back = catalog.reserve("t", "It is kept.")
    table = ReplicaTable(catalog.graph, "t", SCHEMA)
    with pytest.raises(AlreadyExistsError, match="It is kept"):
        catalog.ensure("t", SCHEMA, TableSpec(TableKind.APPEND))
    with pytest.raises(AlreadyExistsError, match="It is kept"):
        catalog.replica("t", SCHEMA)
    with pytest.raises(AlreadyExistsError, match="It is kept"), catalog.publisher("t"):
        raise AssertionError("no test publishes here")
    with pytest.raises(AlreadyExistsError, match="It is kept"):
        catalog.reserve("t", "by another one")
    with pytest.raises(AlreadyExistsError, match="It is kept"):
        catalog.add(table)
    catalog.add(table, reserved=True)
    with pytest.raises(AlreadyExistsError, match="It is kept"), catalog.publisher("t"):
        raise AssertionError("no test publishes here")
    catalog.drop("t")
    give_back()
    assert catalog.ensure("t", SCHEMA, TableSpec(TableKind.APPEND))[1]


def test_a_name_that_is_taken_cannot_be_reserved(catalog: Catalog) -> None:
    catalog.ensure("t", SCHEMA, TableSpec(TableKind.APPEND))
    with pytest.raises(AlreadyExistsError):
        catalog.reserve("t", "too late")
    with catalog.publisher("u"), pytest.raises(AlreadyExistsError):
        catalog.reserve("u", "too late")


def test_watchers_hear_of_every_table_that_comes_or_goes(catalog: Catalog) -> None:
    heard: list[list[str]] = []
    stop = catalog.watch(lambda: heard.append([table.name for table in catalog.tables()]))
    catalog.ensure("a", SCHEMA, TableSpec(TableKind.APPEND))
    before = catalog.get("a")
    catalog.replace(before, AppendTable(catalog.graph, "x", SCHEMA))
    catalog.drop("a")
    stop()
    catalog.ensure("b", SCHEMA, TableSpec(TableKind.APPEND))
    assert heard == [["a"], ["a"], []]


def test_a_blink_table_that_was_dropped_takes_part_in_no_cycle_any_more(catalog: Catalog) -> None:
    blink, _ = catalog.ensure("blink", SCHEMA, TableSpec(TableKind.BLINK))
    other, _ = catalog.ensure("other", SCHEMA, TableSpec(TableKind.APPEND))
    assert isinstance(blink, BlinkTable) and isinstance(other, AppendTable)
    blink.append({"x": [1]})
    catalog.drop("blink")
    other.append({"x": [2]})
    assert blink.size == 1
    assert other.size == 1


def test_a_server_serves_tables_that_were_made_in_its_graph() -> None:
    with Server() as server:
        table = ReplicaTable(server.graph, "replica", SCHEMA)
        server.add_table("shown", table)
        assert server.table("shown") is table
        with pytest.raises(AlreadyExistsError):
            server.add_table("shown", ReplicaTable(server.graph, "other", SCHEMA))
        server.drop("shown")
        assert server.tables() == ()


def test_a_table_may_have_several_names() -> None:
    """Each is a table of its own to clients: it ticks, is dropped alone, and only the first takes rows."""
    with Server() as server, bs.connect(server.uri) as client:
        first = server.append_table("first", SCHEMA)
        server.add_table("second", first)
        server.add_table("third", first)
        assert [table.name for table in server.tables()] == ["first", "second", "third"]
        with client.subscribe("second") as live:
            first.append({"x": [1, 2]})
            live.wait_until(lambda table: table.size == 2)
            server.drop("third")
            first.append({"x": [3]})
            live.wait_until(lambda table: table["x"].to_pylist() == [1, 2, 3])
        with pytest.raises(bs.BarrageError, match="second"):
            client.append("second", {"x": [4]})
        server.drop("first")
        assert client.snapshot("second")["x"].to_pylist() == [1, 2, 3]


def test_names_of_a_blink_table_blink_alike() -> None:
    with Server() as server:
        blink = server.blink_table("blink", SCHEMA)
        server.add_table("again", blink)
        again = server.table("again")
        for value in (1, 2):
            blink.append({"x": [value]})
        assert again.to_arrow()["x"].to_pylist() == [2]
        assert again.traits == blink.traits
        assert again.version.readable == blink.version.readable


def test_a_listener_may_publish_to_a_table_that_is_just_made(catalog: Catalog) -> None:
    """The maker of a table waits for listeners; what they publish to it does not wait for the maker."""
    first, _ = catalog.ensure("first", SCHEMA, TableSpec(TableKind.APPEND))
    assert isinstance(first, AppendTable)
    made = threading.Event()
    maker = threading.Thread(target=lambda: catalog.ensure("new", SCHEMA, TableSpec(TableKind.APPEND)))

    def listener(*_: object) -> None:
        if not made.is_set():
            made.set()
            maker.start()
            until(lambda: catalog.find("new"))
            with catalog.making(["new"]):
                pass

    first.add_listener(listener)
    first.append({"x": [1]})
    maker.join(30)
    assert not maker.is_alive()

"""Tables that clients make: counted by caller and in all, refused beyond the limits, by every way to make one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext

import pyarrow as pa
import pyarrow.flight as fl
import pytest

import barrage_server as bs
from barrage_server.engine import AppendTable, UpdateGraph
from barrage_server.errors import LimitError
from barrage_server.publish.delta import CheckNew
from barrage_server.server import Limits, Principal, Server
from barrage_server.server.catalog import Catalog
from barrage_server.server.made_tables import MadeTables
from barrage_server.server.principal import OPEN
from barrage_server.wire.commit_messages import CommitPart, CommitRequest
from tests.server.conftest import address, endpoints

SCHEMA = pa.schema([("n", pa.int64())])


@pytest.fixture
def catalog() -> Catalog:
    return Catalog(UpdateGraph())


def make(catalog: Catalog, made: MadeTables, principal: Principal, name: str, schema: pa.Schema = SCHEMA) -> None:
    with made.making(principal) as check_new:
        check_new({name: schema})
        catalog.add(AppendTable(catalog.graph, name, schema))


def admit(made: MadeTables, principal: Principal, tables: Mapping[str, pa.Schema]) -> None:
    """Tables that are not made in the end."""
    with made.making(principal) as check_new:
        check_new(tables)


def named(*names: str) -> dict[str, pa.Schema]:
    return dict.fromkeys(names, SCHEMA)


def limited(catalog: Catalog, **limits: int) -> MadeTables:
    return MadeTables(catalog, Limits(**limits))  # type: ignore[arg-type]


def test_a_caller_makes_no_more_than_its_limit_and_another_one_does(catalog: Catalog) -> None:
    made = limited(catalog, tables=100, tables_per_caller=2)
    ann, bob = Principal("ann"), Principal("bob")
    make(catalog, made, ann, "a")
    make(catalog, made, ann, "b")
    with pytest.raises(LimitError, match=r"'ann' may have 2 tables .*\(tables_per_caller\)"):
        admit(made, ann, named("c"))
    make(catalog, made, bob, "c")
    catalog.drop("a")
    make(catalog, made, ann, "d")


def test_what_was_not_made_in_the_end_is_not_counted(catalog: Catalog) -> None:
    made = limited(catalog, tables=100, tables_per_caller=2)
    for number in range(10):
        admit(made, Principal("ann"), named(str(number)))


def test_tables_that_are_made_together_count_together(catalog: Catalog) -> None:
    made = limited(catalog, tables=6, tables_per_caller=3)
    ann, anyone = Principal("ann"), Principal("d", credential=OPEN)
    with pytest.raises(LimitError, match="tables_per_caller"):
        admit(made, ann, named("a", "b", "c", "d"))
    admit(made, ann, named("a", "b", "c"))
    with pytest.raises(LimitError, match=r"\(tables\)"):
        admit(made, anyone, named(*"abcdefg"))


def test_a_table_counts_for_the_caller_that_made_it_last(catalog: Catalog) -> None:
    made = limited(catalog, tables=100, tables_per_caller=1)
    make(catalog, made, Principal("ann"), "a")
    catalog.drop("a")
    make(catalog, made, Principal("bob"), "a")
    admit(made, Principal("ann"), named("b"))
    with pytest.raises(LimitError, match="'bob' may have 1 table that"):
        admit(made, Principal("bob"), named("c"))


def test_the_server_has_a_limit_of_its_own_and_an_open_one_no_other(catalog: Catalog) -> None:
    made = limited(catalog, tables=3, tables_per_caller=1)
    for name in "abc":
        make(catalog, made, Principal(name, credential=OPEN), name)
    with pytest.raises(LimitError, match=r"has 3 tables.*\(tables\)"):
        admit(made, Principal("d", credential=OPEN), named("d"))


def test_names_of_dropped_tables_take_no_memory(catalog: Catalog) -> None:
    """A server on which one makes and drops tables without end holds the names of some hundred."""
    made = limited(catalog)
    ann, bob = Principal("ann"), Principal("bob")
    make(catalog, made, bob, "kept")
    names = [f"name {number}" for number in range(500)]
    references = {name: sys.getrefcount(name) for name in names}
    for name in names:
        make(catalog, made, ann, name)
        catalog.drop(name)
    held = [name for name in names if sys.getrefcount(name) > references[name]]
    assert 0 < len(held) < 200
    assert held == names[-len(held) :]


def test_tables_that_are_there_are_counted_whatever_others_make_and_drop(catalog: Catalog) -> None:
    made = limited(catalog, tables_per_caller=2)
    anyone, bob = Principal("anyone", credential=OPEN), Principal("bob")
    make(catalog, made, bob, "a")
    make(catalog, made, bob, "b")
    for number in range(500):
        make(catalog, made, anyone, f"name {number}")
        catalog.drop(f"name {number}")
    with pytest.raises(LimitError, match="'bob' may have 2 tables"):
        admit(made, bob, named("c"))


def test_a_table_that_is_being_made_is_counted(catalog: Catalog) -> None:
    """Also when other callers are refused meanwhile, and when many other tables are made and dropped."""
    made = limited(catalog, tables_per_caller=1)
    anyone, bob = Principal("anyone", credential=OPEN), Principal("bob")
    with made.making(bob) as check_new:
        check_new(named("a"))
        for number in range(500):
            make(catalog, made, anyone, f"name {number}")
            catalog.drop(f"name {number}")
        with pytest.raises(LimitError, match="'bob' may have 1 table "):
            admit(made, bob, named("b"))
        catalog.add(AppendTable(catalog.graph, "a", SCHEMA))
    with pytest.raises(LimitError, match="'bob' may have 1 table "):
        admit(made, bob, named("b"))


def test_a_table_that_two_calls_make_is_counted_once_and_until_both_have_ended(catalog: Catalog) -> None:
    made = limited(catalog, tables_per_caller=1, columns_per_caller=1)
    bob = Principal("bob")
    with made.making(bob) as check_new:
        check_new(named("a"))
        check_new(named("a"))  # as when its rows have to be published anew
        admit(made, bob, named("a"))
        with pytest.raises(LimitError, match="'bob' may have 1 table "):
            admit(made, bob, named("b"))
    admit(made, bob, named("b"))


def test_callers_without_tables_are_forgotten(catalog: Catalog) -> None:
    made = limited(catalog, tables=10_000, tables_per_caller=1)
    make(catalog, made, Principal("ann"), "a")
    for number in range(3000):
        admit(made, Principal(str(number)), named("other"))
    with pytest.raises(LimitError):
        admit(made, Principal("ann"), named("b"))


NARROW, WIDE = (pa.schema([(f"c{number}", pa.int64()) for number in range(width)]) for width in (3, 4))
NESTED = pa.schema([("s", pa.struct([("a", pa.int64()), ("b", pa.list_(pa.int64()))]))])  # four fields at all depths


@pytest.mark.parametrize("wide", [WIDE, NESTED], ids=["wide", "nested"])
def test_a_caller_makes_no_more_columns_than_its_limit_and_another_one_does(catalog: Catalog, wide: pa.Schema) -> None:
    made = limited(catalog, columns_per_caller=10)
    ann, bob = Principal("ann"), Principal("bob")
    make(catalog, made, ann, "a", NARROW)
    make(catalog, made, ann, "b", WIDE)
    with pytest.raises(LimitError, match=r"'ann' may have 10 columns .*\(columns_per_caller\)"):
        admit(made, ann, {"c": wide})
    admit(made, ann, {"c": NARROW})  # never made, and so not counted below
    make(catalog, made, bob, "c", wide)
    catalog.drop("a")
    make(catalog, made, ann, "d", wide)


def test_all_callers_make_no_more_columns_than_the_limit(catalog: Catalog) -> None:
    """Those of an open server, who have no limit of their own, are counted with the others."""
    made = limited(catalog, columns_per_caller=4, total_columns=10)
    anyone = Principal("anyone", credential=OPEN)
    make(catalog, made, Principal("ann"), "a", NARROW)
    make(catalog, made, anyone, "b", NARROW)
    make(catalog, made, anyone, "c", WIDE)
    for principal in (anyone, Principal("bob")):
        with pytest.raises(LimitError, match=r"may have 10 columns \(total_columns\)"):
            admit(made, principal, named("d"))
    catalog.drop("b")
    admit(made, Principal("bob"), {"d": NARROW})


def test_columns_count_for_the_caller_that_made_the_table_last(catalog: Catalog) -> None:
    made = limited(catalog, columns_per_caller=4, total_columns=8)
    make(catalog, made, Principal("ann"), "a", WIDE)
    catalog.drop("a")
    make(catalog, made, Principal("bob"), "a", WIDE)
    make(catalog, made, Principal("ann"), "b", WIDE)
    with pytest.raises(LimitError, match="columns_per_caller"):
        admit(made, Principal("bob"), named("c"))


def test_a_schema_of_long_names_counts_by_its_bytes(catalog: Catalog) -> None:
    """Otherwise a few wide names in each of many tables would fill memory."""
    made = limited(catalog, columns_per_caller=20)
    long = pa.schema([pa.field("n" * 5_000, pa.int64(), metadata={"of": "it" * 2_000})])
    make(catalog, made, Principal("ann"), "a", long)
    make(catalog, made, Principal("ann"), "b", long)
    with pytest.raises(LimitError, match="each KiB of a schema as one"):
        admit(made, Principal("ann"), {"c": long})
    admit(made, Principal("ann"), named("c"))


def test_columns_of_tables_that_are_made_together_count_together(catalog: Catalog) -> None:
    made = limited(catalog, columns_per_caller=2)
    with pytest.raises(LimitError, match="columns_per_caller"):
        admit(made, Principal("ann"), named("a", "b", "c"))
    admit(made, Principal("ann"), named("a", "b"))


def test_a_commit_over_several_tables_makes_no_more_than_the_limit(endpoint: str) -> None:
    limits = Limits(tables_per_caller=3)
    options = fl.FlightCallOptions(headers=[(b"authorization", b"Bearer secret")])
    with (
        Server(token="secret", limits=limits, **endpoints(endpoint)) as server,
        fl.connect(address(server, endpoint)) as client,
    ):
        for batch, size in enumerate((4, 3, 1)):
            parts = [CommitPart(f"t{batch}{place}", tokens=(), schema=SCHEMA) for place in range(size)]
            request = CommitRequest.over(parts, publisher=f"feed {batch}", batch=0)
            with nullcontext() if size == 3 else pytest.raises(pa.ArrowException, match="tables_per_caller"):
                list(client.do_action(fl.Action("barrage.commit", request.to_json()), options))
        assert [table.name for table in server.tables()] == ["t10", "t11", "t12"]


WAYS: dict[str, Callable[[bs.Client, str], object]] = {
    "create": lambda client, name: client.create_table(name, SCHEMA),
    "put": lambda client, name: client.append(name, {"n": [1]}),
    "commit": lambda client, name: client.publish(name, {"n": [1]}, publisher="feed", batch=0),
    "live publication": lambda client, name: _published(client, name),
}


def _published(client: bs.Client, name: str) -> None:
    table = AppendTable(UpdateGraph(), "source", SCHEMA)
    table.append({"n": [1]})
    with client.publish_live(name, table) as publication:
        publication.flush()


@pytest.mark.parametrize("limit", ["tables_per_caller", "columns_per_caller", "total_columns"])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_make_a_table_is_counted(way: str, limit: str, endpoint: str) -> None:
    limits = Limits(**{limit: 1})  # type: ignore[arg-type]
    with (
        Server(token="secret", limits=limits, **endpoints(endpoint)) as server,
        bs.connect(address(server, endpoint), token="secret") as client,
    ):
        client.create_table("first", SCHEMA)
        with pytest.raises(LimitError, match=limit):
            WAYS[way](client, "second")
        assert [table.name for table in server.tables()] == ["first"]
        client.append("first", {"n": [1]})
        client.drop("first")
        WAYS[way](client, "second")
        assert "second" in [table.name for table in server.tables()]


@pytest.mark.parametrize("way", WAYS)
def test_a_table_is_there_when_its_making_ends(way: str, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then it is counted as one that is being made, and after that as one that is there."""
    making = MadeTables.making
    found: list[tuple[str, bool]] = []

    @contextmanager
    def watched(self: MadeTables, principal: Principal) -> Iterator[CheckNew]:
        names: list[str] = []

        def check(tables: Mapping[str, pa.Schema]) -> None:
            names.extend(tables)
            check_new(tables)

        with making(self, principal) as check_new:
            yield check
            found.extend((name, name in self._catalog.names()) for name in names)

    monkeypatch.setattr(MadeTables, "making", watched)
    with Server(**endpoints(endpoint)) as server, bs.connect(address(server, endpoint)) as client:
        WAYS[way](client, "t")
    assert found == [("t", True)]

"""ListFlights, GetFlightInfo, GetSchema and DoGet, as a stock Flight client uses them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from barrage_server.engine import KeyedTable
from barrage_server.errors import InvalidRequestError, UnknownTableError
from barrage_server.flight.errors import from_flight
from barrage_server.server import Server
from barrage_server.wire.table_facts import TableFacts
from tests.server.conftest import SCHEMA, address, endpoints
from tests.waiting import until


def test_every_table_is_listed_with_what_a_client_needs(
    server: Server, client: fl.FlightClient, endpoint: str, quotes: KeyedTable
) -> None:
    server.append_table("another one", SCHEMA)
    another, listed = client.list_flights()
    assert another.descriptor.path == [b"scope", b"another one"]
    assert listed.descriptor.path == [b"scope", b"quotes"]
    assert listed.total_records == 2
    assert listed.endpoints[0].ticket.ticket == b"s/quotes"
    assert listed.endpoints[0].locations == [fl.Location(address(server, endpoint))]
    assert listed.schema.equals(SCHEMA)
    assert listed.schema.field("sym").metadata[b"deephaven:type"] == b"java.lang.String"


def test_the_listing_and_a_description_say_which_tables_are_durable(folder: Path, endpoint: str) -> None:
    with Server(data_dir=folder, **endpoints(endpoint)) as server, fl.connect(address(server, endpoint)) as client:
        server.append_table("kept", SCHEMA)
        server.append_table("memory", SCHEMA, durable=False)
        server.add_table("derived", server.table("kept").where("price > 1"))
        listed = {info.descriptor.path[1].decode(): info for info in client.list_flights()}
        results = client.do_action(fl.Action("barrage.tables", b""))
        action = [fl.FlightInfo.deserialize(one.body.to_pybytes()) for one in results]
        for infos in (listed.values(), action):
            told = {info.descriptor.path[1].decode(): json.loads(info.app_metadata) for info in infos}
            assert told == {"derived": {"durable": False}, "kept": {"durable": True}, "memory": {"durable": False}}
        described = client.get_flight_info(fl.FlightDescriptor.for_path("kept"))
        assert json.loads(described.app_metadata) == {"durable": True}
        plan = {"operations": [{"verb": "where", "inputs": [{"table": "kept"}], "conditions": ["price > 1"]}]}
        result = client.get_flight_info(fl.FlightDescriptor.for_command(json.dumps(plan).encode()))
        assert result.app_metadata == b""


@pytest.mark.parametrize("metadata", [b"", b"x", b"[]", b"{}", b'{"durable": 3}', b'{"durable": true, "new": 1}'])
def test_facts_that_are_missing_new_or_of_other_servers_do_not_end_a_listing(metadata: bytes) -> None:
    assert TableFacts.received(metadata).durable is (True if b"new" in metadata else None)


def test_criteria_are_the_beginning_of_a_name(server: Server, client: fl.FlightClient, quotes: KeyedTable) -> None:
    server.append_table("trades", SCHEMA)
    assert [info.descriptor.path[1] for info in client.list_flights(b"tr")] == [b"trades"]
    assert list(client.list_flights(b"\xff")) == []


def test_a_server_without_tables_lists_none(client: fl.FlightClient) -> None:
    assert list(client.list_flights()) == []


@pytest.mark.parametrize("path", [("scope", "quotes"), ("quotes",)])
def test_a_table_answers_to_its_path(client: fl.FlightClient, quotes: KeyedTable, path: tuple[str, ...]) -> None:
    descriptor = fl.FlightDescriptor.for_path(*path)
    info = client.get_flight_info(descriptor)
    assert info.total_records == 2
    assert client.get_schema(descriptor).schema.equals(SCHEMA)
    assert client.do_get(info.endpoints[0].ticket).read_all().to_pydict() == {"sym": ["A", "B"], "price": [1.0, 2.0]}


@pytest.mark.parametrize("ticket", [b"s/quotes", b"quotes"])
def test_a_table_answers_to_its_ticket(client: fl.FlightClient, quotes: KeyedTable, ticket: bytes) -> None:
    assert client.do_get(fl.Ticket(ticket)).read_all().num_rows == 2


def test_an_empty_table_is_read_as_one(server: Server, client: fl.FlightClient) -> None:
    server.append_table("empty", SCHEMA)
    table = client.do_get(fl.Ticket(b"s/empty")).read_all()
    assert table.num_rows == 0
    assert table.schema.equals(SCHEMA)


def test_a_reader_gets_one_version_while_the_table_goes_on(server: Server, client: fl.FlightClient) -> None:
    table = server.keyed_table("wide", pa.schema([("k", pa.int64()), ("v", pa.int64())]), key=["k"])
    rows = 1_000_000
    table.upsert({"k": pa.array(range(rows)), "v": pa.array([1] * rows)})
    reader = client.do_get(fl.Ticket(b"s/wide"))
    first = reader.read_chunk().data
    table.upsert({"k": pa.array(range(rows)), "v": pa.array([2] * rows)})
    total = first.num_rows
    for chunk in reader:
        assert set(chunk.data.column("v").unique().to_pylist()) == {1}
        total += chunk.data.num_rows
    assert total == rows
    until(lambda: server.statistics().downloads == 0)


def test_a_reader_that_gives_up_leaves_nothing_behind(server: Server, client: fl.FlightClient) -> None:
    table = server.append_table("long", pa.schema([("v", pa.int64())]))
    table.append({"v": pa.array(range(3_000_000))})
    reader = client.do_get(fl.Ticket(b"s/long"))
    reader.read_chunk()
    assert server.statistics().downloads == 1
    reader.cancel()
    until(lambda: server.statistics().downloads == 0)


def test_all_arrow_types_are_read_as_they_are(server: Server, client: fl.FlightClient) -> None:
    struct = pa.struct([("x", pa.int8()), ("y", pa.list_(pa.string()))])
    table = pa.table(
        {
            "list": pa.array([[1, None], None], pa.list_(pa.int64())),
            "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int8())),
            "struct": pa.array([{"x": 1, "y": ["q"]}, None], struct),
            "decimal": pa.array([1, None], pa.decimal128(10, 2)),
            "time": pa.array([1, None], pa.timestamp("us", "Europe/Berlin")),
            "large": pa.array(["a", None], pa.large_string()),
            "bool": pa.array([True, None]),
            "binary": pa.array([b"\0", None]),
            "null": pa.nulls(2),
        }
    )
    server.append_table("types", table.schema).append(table)
    assert client.do_get(fl.Ticket(b"s/types")).read_all().equals(table)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (("quote",), UnknownTableError),
        (("scope", "nope"), UnknownTableError),
        (("a", "path", "of", "four", "too", "many"), InvalidRequestError),
        (("scope", ""), InvalidRequestError),
    ],
)
def test_paths_that_lead_nowhere(
    client: fl.FlightClient, quotes: KeyedTable, path: tuple[str, ...], kind: type[Exception]
) -> None:
    descriptor = fl.FlightDescriptor.for_path(*path)
    for call in (client.get_flight_info, client.get_schema):
        with pytest.raises((pa.ArrowException, OSError)) as caught:
            call(descriptor)
        assert type(from_flight(caught.value)) is kind


def test_a_command_names_no_table(client: fl.FlightClient) -> None:
    with pytest.raises(pa.ArrowInvalid, match="Name a table by the path"):
        client.get_flight_info(fl.FlightDescriptor.for_command(b"select 1"))


@pytest.mark.parametrize("ticket", [b"", b"s/", b"s/\xff", b"s/a\nb", b"e\x01\0\0\0"])
def test_tickets_that_name_nothing(client: fl.FlightClient, ticket: bytes) -> None:
    with pytest.raises(pa.ArrowInvalid) as caught:
        client.do_get(fl.Ticket(ticket)).read_all()
    assert "Traceback" not in str(caught.value)


def test_an_unknown_table_suggests_similar_ones(client: fl.FlightClient, quotes: KeyedTable) -> None:
    with pytest.raises(pa.ArrowKeyError, match="Did you mean 'quotes'") as caught:
        client.do_get(fl.Ticket(b"s/quotse")).read_all()
    assert type(from_flight(caught.value)) is UnknownTableError

"""Roles that show parts of tables: every call, at every port, has the part alone; the rest is not there."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import grpc
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.flight as fl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barrage_server as bs
from barrage_server.engine import AppendTable, RingTable, UpdateGraph
from barrage_server.errors import (
    ForbiddenError,
    InvalidRequestError,
    UnavailableError,
    UnknownColumnError,
    UnknownTableError,
)
from barrage_server.server import Principal, Role, Server
from barrage_server.server.access import AccessControl
from barrage_server.server.catalog import Catalog
from barrage_server.server.roles import log_unknown_columns
from barrage_server.wire.metadata import SnapshotRequest, SubscriptionRequest
from barrage_server.wire.tickets import scope_ticket
from tests.server.access_calls import (
    ACTION_LINES,
    DEEPHAVEN_LINES,
    FLIGHT_LINES,
    FREE,
    Caller,
    outcome,
    path,
)
from tests.server.conftest import DEEPHAVEN, address, endpoints
from tests.server.follower import QUICK, Follower
from tests.server.quotes import EU, ROLES, ROWS, SCHEMA, SEEN, holder
from tests.waiting import until


@pytest.fixture
def server(endpoint: str) -> Iterator[Server]:
    with Server(token=holder, roles=ROLES, **endpoints(endpoint)) as server:
        server.keyed_table("quotes", SCHEMA, key="sym").upsert(ROWS)
        yield server


Connect = Callable[[str], Caller]


@pytest.fixture
def connect(server: Server, endpoint: str) -> Iterator[Connect]:
    with ExitStack() as stack:

        def connected(token: str) -> Caller:
            place = address(server, endpoint)
            channel = stack.enter_context(grpc.insecure_channel(place.removeprefix("grpc://")))
            return Caller(stack.enter_context(fl.connect(place)), channel, token)

        yield connected


def got(caller: Caller, name: str = "quotes") -> list[dict[str, Any]]:
    table = caller.flight.do_get(fl.Ticket(scope_ticket(name)), caller.options).read_all()
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def headers(token: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", f"Bearer {token}".encode())]


def test_reads_have_the_part_alone(connect: Connect) -> None:
    """Rows, columns, their number, keys, and what is said of them."""
    for token, rows in {
        "eu": EU,
        "us": [{"sym": "b", "price": 2.0}, {"sym": "d", "price": 4.0}],
        "cheap": ROWS.slice(0, 2).to_pylist(),
        "names": ROWS.select(["sym"]).to_pylist(),
        "all": ROWS.to_pylist(),
    }.items():
        caller = connect(token)
        infos = [
            caller.flight.get_flight_info(path("quotes"), caller.options),
            *caller.flight.list_flights(b"", caller.options),
            *(fl.FlightInfo.deserialize(result) for result in caller.action("barrage.tables")),
        ]
        names = list(rows[0])
        for info in infos:
            assert (info.total_records, info.schema.names) == (len(rows), names)
        schema = caller.flight.get_schema(path("quotes"), caller.options).schema
        assert schema.names == names
        if token in ("eu", "us", "names"):
            assert "secret" not in str(schema.metadata) and "region" not in str(schema.metadata)
        assert got(caller) == rows
        with Follower(caller.flight, "quotes", headers=headers(token)) as follower:
            follower.wait(lambda follower: follower.rows)
            assert follower.content() == [list(row.values()) for row in rows]
            assert list(follower.rows) == list(range(len(rows)))


def test_a_snapshot_and_a_viewport_have_the_part_alone(connect: Connect) -> None:
    caller = connect("eu")
    for request in (
        SnapshotRequest(scope_ticket("quotes"), options=QUICK),
        SubscriptionRequest(scope_ticket("quotes"), viewport=bs.rowset.RowSet.flat(10), options=QUICK),
    ):
        writer, reader = caller.flight.do_exchange(fl.FlightDescriptor.for_command(b"dphn"), caller.options)
        with suppress(fl.FlightError, pa.ArrowException), writer:
            writer.write_metadata(request.encode())
            chunk = reader.read_chunk()
            assert chunk.data.to_pylist() == EU
            reader.cancel()


def test_live_rows_come_and_go_with_the_condition(server: Server, connect: Connect, caplog: Any) -> None:
    """What is hidden, and a change of it, makes no message; a row that comes into the condition is a new one."""
    quotes: Any = server.table("quotes")
    with Follower(connect("eu").flight, "quotes", headers=headers("eu")) as follower:
        follower.wait(lambda follower: follower.rows)
        quotes.upsert({"sym": ["b"], "region": ["US"], "price": [9.0], "secret": [0]})
        quotes.upsert({"sym": ["a"], "region": ["EU"], "price": [1.0], "secret": [1]})
        quotes.upsert({"sym": ["b"], "region": ["EU"], "price": [9.0], "secret": [0]})
        follower.wait(lambda follower: len(follower.rows) == 3)
        assert follower.content() == [["a", 1.0], ["c", 3.0], ["b", 9.0]]
        assert len(follower.messages) == 2
        quotes.upsert({"sym": ["a"], "region": ["US"], "price": [1.0], "secret": [1]})
        quotes.delete({"sym": ["c"]})
        follower.wait(lambda follower: len(follower.rows) == 1)
        assert follower.content() == [["b", 9.0]]
        assert list(follower.rows) == [2]  # the row keeps its key


@pytest.mark.parametrize("kind", ["append", "ring", "blink"])
def test_every_kind_of_table(kind: str, endpoint: str) -> None:
    role = {"r": Role(["t"], ["read"], where="x >= 10", columns=["x"])}
    with Server(token=holder, roles=role, **endpoints(endpoint)) as server:
        schema = pa.schema([("x", pa.int64()), ("y", pa.int64())])
        table: Any = server.create_table("t", schema, kind=kind, capacity=4 if kind == "ring" else None)
        if kind != "blink":
            table.append({"x": [1, 10], "y": [0, 0]})
        with fl.connect(address(server, endpoint)) as client, Follower(client, "t", headers=headers("r")) as follower:
            follower.wait(lambda follower: follower.messages)
            table.append({"x": [2, 11, 3, 12], "y": [0, 0, 0, 0]})
            expected = {"append": [[10], [11], [12]], "ring": [[11], [12]], "blink": [[11], [12]]}[kind]
            follower.wait(lambda follower: follower.content() == expected)
            assert isinstance(server.table("t"), RingTable) == (kind == "ring")


NOTHING_SEEN = ["broken", "mistyped", "absent", "failing", "broken+absent"]
READING = [
    pytest.param(name, line, id=f"{name}-{number}")
    for name, entries in (FLIGHT_LINES | ACTION_LINES | DEEPHAVEN_LINES).items()
    for number, line in enumerate(entries)
    if line is not FREE and line.needs is not None and "Input" not in name
]


@pytest.mark.parametrize("token", NOTHING_SEEN)
@pytest.mark.parametrize(("name", "line"), READING)
def test_a_table_of_which_nothing_can_be_shown_is_unknown(whole: Caller, name: str, line: Any, token: str) -> None:
    """For every call: a role that does not fit never opens a table; its holder is told what it is told of any name."""
    caller = Caller(whole.flight, whole.channel, token)
    kind, text = outcome(line.call, caller, "quotes")
    if kind is ForbiddenError:  # by the name alone
        assert line.needs and not set(line.needs) <= {"list", "read"}
        return
    absent = outcome(line.call, caller, "absent")
    assert absent[0] is kind is UnknownTableError
    assert text == absent[1].replace("absent", "quotes")


@pytest.fixture(scope="module")
def whole() -> Iterator[Caller]:
    with Server(token=holder, roles=ROLES, deephaven_port=0) as server:
        server.keyed_table("quotes", SCHEMA, key="sym").upsert(ROWS)
        place = address(server, DEEPHAVEN)
        with fl.connect(place) as flight, grpc.insecure_channel(place.removeprefix("grpc://")) as channel:
            yield Caller(flight, channel, "")


def test_the_operator_is_told_which_role_does_not_fit(caplog: pytest.LogCaptureFixture, endpoint: str) -> None:
    """Once, when it is noticed, and at each reload."""
    with caplog.at_level(logging.ERROR), Server(token=holder, roles=ROLES, **endpoints(endpoint)) as server:
        server.append_table("quotes", SCHEMA)
        with fl.connect(address(server, endpoint)) as client:
            caller: Any = Caller(client, None, "broken")  # type: ignore[arg-type]
            for _ in range(3):
                with pytest.raises((pa.ArrowException, OSError)):
                    got(caller)
        told = [record.getMessage() for record in caplog.records]
        assert told == [
            "role broken shows nothing of table quotes: The condition \"country == 'EU'\" names 'country', which is no "
            "column."
        ]
        server.reload(roles=ROLES)
        assert sum("role broken shows nothing" in record.getMessage() for record in caplog.records) == 2
        assert sum("role mistyped shows nothing" in record.getMessage() for record in caplog.records) == 1


def test_the_operator_is_told_of_columns_that_no_table_has(caplog: pytest.LogCaptureFixture) -> None:
    schema = pa.schema([("pair", "string"), ("price", "float64")])
    with caplog.at_level(logging.WARNING):
        log_unknown_columns({"desk": Role(["*"], ["read"], columns=["pair", "client"])}, {"fx": schema})
        log_unknown_columns({"desk": Role(["*"], ["read"], columns=["pair", "price"])}, {"fx": schema})
        log_unknown_columns({"none": Role(["x*"], ["read"], columns=["client"])}, {"fx": schema})
    assert [record.getMessage() for record in caplog.records] == [
        "role desk shows columns that none of its tables has: 'client'"
    ]


def test_listings_and_suggestions_leave_out_what_cannot_be_shown(connect: Connect) -> None:
    for token in ("broken", "absent", "mistyped", "failing"):
        caller = connect(token)
        _, text = outcome(FLIGHT_LINES["DoGet"][0].call, caller, "quote")
        assert "quotes" not in text
        assert b'"tables":0' in caller.action("barrage.health")[0].replace(b" ", b"")
        assert list(caller.flight.list_flights(b"", caller.options)) == []
        assert caller.action("barrage.tables") == []
        _, text = outcome(FLIGHT_LINES["DoGet"][0].call, caller, "quote")
        assert "quotes" not in text
        assert b'"tables":0' in caller.action("barrage.health")[0].replace(b" ", b"")
    caller = connect("cheap")  # a function that does not fail
    assert b'"tables":1' in caller.action("barrage.health")[0].replace(b" ", b"")
    assert "quotes" in outcome(FLIGHT_LINES["DoGet"][0].call, caller, "quote")[1]


def test_a_function_that_begins_to_fail_takes_the_name_along() -> None:
    catalog = Catalog(UpdateGraph())
    table = AppendTable(catalog.graph, "t", pa.schema([("x", pa.int64())]))
    catalog.add(table)

    def touchy(batch: pa.RecordBatch) -> pa.Array:
        assert None not in batch["x"].to_pylist()
        return pc.greater(batch["x"], 0)

    access = AccessControl(catalog, {"r": Role(["t"], ["list", "read"], where=touchy)})
    holder = Principal("p", ["r"])
    access.call_functions(holder)
    assert access.named(holder) == (table,)
    table.append({"x": [None]})
    assert access.named(holder) == ()
    access.call_functions(holder)
    assert access.named(holder) == ()


@pytest.mark.parametrize(
    ("token", "rows", "columns"),
    [
        ("eu+us", "abcd", SEEN),  # the same columns: rows of either
        ("eu+names", "abcd", ["sym"]),  # other rows and other columns: never all of both
        ("eu+cheap", "abc", SEEN),
        ("cheap+names", "abcd", ["sym"]),
        ("eu+all", "abcd", SCHEMA.names),
        ("eu+lister", "ac", SEEN),  # what one may read decides
        ("eu+feed", "ac", SEEN),
        ("eu+broken", "ac", SEEN),
        ("eu+no such role", "ac", SEEN),
    ],
)
def test_roles_together_show_nothing_that_none_of_them_shows(
    connect: Connect, token: str, rows: str, columns: list[str]
) -> None:
    expected = [row for row in ROWS.select(columns).to_pylist() if row["sym"] in rows]
    caller = connect(token)
    assert got(caller) == expected
    assert caller.flight.get_flight_info(path("quotes"), caller.options).total_records == len(expected)


def test_a_hidden_column_is_like_one_that_does_not_exist(server: Server) -> None:
    with bs.connect(server.uri, token="eu") as client:
        texts = []
        for column in ("secret", "absent"):
            with pytest.raises(UnknownColumnError) as caught:
                client.snapshot("quotes", columns=[column])
            texts.append(str(caught.value).replace(column, "it"))
        assert texts[0] == texts[1] and "region" not in texts[0]


def test_figures_are_not_for_roles_that_show_a_part(server: Server, connect: Connect) -> None:
    kind, _ = outcome(ACTION_LINES["barrage.statistics"][0].call, connect("eu"), "quotes")
    assert kind is ForbiddenError
    with Follower(connect("eu").flight, "quotes", headers=headers("eu")) as follower:
        follower.wait(lambda follower: follower.rows)
        (figures,) = connect("lister").action("barrage.statistics")
        (table,) = json.loads(figures)["tables"]
        assert (table["rows"], table["subscribers"]) == (4, 1)


def test_a_publisher_with_a_part_writes_to_the_table(server: Server, connect: Connect) -> None:
    """By another role, which has the right."""
    caller = connect("eu+feed")
    writer, reader = caller.flight.do_put(path("quotes"), SCHEMA, caller.options)
    with writer:
        writer.write_table(pa.table({"sym": ["e"], "region": ["EU"], "price": [5.0], "secret": [0]}, SCHEMA))
        writer.done_writing()
        reader.read()
    assert server.table("quotes").size == 5
    assert got(caller) == [*EU, {"sym": "e", "price": 5.0}]


def forget(server: Server) -> None:
    """Let the time pass for which parts are kept."""
    server._server_state.access.tidy(time.monotonic())
    server._server_state.access.tidy(time.monotonic() + 1000)


def forgotten(server: Server, source: bs.Table) -> bool:
    """Let the time pass for which parts are kept; whether there are none of ``source`` then."""
    forget(server)
    return not len(source.children)


def test_readers_share_one_part_and_the_last_one_takes_it_along(server: Server, connect: Connect) -> None:
    source = server.table("quotes")
    with ExitStack() as stack:
        for token in ("eu", "eu", "eu+broken", "us"):
            follower = stack.enter_context(Follower(connect(token).flight, "quotes", headers=headers(token)))
            follower.wait(lambda follower: follower.rows)
        assert len(source.children) == 2
        forget(server)
        assert len(source.children) == 2, "they have readers"
    until(lambda: forgotten(server, source))


def test_a_part_that_is_not_asked_for_is_let_go(server: Server, connect: Connect) -> None:
    source, caller = server.table("quotes"), connect("eu")
    got(caller)
    server._server_state.access.tidy(time.monotonic())
    assert len(source.children) == 1, "it is kept for a while: making it reads the table"
    until(lambda: forgotten(server, source))
    assert got(caller) == EU


def test_a_dropped_table_ends_its_readers(server: Server, connect: Connect) -> None:
    with Follower(connect("eu").flight, "quotes", headers=headers("eu")) as follower:
        follower.wait(lambda follower: follower.rows)
        server.drop("quotes")
        assert type(follower.wait_ended()) is UnknownTableError


def test_a_condition_that_fails_later_ends_its_readers_alone(endpoint: str) -> None:
    def touchy(batch: pa.RecordBatch) -> pa.Array:
        assert 7 not in batch["x"].to_pylist()
        return pc.greater(batch["x"], 0)

    roles = {"touchy": Role(["t"], ["read"], where=touchy), "all": Role(["t"], ["read"])}
    with (
        Server(token=holder, roles=roles, **endpoints(endpoint)) as server,
        fl.connect(address(server, endpoint)) as client,
    ):
        table = server.append_table("t", {"x": "int64"})
        table.append({"x": [1]})
        with (
            Follower(client, "t", headers=headers("touchy")) as touched,
            Follower(client, "t", headers=headers("all")) as other,
        ):
            touched.wait(lambda follower: follower.rows)
            table.append({"x": [7]})
            assert "cannot be shown any more" in str(touched.wait_ended())
            table.append({"x": [8]})
            other.wait(lambda follower: len(follower.rows) == 3)
            assert table.failure is None


def test_streams_end_when_another_part_is_shown(endpoint: str) -> None:
    """And go on when the role says the same in other words of the settings file, or other roles change."""
    before = {
        "r": Role(["t"], ["read"], where="x > 0"),
        "s": Role(["t"], ["read"]),
        "u": Role(["t"], ["read"], "x > 5"),
    }
    after = {"r": Role(["t"], ["read"], where="x > 1"), "s": Role(["t"], ["read"], columns=["x"])}
    after["u"] = Role(["t", "other"], ["read", "list"], where="x > 5")
    with (
        Server(token=holder, roles=before, **endpoints(endpoint)) as server,
        fl.connect(address(server, endpoint)) as client,
    ):
        table = server.append_table("t", {"x": "int64", "y": "int64"})
        table.append({"x": [1, 9], "y": [1, 9]})
        following = {token: Follower(client, "t", headers=headers(token)) for token in before}
        for follower in following.values():
            follower.wait(lambda follower: follower.rows)
        server.reload(roles=after)
        for token in "rs":
            error = following[token].wait_ended()
            assert type(error) is UnavailableError and "has changed" in str(error)
        table.append({"x": [10], "y": [1]})
        following["u"].wait(lambda follower: len(follower.rows) == 2)
        for follower in following.values():
            follower.close()


def test_a_client_that_reconnects_has_the_other_part() -> None:
    with Server(token=holder, roles={"r": Role(["t"], ["read"], where="x > 0")}) as server:
        server.append_table("t", {"x": "int64"}).append({"x": [1, 2, 3]})
        with bs.connect(server.uri, token="r") as client, client.subscribe("t") as live:
            until(lambda: live.to_arrow().num_rows == 3)
            server.reload(roles={"r": Role(["t"], ["read"], where="x > 2")})
            until(lambda: live.to_arrow()["x"].to_pylist() == [3])


@pytest.mark.parametrize("kind", ["keyed", "ring"])
def test_hidden_rows_do_not_count_for_the_size_of_a_result(kind: str) -> None:
    """A caller is told the size of what it may see, and refused or not for that alone."""
    part = Role(["t"], ["list", "read"], where="hidden == 0", columns=["k"])
    schema = {"k": "int64", "hidden": "int64"}
    told = []
    for hidden in (0, 50_000):
        with Server(
            token="t", roles={"part": part}, default_roles=["part"], limits=bs.Limits(result_bytes=2_000)
        ) as server:
            shown = {"k": range(1000), "hidden": [0] * 1000}
            others = {"k": range(1000, 1000 + hidden), "hidden": [1] * hidden}
            if kind == "keyed":
                keyed = server.keyed_table("t", schema, key="k")
                keyed.upsert(shown)
                keyed.upsert(others)
            else:
                ring = server.ring_table("t", schema, capacity=60_000)
                ring.append(shown)
                ring.append(others)
            with bs.connect(server.uri, token="t") as client:
                for plan in (client.table("t").snapshot(), client.table("t").where("k >= 0").snapshot()):
                    with pytest.raises(bs.LimitError, match="result_bytes") as refused:
                        plan.size  # noqa: B018  (makes the table)
                    told.append(str(refused.value))
    assert told[:2] == told[2:]


def test_a_relay_has_the_part_alone() -> None:
    """And so have its readers."""
    with Server(token=holder, roles=ROLES) as server, bs.Server() as relay:
        quotes = server.keyed_table("quotes", SCHEMA, key="sym")
        quotes.upsert(ROWS)
        relay.follow(f"{server.uri}/quotes", token="eu")
        until(lambda: relay.tables() and relay.table("quotes").size == 2)
        quotes.upsert({"sym": ["e", "f"], "region": ["EU", "US"], "price": [5.0, 6.0], "secret": [0, 0]})
        until(lambda: relay.table("quotes").to_arrow().to_pylist() == [*EU, {"sym": "e", "price": 5.0}])


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"where": "x > 0", "rights": ["list", "publish"]}, "and not publish"),
        ({"columns": ["x"], "rights": ["statistics", "drop", "create"]}, "and not create, drop, statistics"),
        ({"where": "x >"}, "is no condition"),
        ({"where": 5}, "where must be a condition or a function"),
        ({"columns": "x"}, r"columns of a role is a list of names: write \['x'\]"),
        ({"columns": []}, "at least one name"),
    ],
)
def test_a_wrong_role_is_refused(keywords: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words):
        Role(["t"], **({"rights": ["read"]} | keywords))


CONDITIONS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "": lambda row: True,
    "x > 2": lambda row: row["x"] is not None and row["x"] > 2,
    "y == 'a'": lambda row: row["y"] == "a",
    "y in ('a', 'b') or x is None": lambda row: row["y"] in ("a", "b") or row["x"] is None,
    "not x < 2": lambda row: row["x"] is not None and not row["x"] < 2,
}


def in_any_order(part: Any) -> list[dict[str, Any]]:
    return sorted(part.to_arrow().to_pylist(), key=repr)


@given(
    batches=st.lists(
        st.lists(
            st.tuples(
                st.integers(0, 9), st.none() | st.integers(0, 4), st.none() | st.sampled_from("abc"), st.booleans()
            ),
            max_size=6,
        ),
        max_size=6,
    ),
    roles=st.lists(
        st.tuples(
            st.none() | st.sampled_from(sorted(filter(None, CONDITIONS))),
            st.none() | st.sets(st.sampled_from(["k", "x", "y", "z"]), min_size=1),
        ),
        min_size=1,
        max_size=3,
    ),
)
@settings(deadline=None, max_examples=60)
def test_no_value_is_shown_that_no_role_shows(batches: list[Any], roles: list[Any]) -> None:
    """Whatever the roles and the changes: each shows what plain Python finds; together they show the rows that any of
    them shows, and every value is one that a role shows.
    """
    schema = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("y", pa.string()), ("z", pa.bool_())])
    graph = bs.UpdateGraph()
    catalog = Catalog(graph)
    table = bs.KeyedTable(graph, "t", schema, ["k"])
    catalog.add(table)
    made = {
        str(number): Role(["t"], ["read"], where, None if columns is None else sorted(columns))
        for number, (where, columns) in enumerate(roles)
    }
    shown = [
        (CONDITIONS["" if where is None else where], set(schema.names if columns is None else columns))
        for where, columns in roles
    ]
    access = AccessControl(catalog, made)
    parts = {name: access.part(Principal(name, [name]), table) for name in made}
    together = access.part(Principal("p", list(made)), table)
    for batch in batches:
        rows = {row[0]: row for row in batch}.values()
        table.upsert(pa.table([list(column) for column in zip(*rows, strict=True)] or [[]] * 4, schema=schema))
        whole = table.to_arrow().to_pylist()
        for part, (holds, columns) in zip(parts.values(), shown, strict=True):
            assert part is not None
            assert in_any_order(part) == sorted(
                [{name: row[name] for name in schema.names if name in columns} for row in whole if holds(row)], key=repr
            )
        if together is None:  # no column that all of them show
            assert not set.intersection(*(columns for _, columns in shown))
            continue
        names = together.schema.names
        seen = [row for row in whole if any(holds(row) for holds, _ in shown)]
        assert in_any_order(together) == sorted([{name: row[name] for name in names} for row in seen], key=repr)
        for row in seen:
            for name in names:
                assert any(holds(row) and name in columns for holds, columns in shown)

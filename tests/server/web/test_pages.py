"""Pages over real websockets: what they show is what the tables hold, and what they may not do harms no other page."""

from __future__ import annotations

import json
import random
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

import barrage_server as bs
from barrage_server.server.dispatcher import Dispatcher, ScheduledTask
from barrage_server.wire.page_messages import UNKNOWN_AGE
from tests.server.web.page_client import View, greeted, page
from tests.waiting import until

SCHEMA = {"k": "int64", "text": "string", "x": "float64"}


@pytest.fixture
def server() -> Any:
    with bs.Server(web_port=0) as made:
        yield made


def shown(table: bs.Table, first: int, count: int, *, reverse: bool = False) -> list[tuple[Any, ...]]:
    """What a window must show."""
    rows = [tuple(row.values()) for row in table.to_arrow().to_pylist()]
    if reverse:
        stop = max(0, len(rows) - first)
        return rows[max(0, stop - count) : stop]
    return rows[first : first + count]


def rows_of(numbers: range) -> dict[str, list[Any]]:
    return {"k": list(numbers), "text": [f"t{n}" for n in numbers], "x": [n / 2 for n in numbers]}


class TestFollowing:
    def test_a_window_shows_the_rows_of_the_table(self, server: bs.Server) -> None:
        table = server.append_table("t", SCHEMA)
        table.append(rows_of(range(100)))
        with greeted(server) as client:
            view = client.open(1, "t", first=90, count=20)
            client.settle(view, lambda it: it.updates)
            assert view.rows() == shown(table, 90, 20)
            assert (view.size, view.first) == (100, 90)
            assert [column["form"] for column in view.opened["columns"]] == ["int", "text", "float"]
            assert view.opened["kind"] == "append"
            assert not any("key" in column for column in view.opened["columns"])

    def test_key_columns_are_named_also_of_rows_that_are_picked(self, server: bs.Server) -> None:
        server.keyed_table("t", SCHEMA, key=["k", "text"]).upsert(rows_of(range(3)))
        with greeted(server) as client:
            queries: list[dict[str, Any]] = [{}, {"where": ["k > 0"]}, {"sort": [{"column": "x", "descending": True}]}]
            for number, query in enumerate(queries):
                view = client.open(number + 1, "t", **query)
                client.settle(view, lambda it: it.updates)
                assert [column.get("key") for column in view.opened["columns"]] == [True, True, None]

    @pytest.mark.parametrize("seed", range(6))
    def test_after_any_changes_and_moves_it_still_does(self, server: bs.Server, seed: int) -> None:
        draw = random.Random(seed)
        table = server.keyed_table("t", SCHEMA, key="k")
        table.upsert(rows_of(range(30)))
        with greeted(server) as client:
            window: dict[str, Any] = {"first": 0, "count": 10, "reverse": False}
            columns: list[int] | None = None
            view = client.open(1, "t", interval=1, **window)
            for round_number in range(25):
                match draw.randrange(3):
                    case 0:
                        numbers = range(draw.randrange(60), 60)
                        table.upsert({name: cells[:5] for name, cells in rows_of(numbers).items()})
                        table.upsert({"k": [0], "text": [f"r{round_number}"], "x": [None]})
                    case 1:
                        table.delete({"k": [draw.randrange(60)]})
                    case _:
                        window = {
                            "first": draw.randrange(40),
                            "count": draw.randrange(25),
                            "reverse": draw.random() < 0.4,
                        }
                        columns = draw.choice([None, [0, 2], [1], [0, 1, 2]])
                        client.send(type="move", stream=1, columns=columns, **window)
                expected = [
                    row if columns is None else tuple(row[number] for number in columns)
                    for row in shown(table, window["first"], window["count"], reverse=window["reverse"])
                ]

                def agrees(it: View, expected: Any = expected, columns: Any = columns, window: Any = window) -> bool:
                    same_columns = sorted(it.cells) == (columns or [0, 1, 2])
                    same_side = it.reverse == window["reverse"] and (it.first == window["first"] or not window["count"])
                    return same_columns and same_side and it.size == table.size and it.rows() == expected

                client.settle(view, agrees)
                assert view.ended is None

    def test_every_kind_of_table_can_be_looked_at(self, server: bs.Server) -> None:
        made: dict[str, Any] = {
            "append": server.append_table("append", SCHEMA),
            "ring": server.ring_table("ring", SCHEMA, capacity=5),
            "blink": server.blink_table("blink", SCHEMA),
            "replaced": server.replaced_table("replaced", SCHEMA),
            "keyed": server.keyed_table("keyed", SCHEMA, key="k"),
        }
        with greeted(server) as client:
            for number, (kind, table) in enumerate(made.items(), 1):
                view = client.open(number, kind, interval=1)
                client.settle(view, lambda it: it.updates)
                for batch in (range(4), range(4, 8)):
                    write = {"replaced": "replace", "keyed": "upsert"}.get(kind, "append")
                    getattr(table, write)(rows_of(batch))
                    client.settle(view, lambda it, table=table: it.rows() == shown(table, 0, 10))
                assert view.opened["kind"] == kind

    def test_an_update_says_how_old_it_is_and_a_snapshot_does_not(self, server: bs.Server) -> None:
        table = server.append_table("t", SCHEMA)
        with greeted(server) as client:
            view = client.open(1, "t", interval=1)
            client.settle(view, lambda it: it.updates)
            table.append(rows_of(range(3)))
            client.settle(view, lambda it: it.size == 3)
            assert view.ages[0] == UNKNOWN_AGE
            assert 0 <= view.ages[-1] < 60_000

    def test_a_snapshot_is_read_once(self, server: bs.Server) -> None:
        table = server.append_table("t", SCHEMA)
        table.append(rows_of(range(50_000)))
        with greeted(server) as client:
            view = client.open(1, "t", first=10, count=9_000, kind="snapshot")
            client.settle(view, lambda it: it.ended)
            assert view.rows() == shown(table, 10, 9_000)
            assert view.ended == {"type": "ended", "stream": 1}
        until(lambda: not server.statistics().streams)

    def test_two_pages_with_one_view_get_the_same(self, server: bs.Server) -> None:
        table = server.append_table("t", SCHEMA)
        with greeted(server) as one, greeted(server) as other:
            views = [client.open(1, "t", interval=20) for client in (one, other)]
            for client, view in zip((one, other), views, strict=True):
                client.settle(view, lambda it: it.updates)
            for _ in range(5):
                table.append(rows_of(range(1)))
            for client, view in zip((one, other), views, strict=True):
                client.settle(view, lambda it: it.rows() == shown(table, 0, 10))


class TestCredit:
    def test_two_updates_are_unacknowledged_at_most(self, server: bs.Server) -> None:
        table = server.append_table("t", SCHEMA)
        with greeted(server) as client:
            client.acknowledges = False
            view = client.open(1, "t", count=100, interval=1)
            for number in range(40):
                table.append(rows_of(range(number, number + 1)))
                client.send(type="ping", n=number)
                client.until("pong")
            assert view.updates <= 2
            client.acknowledges = True
            client.send(type="ack", stream=1, updates=view.updates)
            client.settle(view, lambda it: it.size == 40)
            assert view.rows() == shown(table, 0, 100)
            assert view.updates <= 4

    def test_an_acknowledgement_wakes_no_thread_unless_an_update_waits_for_it(
        self, server: bs.Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        woken: list[object] = []
        wake = Dispatcher.wake

        def noted(dispatcher: Dispatcher, scheduled: ScheduledTask) -> None:
            woken.append(scheduled)
            wake(dispatcher, scheduled)

        table = server.append_table("t", SCHEMA)
        with greeted(server) as client:
            view = client.open(1, "t", count=100, interval=1)
            client.settle(view, lambda it: it.updates)
            client.send(type="ping", n=0)  # the snapshot is written and acknowledged by then
            client.until("pong")
            monkeypatch.setattr(Dispatcher, "wake", noted)
            for number in range(1, 21):
                table.append(rows_of(range(number - 1, number)))
                client.settle(view, lambda it, size=number: it.size == size)
                client.send(type="ping", n=number)  # and so is the update
                client.until("pong")
            assert woken == []
            client.acknowledges = False
            for size in (21, 22):
                table.append(rows_of(range(size - 1, size)))
                client.settle(view, lambda it, size=size: it.size == size)
            table.append(rows_of(range(22, 23)))
            client.until("beat")
            assert view.size == 22
            client.send(type="ack", stream=1, updates=2)
            client.settle(view, lambda it: it.size == 23)
            assert view.rows() == shown(table, 0, 100)

    def test_a_paused_stream_gets_one_update_when_it_goes_on(self, server: bs.Server) -> None:
        table = server.append_table("t", SCHEMA)
        with greeted(server) as client:
            view = client.open(1, "t", count=100, interval=1)
            client.settle(view, lambda it: it.updates)
            client.send(type="pause", stream=1)
            client.send(type="ping", n=1)
            client.until("pong")
            before = view.updates
            for number in range(20):
                table.append(rows_of(range(number, number + 1)))
            client.until("beat")
            assert view.updates == before
            client.send(type="resume", stream=1)
            client.settle(view, lambda it: it.size == 20)
            assert view.updates == before + 1


class TestCells:
    def test_long_text_is_cut_and_comes_whole_when_asked_for(self, server: bs.Server) -> None:
        table = server.append_table("t", {"a": "string"})
        table.append({"a": ["x" * 100_000, "short", None]})
        with greeted(server) as client:
            view = client.open(1, "t")
            client.settle(view, lambda it: it.updates)
            assert view.rows() == [("x" * 512 + "100000",), ("short",), (None,)]
            for row, text in enumerate(["x" * 100_000, "short", None]):
                client.send(type="cell", request=row, stream=1, row=row, column=0)
                assert client.until("cell") == {"type": "cell", "request": row, "text": text}

    @pytest.mark.parametrize(("row", "column"), [(3, 0), (0, 1), (1 << 52, 0)])
    def test_a_cell_that_is_not_there_is_said(self, server: bs.Server, row: int, column: int) -> None:
        server.append_table("t", {"a": "string"}).append({"a": ["x"]})
        with greeted(server) as client:
            client.settle(client.open(1, "t"), lambda it: it.updates)
            client.send(type="cell", request=9, stream=1, row=row, column=column)
            answer = client.until("failed")
            assert (answer["request"], answer["error"]) == (9, "InvalidRequestError")


class TestEnds:
    def test_a_dropped_table_is_said(self, server: bs.Server) -> None:
        server.append_table("t", SCHEMA)
        with greeted(server) as client:
            view = client.open(1, "t")
            client.settle(view, lambda it: it.updates)
            server.drop("t")
            client.settle(view, lambda it: it.ended)
            assert view.ended is not None
            assert view.ended["error"] == "UnknownTableError"

    def test_an_unknown_table_ends_its_stream_only(self, server: bs.Server) -> None:
        server.append_table("t", SCHEMA)
        with greeted(server) as client:
            missing = client.open(1, "missing")
            client.settle(missing, lambda it: it.ended)
            assert missing.ended is not None
            assert missing.ended["error"] == "UnknownTableError"
            there = client.open(2, "t")
            client.settle(there, lambda it: it.updates)
            assert there.ended is None

    def test_a_closed_stream_leaves_nothing(self, server: bs.Server) -> None:
        server.append_table("t", SCHEMA)
        with greeted(server) as client:
            for number in range(1, 40):
                view = client.open(number, "t")
                client.settle(view, lambda it: it.updates)
                client.send(type="close", stream=number)
                client.settle(view, lambda it: it.ended)
            assert not server.statistics().subscriptions

    def test_a_page_that_goes_leaves_nothing(self, server: bs.Server) -> None:
        server.append_table("t", SCHEMA)
        for _ in range(5):
            with greeted(server) as client:
                client.settle(client.open(1, "t"), lambda it: it.updates)
        until(lambda: not server.statistics().streams)

    def test_a_server_that_closes_says_so(self, server: bs.Server) -> None:
        server.append_table("t", SCHEMA)
        with greeted(server) as client:
            view = client.open(1, "t")
            client.settle(view, lambda it: it.updates)
            server.close(grace=1.0)
            with pytest.raises(ConnectionClosed):
                client.settle(view, lambda _: False)
                client.until("never")
            assert view.ended is not None
            assert view.ended["error"] == "UnavailableError"


class TestLimits:
    @pytest.mark.parametrize(
        ("fields", "limit"),
        [
            ({"count": 1 << 40}, "page_rows"),
            ({"count": 10_000, "columns": list(range(3)) * 1}, None),
            ({"count": 1, "columns": [0] * 600}, "page_columns"),
        ],
    )
    def test_what_is_too_much_names_its_limit(
        self, server: bs.Server, fields: dict[str, Any], limit: str | None
    ) -> None:
        server.append_table("t", SCHEMA).append(rows_of(range(3)))
        with greeted(server) as client:
            view = client.open(1, "t", **fields)
            client.settle(view, lambda it: it.updates)
            if limit is None:
                assert view.ended is None
            else:
                assert view.ended is not None
                assert (view.ended["error"], limit in view.ended["text"]) == ("LimitError", True)

    def test_cells_of_all_streams_are_bounded_together(self) -> None:
        limits = bs.Limits(page_cells=100, page_streams=3)
        with bs.Server(web_port=0, limits=limits) as server:
            server.append_table("t", SCHEMA)
            with greeted(server) as client:
                views = [client.open(number, "t", count=16) for number in (1, 2)]
                for view in views:
                    client.settle(view, lambda it: it.updates)
                client.settle(third := client.open(3, "t", count=5), lambda it: it.updates)
                assert third.ended is not None
                assert "page_cells" in third.ended["text"]
                for number in (4, 5):
                    client.settle(view := client.open(number, "t", count=0), lambda it: it.updates)
                assert view.ended is not None
                assert "page_streams" in view.ended["text"]
                client.send(type="move", stream=1, first=0, count=30)
                client.settle(views[0], lambda it: it.ended)
                assert views[0].ended is not None
                assert "page_cells" in views[0].ended["text"]

    def test_a_window_beyond_the_table_is_empty(self, server: bs.Server) -> None:
        server.append_table("t", SCHEMA).append(rows_of(range(3)))
        with greeted(server) as client:
            for number, first in enumerate([3, 1 << 40, (1 << 53) - 1], 1):
                view = client.open(number, "t", first=first)
                client.settle(view, lambda it: it.updates)
                assert (view.rows(), view.size, view.ended) == ([], 3, None)

    def test_columns_that_are_not_there_end_the_stream(self, server: bs.Server) -> None:
        server.append_table("t", SCHEMA)
        with greeted(server) as client:
            for number, columns in enumerate([[3], [-1], [1 << 60]], 1):
                view = client.open(number, "t", columns=columns)
                client.settle(view, lambda it: it.ended)
                assert view.ended is not None
                assert view.ended["error"] in ("UnknownColumnError", "InvalidRequestError")


class TestNonsense:
    @pytest.mark.parametrize(
        "frame",
        [
            "no json",
            "[]",
            '{"type":"nothing"}',
            '{"type":"hello","version":1}',
            '{"type":"ack","stream":7,"updates":1}',
            '{"type":"open","stream":1,"table":"t","first":0,"count":-1}',
            '{"type":"open","stream":0,"table":"t","first":0,"count":1}',
            '{"type":"move","stream":1,"first":0,"count":1e30}',
            b"binary",
            "x" * 65_536,
            "😀" * 20_000,
        ],
    )
    def test_nonsense_ends_that_websocket_and_no_other(self, server: bs.Server, frame: str | bytes) -> None:
        table = server.append_table("t", SCHEMA)
        with greeted(server) as other, greeted(server) as client:
            view = other.open(1, "t", interval=1)
            client.socket.send(frame)
            with pytest.raises(ConnectionClosed):
                client.until("never")
            table.append(rows_of(range(2)))
            other.settle(view, lambda it: it.rows() == shown(table, 0, 10))

    def test_nothing_comes_before_hello(self, server: bs.Server) -> None:
        server.append_table("t", SCHEMA)
        with page(server) as client:
            client.open(1, "t")
            assert client.until("refused")["error"] == "WireFormatError"

    def test_another_version_is_told_to_reload(self, server: bs.Server) -> None:
        with page(server) as client:
            client.send(type="hello", version=99)
            assert "Reload" in client.until("refused")["text"]

    def test_a_stream_number_is_used_once(self, server: bs.Server) -> None:
        server.append_table("t", SCHEMA)
        with greeted(server) as client:
            client.settle(client.open(5, "t"), lambda it: it.updates)
            client.open(5, "t")
            assert client.until("refused")["error"] == "WireFormatError"

    def test_random_frames_end_in_words_or_nothing(self, server: bs.Server) -> None:
        draw = random.Random(7)
        server.append_table("t", SCHEMA).append(rows_of(range(5)))
        known = ["open", "move", "ack", "pause", "resume", "close", "cell", "ping", "hello"]
        values: list[Any] = [0, 1, 2, -1, 1 << 60, "t", "", None, True, [], [0], {}, 0.5, "snapshot"]
        fields = ["stream", "table", "first", "count", "columns", "reverse", "updates", "row", "column", "n", "request"]
        for _ in range(60):
            with greeted(server) as client:
                for _ in range(20):
                    message = {name: draw.choice(values) for name in draw.sample(fields, draw.randrange(6))}
                    try:
                        client.socket.send(json.dumps({"type": draw.choice(known), **message}))
                    except ConnectionClosed:
                        break
        until(lambda: not server.statistics().streams)
        with greeted(server) as client:
            client.settle(client.open(1, "t"), lambda it: it.updates)


class TestWhoMay:
    def test_a_wrong_token_is_refused_and_a_right_one_is_not(self, caplog: pytest.LogCaptureFixture) -> None:
        with bs.Server(web_port=0, token="right") as server:
            for fields in ({}, {"token": "wrong"}):
                with page(server) as client:
                    assert client.greet(**fields)["error"] == "AuthenticationError"
            assert "was not let in" in caplog.text
            assert "wrong" not in caplog.text
            with greeted(server, token="right") as client:
                client.until("tables")

    def test_guessing_is_slowed_down(self) -> None:
        with bs.Server(web_port=0, token="right", limits=bs.Limits(failed_log_ins=3)) as server:
            errors = []
            for number in range(6):
                with page(server) as client:
                    errors.append(client.greet(token=f"guess {number}")["error"])
            assert errors[-1] == "LimitError"

    def test_a_page_whose_token_is_revoked_is_cut_off(self) -> None:
        with bs.Server(web_port=0, token="old") as server:
            server.append_table("t", SCHEMA)
            with greeted(server, token="old") as client:
                client.settle(client.open(1, "t"), lambda it: it.updates)
                server.reload(token="new")
                assert client.until("refused")["error"] == "AuthenticationError"

    def test_a_role_sees_its_part_and_hears_of_nothing_else(self) -> None:
        roles = {"desk": bs.Role(["t"], ["list", "read"], where="k >= 2", columns=["k", "text"])}
        with bs.Server(web_port=0, token="right", roles=roles, default_roles=["desk"]) as server:
            server.append_table("t", SCHEMA).append(rows_of(range(5)))
            server.append_table("secret", SCHEMA)
            with greeted(server, token="right") as client:
                client.until("tables")
                assert client.tables == {"t": client.tables["t"]}
                assert "rows" not in client.tables["t"]
                assert [name for name, _ in client.tables["t"]["columns"]] == ["k", "text"]
                view = client.open(1, "t")
                client.settle(view, lambda it: it.updates)
                assert view.rows() == [(2, "t2"), (3, "t3"), (4, "t4")]
                client.send(type="cell", request=1, stream=1, row=0, column=2)
                assert client.until("failed")["error"] == "InvalidRequestError"
                client.settle(hidden := client.open(2, "secret"), lambda it: it.ended)
                assert hidden.ended is not None
                assert hidden.ended["error"] == "UnknownTableError"

    @pytest.mark.parametrize("right", list(bs.Right))
    def test_opening_takes_the_right_to_read_and_listing_that_to_list(self, right: bs.Right) -> None:
        roles = {"one": bs.Role(["t"], [right])}
        with bs.Server(web_port=0, token="x", roles=roles, default_roles=["one"]) as server:
            server.append_table("t", SCHEMA)
            with greeted(server, token="x") as client:
                client.until("tables")
                assert ("t" in client.tables) == (right is bs.Right.LIST)
                queries: list[dict[str, Any]] = [{}, {"sort": [{"column": "k"}]}]
                for number, query in enumerate(queries, 1):
                    view = client.open(number, "t", **query)
                    client.settle(view, lambda it: it.updates)
                    if right is bs.Right.READ:
                        assert view.ended is None
                    else:
                        assert view.ended is not None
                        assert view.ended["error"] == "ForbiddenError"

    def test_a_role_that_is_taken_away_ends_what_it_allowed(self) -> None:
        reader, other = bs.Role(["t"], ["list", "read"]), bs.Role(["other"], ["list", "read"])
        with bs.Server(web_port=0, token="x", roles={"r": reader}, default_roles=["r"]) as server:
            server.append_table("t", SCHEMA)
            with greeted(server, token="x") as client:
                views = [client.open(1, "t"), client.open(2, "t", sort=[{"column": "k"}])]
                for view in views:
                    client.settle(view, lambda it: it.updates)
                server.reload(roles={"r": other})
                for view in views:
                    client.settle(view, lambda it: it.ended)
                    assert view.ended is not None
                    assert view.ended["error"] == "UnknownTableError"
                while client.tables:
                    client.receive()

    @pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1"])
    def test_pages_of_other_origins_are_refused(self, server: bs.Server, origin: str) -> None:
        with pytest.raises(InvalidStatus), page(server, origin=origin):
            pass

    def test_the_own_page_is_let_in(self, server: bs.Server) -> None:
        with page(server, origin=server.web_uri) as client:
            assert client.greet()["type"] == "welcome"

    def test_the_websocket_has_one_path(self, server: bs.Server) -> None:
        with pytest.raises(InvalidStatus), page(server, path="/other"):
            pass


class TestTables:
    def test_tables_come_change_and_go(self, server: bs.Server) -> None:
        table = server.append_table("t", SCHEMA)
        with greeted(server) as client:
            client.until("tables")
            assert client.tables["t"] == {
                "name": "t",
                "kind": "append",
                "rows": 0,
                "rate": 0.0,
                "columns": [["k", "int64"], ["text", "string"], ["x", "double"]],
            }
            table.append(rows_of(range(7)))
            server.keyed_table("new", SCHEMA, key="k")
            while client.tables.get("t", {}).get("rows") != 7 or "new" not in client.tables:
                client.receive()
            assert client.tables["t"]["rate"] > 0
            server.drop("t")
            while "t" in client.tables:
                client.receive()

    def test_a_table_made_anew_under_its_name_is_another_one(self, server: bs.Server) -> None:
        """A page opens its view of a dropped table again, also if the list never was without that name."""
        server.append_table("t", SCHEMA)
        with greeted(server) as client:
            client.until("tables")
            server.drop("t")
            server.append_table("t", SCHEMA)
            news = client.until("tables")
            assert news["dropped"] == ["t"]
            assert [table["name"] for table in news["tables"] if "columns" in table] == ["t"]

    def test_there_is_a_beat_each_second(self, server: bs.Server) -> None:
        with greeted(server) as client:
            for _ in range(3):
                client.until("beat")

    def test_a_wide_table_names_its_first_columns(self, server: bs.Server) -> None:
        server.append_table("wide", pa.schema([(f"c{n}", pa.int8()) for n in range(10_000)]))
        with greeted(server) as client:
            client.until("tables")
            assert (len(client.tables["wide"]["columns"]), client.tables["wide"]["width"]) == (100, 10_000)


class TestWideTables:
    def test_only_columns_in_view_travel(self, server: bs.Server) -> None:
        schema = pa.schema([(f"c{n}", pa.int64()) for n in range(10_000)])
        table = server.append_table("wide", schema)
        table.append({name: [number, -number] for number, name in enumerate(schema.names)})
        with greeted(server) as client:
            view = client.open(1, "wide", columns=[9_999, 7], interval=1)
            client.settle(view, lambda it: it.updates)
            assert (view.columns, view.rows()) == ([7, 9_999], [(7, 9_999), (-7, -9_999)])
            assert view.schema is not None
            assert len(view.schema) == 2
            table.append({name: [5] for name in schema.names})
            client.settle(view, lambda it: len(it.rows()) == 3)
            draw = random.Random(3)
            for _ in range(30):
                columns = sorted(draw.sample(range(10_000), draw.randrange(1, 4)))
                client.send(type="move", stream=1, first=1, count=2, columns=columns)
                if draw.random() < 0.5:
                    client.settle(view, lambda it, columns=columns: it.columns == columns and it.rows())
            expected = [tuple(-number for number in columns), tuple(5 for _ in columns)]
            client.settle(view, lambda it: it.columns == columns and it.rows() == expected)
            assert (view.ended, view.first) == (None, 1)
            client.send(type="pause", stream=1)
            client.send(type="move", stream=1, first=0, count=1, columns=[1])
            client.send(type="resume", stream=1)
            client.settle(view, lambda it: it.rows() == [(1,)])
        until(lambda: not server.statistics().streams)

    def test_a_wide_table_without_chosen_columns_is_too_much(self, server: bs.Server) -> None:
        server.append_table("wide", pa.schema([(f"c{n}", pa.int64()) for n in range(501)]))
        with greeted(server) as client:
            view = client.open(1, "wide")
            client.settle(view, lambda it: it.ended)
            assert view.ended is not None
            assert "page_columns" in view.ended["text"]


def test_a_page_over_tls() -> None:
    import ssl

    import trustme

    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    with bs.Server(web_port=0, tls=(chain, issued.private_key_pem.bytes())) as server:
        assert server.web_uri is not None
        assert server.web_uri.startswith("https://")
        context = ssl.create_default_context()
        authority.configure_trust(context)
        with page(server, ssl=context, origin=server.web_uri) as client:
            assert client.greet()["type"] == "welcome"


def test_without_the_port_there_is_no_address() -> None:
    with bs.Server() as server:
        assert server.web_uri is None


class TestQueries:
    def test_rows_are_sorted_and_picked_on_the_server_and_tick(self, server: bs.Server) -> None:
        table = server.keyed_table("t", SCHEMA, key="k")
        table.upsert(rows_of(range(50)))
        with greeted(server) as client:
            view = client.open(
                1,
                "t",
                interval=1,
                where=["k >= 10"],
                filters=[{"column": "x", "equals": "20.5"}],
                sort=[{"column": "text", "descending": True}],
            )
            client.settle(view, lambda it: it.updates)
            assert view.rows() == [(41, "t41", 20.5)]
            table.upsert({"k": [90, 12, 3], "text": ["z", "a", "b"], "x": [20.5, 20.5, 20.5]})
            client.settle(view, lambda it: it.size == 3)
            assert view.rows() == [(90, "z", 20.5), (41, "t41", 20.5), (12, "a", 20.5)]
            table.delete({"k": [90]})
            client.settle(view, lambda it: it.rows()[0][0] == 41)
        until(lambda: not server.statistics().results)

    @pytest.mark.parametrize(
        ("column", "equals", "keys"),
        [
            ("i", "9223372036854775807", [1]),
            ("i", None, [2]),
            ("u", "18446744073709551615", [1]),
            ("f", "NaN", [2]),
            ("f", "-0.5", [1]),
            ("f", None, [3]),
            ("b", "true", [1]),
            ("n", "0.1", [1]),
            ("z", "2026-11-23 19:30:25.161435668+01:00", [1]),
            ("z", "1969-12-31 23:59:59.999999999+00:00", [2]),
            ("d", "0001-01-01 00:00:00.000001", [1]),
            ("s", "", [2]),
            ("s", "it's `quoted`", [1]),
            ("e", "12345678901234567890123456789012345.678", [1]),
            ("e", "-0.010", [2]),
            ("e", None, [3]),
            ("y", "2024-02-29", [1]),
            ("y", "0001-01-01", [2]),
            ("w", "9999-12-31", [1]),
            ("w", "1969-12-31", [2]),
        ],
    )
    def test_a_cell_picks_the_rows_that_have_it(
        self, server: bs.Server, column: str, equals: str | None, keys: list[int]
    ) -> None:
        schema = pa.schema(
            [
                ("k", pa.int64()),
                ("i", pa.int64()),
                ("u", pa.uint64()),
                ("f", pa.float64()),
                ("b", pa.bool_()),
                ("s", pa.string()),
                ("n", pa.float32()),
                ("z", pa.timestamp("ns", "Europe/Berlin")),
                ("d", pa.timestamp("us")),
                ("e", pa.decimal128(38, 3)),
                ("y", pa.date32()),
                ("w", pa.date64()),
            ]
        )
        rows = {
            "e": [Decimal("12345678901234567890123456789012345.678"), Decimal("-0.010"), None],
            "y": [date(2024, 2, 29), date(1, 1, 1), None],
            "w": [date(9999, 12, 31), date(1969, 12, 31), None],
            "n": [0.1, 0.2, None],
            "z": [1795458625161435668, -1, None],
            "d": [datetime(1, 1, 1, 0, 0, 0, 1), datetime(2000, 1, 1), None],
            "k": [1, 2, 3],
            "i": [(1 << 63) - 1, None, 0],
            "u": [(1 << 64) - 1, 0, 1],
            "f": [-0.5, float("nan"), None],
            "b": [True, False, None],
            "s": ["it's `quoted`", "", "x"],
        }
        server.append_table("t", schema).append(pa.table(rows, schema))
        with greeted(server) as client:
            view = client.open(1, "t", filters=[{"column": column, "equals": equals}])
            client.settle(view, lambda it: it.updates)
            assert view.ended is None
            assert [row[0] for row in view.rows()] == keys

    @pytest.mark.parametrize(
        "query",
        [
            {"where": ["nonsense("]},
            {"where": ["missing > 1"]},
            {"sort": [{"column": "missing"}]},
            {"filters": [{"column": "missing", "equals": "1"}]},
            {"filters": [{"column": "\ud800", "equals": "1"}]},
            {"filters": [{"column": "k", "equals": "one"}]},
            {"filters": [{"column": "x", "equals": ""}]},
            {"filters": [{"column": "at", "equals": "2026-13-01 00:00:00"}]},
            {"filters": [{"column": "at", "equals": "today"}]},
            {"filters": [{"column": "list", "equals": "[]"}]},
            {"filters": [{"column": "day", "equals": "2024-02-30"}]},
            {"filters": [{"column": "exact", "equals": "1e400000000"}]},
            {"filters": [{"column": "exact", "equals": "9" * 77}]},
        ],
    )
    def test_a_query_that_makes_no_sense_is_said_and_makes_nothing(
        self, server: bs.Server, query: dict[str, Any]
    ) -> None:
        server.append_table(
            "t", {**SCHEMA, "at": "timestamp[us]", "list": "list<int64>", "day": "date32", "exact": "decimal128(9, 2)"}
        )
        with greeted(server) as client:
            view = client.open(1, "t", **query)
            client.settle(view, lambda it: it.ended)
            assert view.ended is not None
            assert view.ended["error"] in ("InvalidRequestError", "UnknownColumnError")
            assert not server.statistics().results

    def test_what_comes_while_a_stream_opens_is_done_then(self, server: bs.Server) -> None:
        table = server.append_table("t", SCHEMA)
        table.append(rows_of(range(1000)))
        with greeted(server) as client:
            view = client.open(1, "t", sort=[{"column": "k", "descending": True}])
            client.send(type="move", stream=1, first=5, count=2)
            client.settle(view, lambda it: it.first == 5)
            assert [row[0] for row in view.rows()] == [994, 993]
            gone = client.open(2, "t", sort=[{"column": "k"}])
            client.send(type="close", stream=2)
            client.settle(gone, lambda it: it.ended)
            assert gone.ended == {"type": "ended", "stream": 2}

    def test_dropping_the_table_ends_what_is_computed_from_it(self, server: bs.Server) -> None:
        server.append_table("t", SCHEMA)
        with greeted(server) as client:
            view = client.open(1, "t", sort=[{"column": "k"}])
            client.settle(view, lambda it: it.updates)
            server.drop("t")
            client.settle(view, lambda it: it.ended)
            assert view.ended is not None
            assert view.ended["error"] == "UnknownTableError"


class TestPlots:
    def test_the_points_tick_and_are_shared_and_released(self, server: bs.Server) -> None:
        table = server.append_table("t", {"x": "int64", "y": "float64"})
        table.append({"x": range(10_000), "y": [float(number % 100) for number in range(10_000)]})
        plot = {"x": "x", "ys": ["y"], "pixels": 100}
        with greeted(server) as client, greeted(server) as other:
            view = client.open(1, "t", count=300, interval=1, plot=plot)
            client.settle(view, lambda it: it.updates)
            names = [column["name"] for column in view.opened["columns"]]
            assert names[:4] == ["first_x", "last_x", "y_first", "y_least"]
            assert view.opened["plot"] == {"sorted": False}
            assert 100 <= view.size <= 201
            assert view.rows() == rows_shown(table.downsample("x", ["y"], pixels=100))
            table.append({"x": [10_000, 12_000], "y": [500.0, -1.0]})
            client.settle(view, lambda it: it.rows()[-1][1] == 12_000)
            assert view.rows() == rows_shown(table.downsample("x", ["y"], pixels=100))
            same = other.open(1, "t", count=300, plot=plot)
            other.settle(same, lambda it: it.updates)
            assert [result.operation for result in server.statistics().results] == ["downsample"]
            client.send(type="close", stream=1)
            client.settle(view, lambda it: it.ended)
            assert len(server.statistics().results) == 1
        until(lambda: not server.statistics().results)

    def test_ranges_are_texts_so_that_nothing_is_rounded(self, server: bs.Server) -> None:
        begin = 1_718_445_600_000_000_000
        table = server.append_table("t", {"time": pa.timestamp("ns", "UTC"), "y": "int64"})
        table.append({"time": [begin + number for number in range(100)], "y": range(100)})
        with greeted(server) as client:
            ranges: list[dict[str, Any]] = [
                {"first": str(begin + 90)},
                {"tail_x": "9"},
                {"tail_rows": 10},
                {"first": str(begin + 90), "last": str(begin + 200)},
            ]
            for number, fields in enumerate(ranges):
                view = client.open(number + 1, "t", count=300, plot={"x": "time", "ys": ["y"], "pixels": 500, **fields})
                client.settle(view, lambda it: it.updates)
                assert [row[2] for row in view.rows()][-10:] == list(range(90, 100)), fields
                assert view.size <= 11

    def test_rows_out_of_order_are_said_to_be_sorted(self, server: bs.Server) -> None:
        server.keyed_table("t", {"k": "int64", "y": "float64"}, key="k").upsert({"k": [3, 1], "y": [1.0, 2.0]})
        with greeted(server) as client:
            view = client.open(1, "t", plot={"x": "k", "ys": ["y"], "pixels": 10}, where=["k > 0"])
            client.settle(view, lambda it: it.updates)
            assert view.opened["plot"] == {"sorted": True}
            assert [row[0] for row in view.rows()] == [1, 3]

    @pytest.mark.parametrize(
        ("plot", "text"),
        [
            ({"ys": ["text"]}, "'text' of 't' is of type string"),
            ({"x": "text"}, "'text' of 't' is of type string"),
            ({"ys": ["missing"]}, "no column 'missing'"),
            ({"ys": []}, "ys must have at least one name"),
            ({"ys": ["k", "x"] * 5}, "ys "),
            ({"pixels": 1 << 40}, "pixels must be from 1 to"),
            ({"first": "1", "tail_rows": 5}, "A plot has one range"),
            ({"first": "soon"}, "first must be a number"),
        ],
    )
    def test_what_cannot_be_plotted_is_said_in_a_sentence(
        self, server: bs.Server, plot: dict[str, Any], text: str
    ) -> None:
        server.append_table("t", SCHEMA)
        with greeted(server) as client:
            view = client.open(1, "t", plot={"x": "k", "ys": ["x"], "pixels": 100, **plot})
            client.settle(view, lambda it: it.ended)
            assert view.ended is not None
            assert text in view.ended["text"]
            assert not server.statistics().results

    def test_dropping_the_table_ends_the_plot(self, server: bs.Server) -> None:
        server.append_table("t", SCHEMA)
        with greeted(server) as client:
            view = client.open(1, "t", plot={"ys": ["x"], "pixels": 100})
            client.settle(view, lambda it: it.updates)
            server.drop("t")
            client.settle(view, lambda it: it.ended)
            assert view.ended is not None
            assert view.ended["error"] == "UnknownTableError"


def rows_shown(table: bs.Table) -> list[tuple[Any, ...]]:
    """The rows of a table without times, as a page gets them."""
    return list(zip(*(column.to_pylist() for column in table.to_arrow().columns), strict=True))


class TestHealth:
    def test_the_state_of_the_server_comes_each_second(self, server: bs.Server) -> None:
        server.append_table("t", SCHEMA).append(rows_of(range(5)))
        with greeted(server) as client:
            client.settle(client.open(1, "t"), lambda it: it.updates)
            client.send(type="health", on=True)
            first, second = client.until("health"), client.until("health")
            assert [row[:3] for row in first["tables"]] == [["t", "append", 5]]
            assert [row[0] for row in second["followers"]] == ["t"]
            while second["uptime"] == first["uptime"]:  # the first one came at once
                second = client.until("health")
            counts = {name: (now, most) for name, now, most in second["counts"]}
            assert counts["subscriptions"] == (1, bs.Limits().subscriptions)
            assert second["cores"] >= 0
            client.send(type="health", on=False)
            client.send(type="ping", n=1)
            client.until("pong")
            client.until("beat")
            client.said.clear()
            client.until("beat")
            client.until("beat")
            assert not [message for message in client.said if message["type"] == "health"]

    def test_a_stream_rests_while_it_is_paused_or_paints_nothing(self, server: bs.Server) -> None:
        table = server.append_table("t", SCHEMA)

        def rests() -> bool:
            client.send(type="ping", n=1)  # what was sent before has been taken by then
            client.until("pong")
            (gauges,) = server.statistics().subscriptions
            return gauges.rests

        with greeted(server) as client:
            view = client.open(1, "t", count=100, interval=1)
            client.settle(view, lambda it: it.updates)
            assert not rests()
            client.send(type="pause", stream=1)
            assert rests()
            client.send(type="resume", stream=1)
            assert not rests()
            client.acknowledges = False
            for size in (1, 2):
                table.append(rows_of(range(size - 1, size)))
                client.settle(view, lambda it, size=size: it.size == size)
            assert rests()
            client.send(type="health", on=True)
            while not client.until("health")["followers"][0][-1]:
                pass
            client.send(type="ack", stream=1, updates=2)
            assert not rests()

    def test_it_takes_the_right_to_statistics(self) -> None:
        roles = {
            "reader": bs.Role(["*"], ["list", "read"]),
            "keeper": bs.Role(["t*"], ["list", "read", "statistics"]),
        }
        reading = bs.Server(web_port=0, token="x", roles=roles, default_roles=["reader"])
        with reading, greeted(reading, token="x") as client:
            client.send(type="health", on=True)
            assert client.until("health")["error"] == "ForbiddenError"
        with bs.Server(web_port=0, token="x", roles=roles, default_roles=["keeper"]) as server:
            server.append_table("t", SCHEMA)
            server.append_table("other", SCHEMA)
            with greeted(server, token="x") as client:
                client.send(type="health", on=True)
                assert [row[0] for row in client.until("health")["tables"]] == ["t"]

"""Pages over real websockets: what they show is what the tables hold."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from websockets.exceptions import ConnectionClosed

import barrage_server as bs
from barrage_server.server.dispatcher import Dispatcher, ScheduledTask
from barrage_server.wire.page_messages import UNKNOWN_AGE
from tests.server.web.page_client import View, greeted, page
from tests.server.web.rows import SCHEMA, rows_of, shown
from tests.waiting import until


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
    with bs.Server(web_port=0, tls_certificate=chain, tls_key=issued.private_key_pem.bytes()) as server:
        assert server.web_uri is not None
        assert server.web_uri.startswith("https://")
        context = ssl.create_default_context()
        authority.configure_trust(context)
        with page(server, ssl=context, origin=server.web_uri) as client:
            assert client.greet()["type"] == "welcome"


def test_without_the_port_there_is_no_address() -> None:
    with bs.Server() as server:
        assert server.web_uri is None

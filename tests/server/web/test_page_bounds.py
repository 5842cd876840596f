"""Pages that ask for too much, talk nonsense, or have no right: they harm no other page."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

import barrage_server as bs
from tests.server.web.page_client import greeted, page
from tests.server.web.rows import SCHEMA, rows_of, shown
from tests.waiting import until


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

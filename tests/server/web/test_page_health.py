"""The state of the server, as pages see it."""

from __future__ import annotations

import json

import barrage_server as bs
from barrage_server.server import Limits
from barrage_server.server.web.health import ProcessFigures, health_message
from tests.server.web.page_client import greeted
from tests.server.web.rows import SCHEMA, rows_of


class TestHealth:
    def test_the_state_of_the_server_comes_each_second(self, server: bs.Server) -> None:
        server.append_table("t", SCHEMA).append(rows_of(range(5)))
        with greeted(server) as client:
            client.settle(client.open(1, "t"), lambda it: it.updates)
            client.send(type="health", on=True)
            first, second = client.until("health"), client.until("health")
            assert [row[:3] for row in first["tables"]] == [["t", "append", 5]]
            assert [row[0] for row in second["followers"]] == ["t"]
            assert first["cores"] is None
            while second["uptime"] == first["uptime"] or not second["cores"]:  # the first one came at once
                second = client.until("health")
            counts = {name: (now, most) for name, now, most in second["counts"]}
            assert counts["subscriptions"] == (1, bs.Limits().subscriptions)
            client.send(type="health", on=False)
            client.send(type="ping", n=1)
            client.until("pong")
            client.until("beat")
            client.said.clear()
            client.until("beat")
            client.until("beat")
            assert not [message for message in client.said if message["type"] == "health"]

    def test_cores_are_the_processor_time_since_the_last_message(self, server: bs.Server) -> None:
        before, now = ProcessFigures(None, 7.0, 3, 100.0), ProcessFigures(None, 10.0, 3, 102.0)
        message = json.loads(health_message(server.statistics(), Limits(), now, before))
        assert message["cores"] == 1.5

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

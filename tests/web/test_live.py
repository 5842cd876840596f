"""The code of the page against a real server: it sees the tables as they are, moves, pauses, copies, and comes back."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import barrage_server as bs
from tests.web.page import Page

pytestmark = pytest.mark.slow

SCHEMA = pa.schema(
    [("key", pa.int64()), ("price", pa.float64()), ("name", pa.string()), ("at", pa.timestamp("ns", "UTC"))]
)


def rows(numbers: Any, price: float = 0.5) -> pa.Table:
    keys = list(numbers)
    return pa.table([keys, [price] * len(keys), [f"row {key}" for key in keys], keys], schema=SCHEMA)


def shown(table: Any, first: int, count: int) -> list[list[Any]]:
    """What a page shows of a table of ``SCHEMA``."""
    found = table.to_arrow().slice(first, count).to_pylist()
    return [
        [
            str(row["key"]),
            f"{row['price']:g}",
            row["name"],
            f"1970-01-01 00:00:00.{row['at'].value:09d}+00:00",
        ]
        for row in found
    ]


def test_a_page_follows_moves_pauses_and_copies() -> None:
    with bs.Server(web_port=0) as server:
        table = server.keyed_table("t", SCHEMA, key=["key"])
        table.upsert(rows(range(3000)))
        assert server.web_uri is not None
        with Page(server.web_uri) as page:
            link = page.until("link", lambda link: link["state"] == "live" and link["tables"])
            assert [(entry["name"], entry["kind"], entry["rows"]) for entry in link["tables"]] == [("t", "keyed", 3000)]
            page.open("t", 10, 5)
            seen = page.until("look", lambda look: not look["stale"])
            assert seen["rows"] == shown(table, 10, 5)
            assert (seen["size"], seen["first"], seen["names"]) == (3000, 10, SCHEMA.names)

            for price in range(1, 30):  # each look paints, so that more may come
                table.upsert(rows([11, 14, 2000], float(price)))
                page.until("look", lambda look: look["rows"] == shown(table, 10, 5), f"price {price}")
            assert page.ask("look")["lag"] is not None

            page.move(0, 4, reverse=True)
            page.until("look", lambda look: look.get("first") == 2996 and look["rows"] == shown(table, 2996, 4))
            table.upsert(rows([3000, 3001]))
            page.until("look", lambda look: look.get("first") == 2998 and look["rows"] == shown(table, 2998, 4))

            page.ask("pause")
            before = page.ask("look")
            table.upsert(rows([3001], 77.0))
            page.move(1, 3, columns=[0, 2])
            moved = page.until("look", lambda look: look.get("first") == 1, "a paused view moves")
            assert moved["paused"] and moved["rows"] == [[row[0], row[2]] for row in shown(table, 1, 3)]
            assert before["rows"] != moved["rows"]
            table.delete({"key": [0]})
            page.ask("resume")
            page.until("look", lambda look: look["size"] == 3001)

            found = page.ask("snapshot", columns=[2, 0], first=100, count=5000)["rows"]
            assert found == [[row[2], row[0]] for row in shown(table, 100, 5000)]
            assert page.ask("snapshot", columns=[9], first=0, count=1)["failed"]


def test_whole_cells_and_every_kind_of_value() -> None:
    long = "ä😀" * 5000
    values: dict[str, Any] = {
        "decimal": pa.array([Decimal("-1234567890123456789.01")], pa.decimal128(30, 2)),
        "text": pa.array([long]),
        "nested": pa.array([[1, None]], pa.list_(pa.int8())),
        "binary": pa.array([b"\x00\xff"]),
        "when": pa.array([datetime(2024, 7, 1, tzinfo=UTC)], pa.timestamp("us", "America/New_York")),
        "unsigned": pa.array([2**64 - 1], pa.uint64()),
        "half": pa.array([0.1], pa.float16()),
        "nothing": pa.nulls(1),
        "span": pa.array([90_061], pa.duration("s")),
        "day": pa.array([19_000], pa.date32()),
        "nul": pa.array(["\x00"]),
    }
    with bs.Server(web_port=0) as server:
        content = pa.table(values)
        server.append_table("t", content.schema).append(content)
        assert server.web_uri is not None
        with Page(server.web_uri) as page:
            page.until("link", lambda link: link["state"] == "live")
            page.open("t", 0, 10)
            seen = page.until("look", lambda look: not look["stale"])
            assert dict(zip(seen["names"], seen["rows"][0], strict=True)) == {
                "decimal": "-1234567890123456789.01",
                "text": f"{long[:512]}… (10,000 characters)",
                "nested": "[1, null]",
                "binary": "00ff",
                "when": "2024-06-30 20:00:00.000000-04:00",
                "unsigned": "18446744073709551615",
                "half": "0.1",
                "nothing": None,
                "span": "1d 01:01:01",
                "day": "2022-01-08",
                "nul": "␀",
            }
            assert page.ask("cell", row=0, column=1) == {"text": long}
            assert page.ask("cell", row=0, column=7) == {"text": None}
            assert "failed" in page.ask("cell", row=5, column=0)


def test_a_wrong_token_is_refused_with_a_sentence() -> None:
    with bs.Server(web_port=0, token="right") as server:
        assert server.web_uri is not None
        with Page(server.web_uri, "wrong") as page:
            link = page.until("link", lambda link: link["state"] == "refused")
            assert link["refusal"].endswith(".")
        with Page(server.web_uri, "right") as page:
            page.until("link", lambda link: link["state"] == "live")


def test_a_page_comes_back_after_a_restart() -> None:
    with bs.Server(web_port=0) as server:
        server.keyed_table("t", SCHEMA, key=["key"]).upsert(rows(range(50)))
        assert server.web_uri is not None
        port = int(server.web_uri.rpartition(":")[2])
        page = Page(server.web_uri)
        page.until("link", lambda link: link["state"] == "live")
        page.open("t", 40, 5)
        seen = page.until("look", lambda look: not look["stale"])
    with page:
        lost = page.until("look", lambda look: look["stale"])
        assert lost["rows"] == seen["rows"]
        with bs.Server(web_port=port) as server:
            table = server.keyed_table("t", SCHEMA, key=["key"])
            table.upsert(rows(range(60), 9.0))
            page.until("look", lambda look: not look["stale"] and look["rows"] == shown(table, 40, 5))


def test_a_dropped_table_is_a_sentence_until_it_is_back() -> None:
    with bs.Server(web_port=0) as server:
        server.keyed_table("t", SCHEMA, key=["key"]).upsert(rows(range(5)))
        assert server.web_uri is not None
        with Page(server.web_uri) as page:
            page.until("link", lambda link: link["state"] == "live")
            page.open("t", 0, 5)
            page.until("look", lambda look: not look["stale"])
            server.drop("t")
            assert page.until("look", lambda look: look["error"])["error"].endswith(".")
            page.until("link", lambda link: not link["tables"])
            table = server.keyed_table("t", SCHEMA, key=["key"])
            table.upsert(rows(range(3), 2.0))
            page.until("look", lambda look: not look["stale"] and look["rows"] == shown(table, 0, 5))


@pytest.mark.parametrize("seed", range(3))
def test_storms_end_at_what_the_table_is(seed: int) -> None:
    chance = random.Random(seed)
    with bs.Server(web_port=0) as server:
        table = server.keyed_table("t", SCHEMA, key=["key"])
        table.upsert(rows(range(500)))
        assert server.web_uri is not None
        with Page(server.web_uri) as page:
            page.until("link", lambda link: link["state"] == "live")
            page.open("t", 0, 20, interval=1)
            for _ in range(150):
                match chance.choice(["upsert", "delete", "move", "look", "look", "reverse"]):
                    case "upsert":
                        table.upsert(rows([chance.randrange(600) for _ in range(20)], chance.randrange(9)))
                    case "delete":
                        table.delete({"key": [chance.randrange(600) for _ in range(5)]})
                    case "move":
                        page.move(chance.randrange(700), chance.choice([0, 5, 20, 60]))
                    case "reverse":
                        page.move(chance.randrange(30), 20, reverse=True)
                    case _:
                        page.ask("look")
            page.move(3, 30)
            page.until("look", lambda look: look.get("first") == 3 and look["rows"] == shown(table, 3, 30))

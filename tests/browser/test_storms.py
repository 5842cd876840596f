"""Whatever has been published, scrolled, resized, hidden, cut and restarted: what is painted is the table."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

import barrage_server as bs
from tests.browser.tab import Tab
from tests.live.proxy import Proxy

SCHEMA = pa.schema(
    [
        ("key", pa.int32()),
        ("price", pa.float64()),
        ("note", pa.string()),
        ("up", pa.bool_()),
        ("at", pa.timestamp("ns", "Europe/Berlin")),
        ("owner", pa.decimal128(12, 3)),
    ]
)
KEYS = 400
STEPS = 90
KINDS = ("append", "ring", "blink", "keyed", "replaced")
KEYS_PRESSED = (
    "ArrowDown",
    "ArrowUp",
    "PageDown",
    "PageUp",
    "Home",
    "End",
    "Control+Home",
    "Control+End",
    "ArrowRight",
)


def random_rows(chance: random.Random, count: int) -> pa.Table:
    columns: list[list[Any]] = [
        [chance.randrange(KEYS) for _ in range(count)],
        [chance.choice([None, 0.0, -0.0, 1.5, float("nan"), chance.random(), -1e300]) for _ in range(count)],
        [chance.choice([None, "", "a", "null", "ä\u202e\n" * 9, f"note {chance.random()}"]) for _ in range(count)],
        [chance.choice([None, True, False]) for _ in range(count)],
        [chance.choice([None, chance.randrange(2**60)]) for _ in range(count)],
        [chance.choice([None, chance.randrange(10**9)]) for _ in range(count)],
    ]
    arrays = [pa.array(cells, field.type) for cells, field in zip(columns[:4], SCHEMA, strict=False)]
    arrays += [pa.array(columns[4], pa.int64()).cast(SCHEMA.field("at").type)]
    arrays += [
        pa.array(columns[5], pa.int64())
        .cast(pa.decimal128(19, 0))
        .cast(pa.decimal128(38, 3))
        .cast(SCHEMA.field("owner").type)
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


class Scene:
    """A server with one table of a kind, a proxy before it, and a tab that looks at the table."""

    def __init__(self, tab: Tab, kind: str, seed: int) -> None:
        self.tab, self.kind = tab, kind
        self.chance = random.Random(f"{kind} {seed}")
        self.server = bs.Server(web_port=0)
        self.port = urlsplit(self.server.web_uri or "").port or 0
        self.proxy = Proxy(self.port)
        self.table = self.make()
        self.hidden: set[str] = set()
        tab.may_lose_connections = True
        tab.open(f"http://127.0.0.1:{self.proxy.port}", "t")
        tab.agrees(self.table)

    def close(self) -> None:
        self.proxy.close()
        self.server.close()

    @property
    def columns(self) -> list[str]:
        return [name for name in SCHEMA.names if name not in self.hidden]

    def make(self) -> Any:
        server = self.server
        makers: dict[str, Callable[[], Any]] = {
            "append": lambda: server.append_table("t", SCHEMA),
            "ring": lambda: server.ring_table("t", SCHEMA, capacity=150),
            "blink": lambda: server.blink_table("t", SCHEMA),
            "keyed": lambda: server.keyed_table("t", SCHEMA, key="key"),
            "replaced": lambda: server.replaced_table("t", SCHEMA),
        }
        self.table = makers[self.kind]()
        self.publish()
        return self.table

    def publish(self) -> None:
        chance = self.chance
        for _ in range(chance.choice([1, 1, 3])):
            rows = random_rows(chance, chance.choice([0, 1, 5, 40, 200]))
            if self.kind == "replaced":
                self.table.replace(rows)
            elif self.kind != "keyed":
                self.table.append(rows)
            elif chance.random() < 0.3:
                self.table.delete(rows.select(["key"]))
            else:
                self.table.upsert(rows)

    def step(self) -> str:
        """Do one thing; what it was."""
        chance = self.chance
        many, few = ["publish", "wheel", "keys"], ["thumb", "go", "resize", "hide", "follow", "pause", "cut"]
        name = chance.choice(4 * many + few)
        getattr(self, name)()
        return name

    def wheel(self) -> None:
        for _ in range(self.chance.choice([1, 3])):
            self.tab.wheel(self.chance.choice([-900, -100, -7, 3, 100, 240, 2000]), self.chance.choice([0, 0, 50, -50]))

    def keys(self) -> None:
        self.tab.focus()
        for _ in range(self.chance.choice([1, 2, 5])):
            self.tab.page.keyboard.press(self.chance.choice(KEYS_PRESSED))

    def thumb(self) -> None:
        self.tab.drag_thumb(self.chance.random())

    def go(self) -> None:
        self.tab.go_to(self.chance.choice([0, 10, self.table.size // 2, self.table.size + 5, 10**15]))

    def resize(self) -> None:
        chance = self.chance
        self.tab.page.set_viewport_size({"width": chance.randrange(300, 1500), "height": chance.randrange(250, 900)})

    def hide(self) -> None:
        page, name = self.tab.page, self.chance.choice(SCHEMA.names)
        page.get_by_role("button", name="Columns", exact=True).click()
        box = page.get_by_label(f"Show {name}", exact=True)
        box.click()
        self.hidden ^= {name}
        if len(self.hidden) == len(SCHEMA):
            page.get_by_role("button", name="Show all").click()
            self.hidden.clear()
        page.get_by_role("button", name="Columns", exact=True).click()

    def follow(self) -> None:
        self.tab.page.get_by_role("button", name="Follow the end").click()

    def pause(self) -> None:
        pause = self.tab.page.get_by_role("button", name="Pause")
        pause.click()
        self.publish()
        self.wheel()
        pause.click()

    def cut(self) -> None:
        self.proxy.cut()
        if self.chance.random() < 0.5:
            self.publish()

    def restart(self) -> None:
        """Another server on the same port, whose table has other rows."""
        self.server.close(grace=0.2)
        self.tab.until(lambda look: look.connection.startswith("Connection lost"), "the loss")
        self.server = bs.Server(web_port=self.port)
        self.make()


@contextmanager
def scene(tab: Tab, kind: str, seed: int) -> Iterator[Scene]:
    made = Scene(tab, kind, seed)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("kind", KINDS)
def test_after_any_steps_what_is_painted_is_the_table(tab: Tab, kind: str) -> None:
    with scene(tab, kind, 1) as made:
        steps: list[str] = []
        for number in range(STEPS):
            steps.append(made.step())
            if number == STEPS // 2:
                made.restart()
                steps.append("restart")
            if made.chance.random() < 0.6:
                is_read = made.chance.random() < 0.2
                tab.agrees(made.table, made.columns, f"after {steps[-8:]} ({number})", is_read=is_read)
        tab.agrees(made.table, made.columns, "at last")

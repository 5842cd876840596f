"""Whatever has been published, scrolled, resized, hidden, cut and restarted: what is painted is the table.

``STORMS`` is the number of storms over each kind of table. Most of what a user does is done here by events that a
script makes, which takes a tenth of the time; the rest goes the way of a mouse and a keyboard.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.subscription import SubscriptionLimits
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
STEPS = 150
STORMS = int(os.environ.get("STORMS", "3"))
KINDS = ("append", "ring", "blink", "keyed", "replaced", "filtered", "sorted")
BY_HAND = 0.1
"""Share of the steps that go through the browser's own input."""
OFTEN = ("publish", "wheel", "keys")
SELDOM = ("thumb", "go", "resize", "hide", "follow", "pause", "cut")
RARELY = ("restart",)
# What a script does as a user would.
ACTIONS = """
window.act = {
  wheel(turns) {
    const surface = document.querySelector(".surface");
    const box = surface.getBoundingClientRect();
    const at = {clientX: box.left + box.width / 2, clientY: box.top + box.height / 2, bubbles: true, cancelable: true};
    for (const [deltaY, deltaX] of turns) surface.dispatchEvent(new WheelEvent("wheel", {...at, deltaX, deltaY}));
  },
  keys(names) {
    const grid = document.querySelector('[role="grid"]');
    grid.focus();
    for (const name of names) {
      const key = name.split("+").at(-1);
      grid.dispatchEvent(new KeyboardEvent("keydown", {key, ctrlKey: name !== key, bubbles: true, cancelable: true}));
    }
  },
  press(...names) {
    const isNamed = (button, name) => button.textContent === name || button.getAttribute("aria-label") === name;
    for (const name of names) {
      const found = [...document.querySelectorAll("button, input")].find((button) => isNamed(button, name));
      if (found === undefined) throw new Error(`there is no ${name}`);
      found.click();
    }
  },
};
"""
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
        self.server = self.start()
        self.port = urlsplit(self.server.web_uri or "").port or 0
        self.proxy = Proxy(self.port)
        self.table = self.make()
        self.hidden: set[str] = set()
        self.by_hand = True
        tab.may_lose_connections = True
        tab.page.add_init_script(ACTIONS)
        tab.open(f"http://127.0.0.1:{self.proxy.port}", "t")
        tab.agrees(self.table)

    def close(self) -> None:
        self.proxy.close()
        self.server.close()

    @property
    def columns(self) -> list[str]:
        return [name for name in SCHEMA.names if name not in self.hidden]

    def start(self, port: int = 0) -> bs.Server:
        """A server that combines more changes, or fewer, into one update."""
        interval = self.chance.choice([1, 20, 100])
        return bs.Server(web_port=port, subscriptions=SubscriptionLimits(default_interval_ms=interval))

    def make(self) -> bs.Table:
        """The table that is looked at. Another one may be behind it, to which rows are published."""
        server = self.server
        makers: dict[str, Callable[[], Any]] = {
            "append": lambda: server.append_table("t", SCHEMA),
            "ring": lambda: server.ring_table("t", SCHEMA, capacity=150),
            "blink": lambda: server.blink_table("t", SCHEMA),
            "keyed": lambda: server.keyed_table("t", SCHEMA, key="key"),
            "replaced": lambda: server.replaced_table("t", SCHEMA),
            "filtered": lambda: server.keyed_table("source", SCHEMA, key="key"),
            "sorted": lambda: server.keyed_table("source", SCHEMA, key="key"),
        }
        self.source = makers[self.kind]()
        self.table = self.source
        if self.kind == "filtered":
            self.table = server.add_table("t", self.source.where("up || key < 100"))
        elif self.kind == "sorted":
            self.table = server.add_table("t", self.source.sort(["up", "price"]))
        self.publish()
        return self.table

    def publish(self) -> None:
        chance = self.chance
        for _ in range(chance.choice([1, 1, 3])):
            rows = random_rows(chance, chance.choice([0, 1, 5, 40, 200]))
            if self.kind == "replaced":
                self.source.replace(rows)
            elif not isinstance(self.source, bs.KeyedTable):
                self.source.append(rows)
            elif chance.random() < 0.3:
                self.source.delete(rows.select(["key"]))
            else:
                self.source.upsert(rows)

    def step(self) -> str:
        """Do one thing; what it was."""
        chance = self.chance
        name = chance.choice(40 * OFTEN + 10 * SELDOM + RARELY)
        self.by_hand = chance.random() < BY_HAND
        getattr(self, name)()
        return name

    def act(self, action: str, *given: Any) -> None:
        self.tab.page.evaluate(f"given => act.{action}(...given)", [*given])

    def press(self, *names: str) -> None:
        """Press buttons and boxes, one after the other."""
        if not self.by_hand:
            self.act("press", *names)
            return
        for name in names:
            self.tab.page.locator("button, input").and_(self.tab.page.get_by_label(name, exact=True)).or_(
                self.tab.page.get_by_role("button", name=name, exact=True)
            ).first.click()

    def wheel(self) -> None:
        chance = self.chance
        turns = [
            (chance.choice([-900, -100, -7, 3, 100, 240, 2000]), chance.choice([0, 0, 50, -50]))
            for _ in range(chance.choice([1, 3]))
        ]
        if not self.by_hand:
            self.act("wheel", turns)
            return
        for down, sideways in turns:
            self.tab.wheel(down, sideways)

    def keys(self) -> None:
        names = self.chance.choices(KEYS_PRESSED, k=self.chance.choice([1, 2, 5]))
        if not self.by_hand:
            self.act("keys", names)
            return
        self.tab.focus()
        for name in names:
            self.tab.page.keyboard.press(name)

    def thumb(self) -> None:
        self.tab.drag_thumb(self.chance.random())

    def go(self) -> None:
        self.tab.go_to(self.chance.choice([0, 10, self.table.size // 2, self.table.size + 5, 10**15]))

    def resize(self) -> None:
        chance = self.chance
        self.tab.page.set_viewport_size({"width": chance.randrange(300, 1500), "height": chance.randrange(250, 900)})

    def hide(self) -> None:
        name = self.chance.choice(SCHEMA.names)
        self.hidden ^= {name}
        if len(self.hidden) < len(SCHEMA):
            self.press("Columns", f"Show {name}", "Columns")
        else:
            self.press("Columns", f"Show {name}", "Show all", "Columns")
            self.hidden.clear()

    def follow(self) -> None:
        self.press("Follow the end")

    def pause(self) -> None:
        self.press("Pause")
        self.publish()
        self.wheel()
        self.press("Pause")

    def cut(self) -> None:
        self.proxy.cut()
        if self.chance.random() < 0.5:
            self.publish()

    def restart(self) -> None:
        """Another server on the same port, whose table has other rows."""
        self.server.close(grace=0.2)
        self.tab.until(lambda look: look.connection.startswith("Connection lost"), "the loss")
        self.server = self.start(self.port)
        self.make()


@contextmanager
def scene(tab: Tab, kind: str, seed: int) -> Iterator[Scene]:
    made = Scene(tab, kind, seed)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("seed", range(STORMS))
@pytest.mark.parametrize("kind", KINDS)
def test_after_any_steps_what_is_painted_is_the_table(tab: Tab, kind: str, seed: int) -> None:
    with scene(tab, kind, seed) as made:
        steps: list[str] = []
        for number in range(STEPS):
            steps.append(made.step())
            if number == STEPS // 2:
                made.restart()
                steps.append("restart")
            if made.chance.random() < 0.6:
                is_read = made.chance.random() < 0.1
                tab.agrees(made.table, made.columns, f"after {steps[-8:]} ({number})", is_read=is_read)
        tab.agrees(made.table, made.columns, "at last")

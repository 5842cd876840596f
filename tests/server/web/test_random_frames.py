"""A page that sends anything at all ends itself at most: a page beside it goes on, and nothing of it stays.

``FRAMES`` is the number of frames that it sends.
"""

from __future__ import annotations

import json
import os
import random
import string
from collections.abc import Callable
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

import barrage_server as bs
from tests.server.web.page_client import Page, View, greeted
from tests.waiting import until

FRAMES = int(os.environ.get("FRAMES") or 5_000)
AT_ONCE = 60
"""Frames between two answers that are waited for."""
SCHEMA = {"k": "int64", "text": "string", "x": "float64"}
ROWS = 400
NUMBERS = [0, 1, 2, 3, 10, 100, 10_000, 1 << 31, (1 << 53) - 1, 1 << 53, 1 << 64, -1, 0.5, 1e300]
VALUES: list[Any] = [*NUMBERS, "t", "", "\u202e", None, True, [], [0], [2, 0, 2], [9], {}, "snapshot", "follow"]
FIELDS = "stream table ticket kind first count columns reverse interval where filters sort plot updates row column n on"

pytestmark = pytest.mark.timeout(120 + FRAMES // 100)


class Enemy:
    """Frames of a page: most of them make sense alone, the others in no way.

    Args:
        seed: of all random choices.

    """

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._opened = 0

    def begin(self) -> None:
        """A websocket begins."""
        self._opened = 0

    def frame(self) -> str:
        """One that does not end the websocket, however it ends its stream."""
        draw = self._draw
        if not self._opened or draw.random() < 0.06:
            self._opened += 1
            return self._open()
        stream = draw.randrange(1, self._opened + 1)
        make: Callable[[], dict[str, Any]] = draw.choice(
            [
                lambda: {"type": "ack", "stream": stream, "updates": draw.choice([0, 1, 2, 1 << 40])},
                lambda: {"type": "move", "stream": stream, **self._window()},
                lambda: {"type": "move", "stream": stream, **self._window()},
                lambda: {"type": draw.choice(["pause", "resume"]), "stream": stream},
                lambda: {"type": "ping", "n": draw.randrange(1 << 60)},
                lambda: {"type": "close", "stream": stream},
                lambda: {"type": "cell", "stream": stream, "request": 1, "row": draw.randrange(999), "column": 1},
            ]
        )
        return json.dumps(make())

    def last(self) -> str | bytes:
        """One that most likely ends the websocket."""
        draw = self._draw
        match draw.randrange(5):
            case 0:
                return draw.randbytes(draw.randrange(200))
            case 1:
                return "".join(draw.choices(string.printable + "\u202e\u0000😀", k=draw.randrange(200)))
            case 2:
                text = self.frame()
                at = draw.randrange(len(text))
                return text[:at] + draw.choice(string.printable) + text[at + draw.randrange(3) :]
            case 3:
                return "x" * draw.choice([65_535, 65_536, 65_537, 70_000])
            case _:
                names = draw.sample(FIELDS.split(), draw.randrange(8))
                kinds = ["open", "move", "ack", "pause", "resume", "close", "cell", "ping", "hello", "health", "x", ""]
                return json.dumps({"type": draw.choice(kinds)} | {name: draw.choice(VALUES) for name in names})

    def _open(self) -> str:
        draw = self._draw
        asked: dict[str, Any] = {"type": "open", "stream": self._opened, "table": draw.choice(["t", "t", "t", "no"])}
        asked |= self._window() | {"kind": draw.choice(["follow", "follow", "snapshot"])}
        if draw.random() < 0.2:
            asked["where"] = [draw.choice(["k > 10", "k >", "no == 1", "x", "k / 0 > 1"])]
        if draw.random() < 0.1:
            asked["sort"] = [{"column": draw.choice(["k", "x", "no"]), "descending": draw.random() < 0.5}]
        return json.dumps(asked)

    def _window(self) -> dict[str, Any]:
        draw = self._draw
        window: dict[str, Any] = {
            "first": draw.choice([0, 1, 100, ROWS, 1 << 40, (1 << 53) - 1]),
            "count": draw.choice([0, 1, 10, 50, 10_000, 1_000_000_000]),
            "reverse": draw.random() < 0.3,
        }
        if draw.random() < 0.3:
            window["columns"] = draw.choice([[], [0], [0, 1, 2], [7], [-1], [1 << 40]])
        return window


def attack(client: Page, enemy: Enemy, most: int) -> int:
    """Send frames over a websocket until it ends; how many the server has read, up to ``most`` and a last one."""
    sent = 0
    enemy.begin()
    try:
        while sent < most:
            for _ in range(min(AT_ONCE, most - sent)):
                client.socket.send(enemy.frame())
                sent += 1
            client.socket.send(f'{{"type":"ping","n":{-sent}}}')
            drain(client, -sent)
            client.socket.send(enemy.last())
            client.socket.send('{"type":"ping","n":-1}')
            drain(client, -1)
            sent += 1
    except ConnectionClosed:
        sent += 1
    return sent


def drain(client: Page, number: int) -> None:
    """Read up to the answer to a ping, without a look at the frames before."""
    answer = f'"n":{number}}}'
    while True:
        frame = client.socket.recv(timeout=60)
        if isinstance(frame, str) and frame.endswith(answer) and '"pong"' in frame:
            return


def test_a_page_beside_one_that_sends_random_frames_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    with bs.Server(web_port=0) as server, greeted(server) as other:
        table = server.keyed_table("t", SCHEMA, key="k")
        table.upsert({"k": list(range(ROWS)), "text": ["x"] * ROWS, "x": [0.5] * ROWS})
        view: View = other.open(1, "t", first=0, count=20, interval=1)
        other.settle(view, lambda it: it.updates)
        enemy, sent, sockets = Enemy(11), 0, 0
        while sent < FRAMES:
            with greeted(server) as client:
                sent += attack(client, enemy, FRAMES - sent)
            sockets += 1
            table.upsert({"k": [sockets % 20], "text": [f"after {sent}"], "x": [float(sent)]})
            other.settle(view, lambda it, text=f"after {sent}": text in it.cells[1])
            assert view.ended is None
        expected = table.to_arrow().slice(0, 20).to_pylist()
        assert view.rows() == [tuple(row.values()) for row in expected]
        until(lambda: len(server.statistics().streams) == 1, what="the end of the streams of the other page")
        until(lambda: not server.statistics().results, what="the end of what was computed for it")
    with capsys.disabled():
        print(f" {sent:,} frames over {sockets:,} websockets", end="")

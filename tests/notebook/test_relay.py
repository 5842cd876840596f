"""The relay passes on what is a message and drops what is none, and ends each link once."""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import barrage_server as bs
from barrage_server.notebook.relay import Relay
from tests.waiting import until

PATIENCE = 20.0


class End:
    """A server's end that a test speaks for."""

    def __init__(self) -> None:
        self.sent: queue.Queue[str] = queue.Queue()
        self.due: queue.Queue[str | bytes | Exception | None] = queue.Queue()
        self.closed = threading.Event()
        self.taking = threading.Event()
        self.taking.set()

    def send(self, text: str) -> None:
        self.taking.wait(PATIENCE)
        self.sent.put(text)

    def frames(self) -> Iterator[str | bytes]:
        while (frame := self.due.get()) is not None:
            if isinstance(frame, Exception):
                raise frame
            yield frame
        raise bs.UnavailableError("closed here")

    def cancel(self) -> None:
        self.taking.set()
        self.due.put(None)

    def close(self) -> None:
        self.closed.set()


class Kernel:
    """A relay, the ends that it has opened, and what it has told the browser."""

    def __init__(self, open_end: Callable[[], End] | None = None) -> None:
        self.ends: queue.Queue[End] = queue.Queue()
        self.told: queue.Queue[tuple[dict[str, Any], list[bytes]]] = queue.Queue()
        self.now = 0.0
        self.checks: list[Callable[[], object]] = []
        self.relay = Relay(
            open_end or self._open,
            lambda message, buffers: self.told.put((message, buffers)),
            lambda: self.now,
            self.checks.append,
        )

    def _open(self) -> End:
        end = End()
        self.ends.put(end)
        return end

    def say(self, kind: str, link: str = "a", **fields: Any) -> None:
        self.relay.receive({"kind": kind, "link": link, **fields})

    def hear(self) -> dict[str, Any]:
        return self.told.get(timeout=PATIENCE)[0]

    def opened(self, link: str = "a") -> End:
        self.say("open", link)
        assert self.hear() == {"kind": "opened", "link": link}
        return self.ends.get(timeout=PATIENCE)


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    made = Kernel()
    yield made
    made.relay.close()


def test_texts_go_there_and_frames_come_back_in_order(kernel: Kernel) -> None:
    end = kernel.opened()
    for number in range(50):
        kernel.say("text", text=f"message {number}")
    assert [end.sent.get(timeout=PATIENCE) for _ in range(50)] == [f"message {number}" for number in range(50)]
    for frame in ("text", b"\0binary", "more"):
        end.due.put(frame)
    told = [kernel.told.get(timeout=PATIENCE) for _ in range(3)]
    assert told == [
        ({"kind": "text", "link": "a", "text": "text"}, []),
        ({"kind": "binary", "link": "a"}, [b"\0binary"]),
        ({"kind": "text", "link": "a", "text": "more"}, []),
    ]


def test_what_is_said_while_a_link_opens_is_sent_then() -> None:
    may_open = threading.Event()
    made = End()

    def open_end() -> End:
        may_open.wait(PATIENCE)
        return made

    kernel = Kernel(open_end)
    kernel.say("open")
    kernel.say("text", text="early")
    assert kernel.told.empty()
    may_open.set()
    assert made.sent.get(timeout=PATIENCE) == "early"
    kernel.relay.close()


def test_a_link_that_is_closed_is_ended_and_nothing_more_is_said(kernel: Kernel) -> None:
    end = kernel.opened()
    kernel.say("close")
    assert end.closed.wait(PATIENCE)
    end.due.put("late")
    until(lambda: not kernel.relay.links)
    assert kernel.told.empty()


def test_a_link_that_is_closed_while_it_opens_is_ended() -> None:
    may_open, made = threading.Event(), End()

    def open_end() -> End:
        may_open.wait(PATIENCE)
        return made

    kernel = Kernel(open_end)
    kernel.say("open")
    kernel.say("close")
    assert not kernel.relay.links
    may_open.set()
    assert made.closed.wait(PATIENCE)


@pytest.mark.parametrize("error", [bs.UnavailableError("the server is gone"), RuntimeError("a fault")])
def test_the_end_of_the_exchange_is_told_once(kernel: Kernel, error: Exception) -> None:
    end = kernel.opened()
    end.due.put(error)
    told = kernel.hear()
    assert (told["kind"], told["link"]) == ("closed", "a")
    if isinstance(error, bs.BarrageError):
        assert told["text"] == "the server is gone"
    assert end.closed.wait(PATIENCE)
    until(lambda: not kernel.relay.links)
    kernel.say("text", text="late")
    kernel.opened()


def test_a_server_that_cannot_be_reached_is_told() -> None:
    def refuse() -> End:
        raise bs.UnavailableError("The server is away.")

    kernel = Kernel(refuse)
    kernel.say("open")
    assert kernel.hear() == {"kind": "closed", "link": "a", "text": "The server is away."}
    assert not kernel.relay.links


def test_a_relay_that_is_closed_ends_all_and_opens_none(kernel: Kernel) -> None:
    ends = [kernel.opened(f"{number}") for number in range(3)]
    kernel.relay.close()
    for end in ends:
        assert end.closed.wait(PATIENCE)
    kernel.say("open", "later")
    assert kernel.hear()["kind"] == "closed"


def test_there_are_64_links_at_most(kernel: Kernel) -> None:
    for number in range(64):
        kernel.opened(f"{number}")
    kernel.say("open", "one more")
    told = kernel.hear()
    assert (told["kind"], told["link"], "64" in told["text"]) == ("closed", "one more", True)
    kernel.say("close", "0")
    until(lambda: kernel.relay.links == 63)
    kernel.opened("one more")


def test_a_server_that_takes_nothing_does_not_hold_the_kernel_up(kernel: Kernel) -> None:
    end = kernel.opened()
    end.taking.clear()
    for number in range(2_000):
        kernel.say("text", text=f"{number}")
    assert kernel.hear()["kind"] == "closed"
    assert end.closed.wait(PATIENCE)


class TestIdle:
    def test_a_page_that_says_nothing_for_a_minute_is_ended(self, kernel: Kernel) -> None:
        end = kernel.opened()
        kernel.now = 61.0
        end.due.put("beat")
        assert kernel.hear()["kind"] == "text"
        until(lambda: kernel.checks)
        kernel.checks.pop()()
        assert kernel.hear()["kind"] == "closed"
        assert end.closed.wait(PATIENCE)

    def test_what_a_busy_kernel_had_not_received_yet_counts(self, kernel: Kernel) -> None:
        end = kernel.opened()
        kernel.now = 61.0
        end.due.put("beat")
        until(lambda: kernel.checks)
        kernel.say("text", text="ping")
        kernel.checks.pop()()
        end.due.put("beat")
        assert [kernel.hear()["kind"] for _ in range(2)] == ["text", "text"]
        assert kernel.relay.links == 1


def test_what_is_no_message_is_dropped(kernel: Kernel) -> None:
    end = kernel.opened()
    draw = random.Random(3)
    values: list[Any] = [None, True, 1, "", "a", "b", [], {}, "open ", b"x", "x" * 200, 0.5, {"link": "a"}]
    kinds: list[Any] = ["text", "close", "opened", "binary", None, 5, [], {}]
    kernel.relay.receive(None)
    for _ in range(500):
        kind, link, text = draw.choice(kinds), draw.choice(values), draw.choice(values)
        if (kind, link) == ("close", "a") or (kind == "text" and link == "a" and isinstance(text, str)):
            continue
        kernel.relay.receive(draw.choice([{"kind": kind, "link": link, "text": text}, text, [kind]]))
    kernel.relay.receive({"kind": "text", "link": "a", "text": "x" * ((64 << 10) + 1)})
    kernel.say("open")  # it is open
    kernel.say("text", text="good")
    assert end.sent.get(timeout=PATIENCE) == "good"
    assert kernel.told.empty()
    assert kernel.relay.links == 1

"""A session is kept alive by calls while it is used, and by no thread otherwise."""

from __future__ import annotations

import threading

from barrage_server.client.keepalive import KeepAlive
from barrage_server.errors import UnavailableError


class Pings:
    """Counts calls, and fails at every second."""

    def __init__(self) -> None:
        self.count = 0
        self._many = threading.Event()

    def __call__(self) -> None:
        self.count += 1
        if self.count >= 5:
            self._many.set()
        if self.count % 2 == 0:
            raise UnavailableError("away")

    def wait_for_many(self) -> bool:
        return self._many.wait(20)


def test_calls_are_made_while_it_is_held_whether_or_not_they_succeed() -> None:
    pings = Pings()
    keep = KeepAlive(pings, "keeping", pause=0.001)
    with keep.held():
        with keep.held():
            assert keep.is_running
        assert pings.wait_for_many()
        thread = next(thread for thread in threading.enumerate() if thread.name == "keeping")
    thread.join(20)
    assert not keep.is_running


def test_it_begins_again_when_it_is_needed_again() -> None:
    for _ in range(3):
        pings = Pings()
        keep = KeepAlive(pings, "keeping again", pause=0.001)
        for _ in range(3):
            with keep.held():
                pass
        with keep.held():
            assert pings.wait_for_many()


def test_letting_go_does_not_wait_for_the_next_call() -> None:
    keep = KeepAlive(lambda: None, "keeping long", pause=3600)
    with keep.held():
        thread = next(thread for thread in threading.enumerate() if thread.name == "keeping long")
    thread.join(20)
    assert not thread.is_alive()

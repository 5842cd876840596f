"""The harness: bounded waits, errors that explain themselves, processes that end."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .environments import missing
from .peer import Peer, PeerError

SCRIPT = """
import os, sys
from tests.interop.peers.loop import Loop
loop = Loop()

@loop.function
def double(number):
    print("printed")
    os.write(1, b"written\\n")
    loop.say("doubling", number=number)
    return 2 * number

@loop.function
def stuck():
    sys.stderr.write("about to hang\\n")
    sys.stderr.flush()
    sys.stdin.readline()

@loop.function
def crash():
    os._exit(3)

loop.run(settings=loop.settings)
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return str(path)


@pytest.fixture
def peer(script: str) -> Iterator[Peer]:
    root = str(Path(__file__).resolve().parents[2])
    command = [sys.executable, script, '{"a": 1}']
    with Peer(command, name="script", environment={"PYTHONPATH": root}, stacks=True) as peer:
        yield peer


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_calls_and_events_are_told_apart_from_what_is_printed(peer: Peer) -> None:
    assert peer.hello["settings"] == {"a": 1}
    assert peer.call("double", number=4) == 8
    assert peer.call("double", number=5) == 10
    assert [peer.event("doubling")["number"] for _ in range(2)] == [4, 5]


def test_an_error_there_is_an_error_here(peer: Peer) -> None:
    with pytest.raises(PeerError, match="unsupported operand") as caught:
        peer.call("double", number=None)
    assert caught.value.kind == "TypeError"
    assert peer.call("double", number=1) == 2


def test_a_call_that_hangs_is_given_up_with_what_was_written(peer: Peer) -> None:
    with pytest.raises(PeerError, match="no 'never'"):
        peer.event("never", timeout=0.01)
    with pytest.raises(PeerError, match=r"(?s)did not return in 0\.5 s; it wrote:\nabout to hang.* in stuck\n"):
        peer.call("stuck", 0.5)
    assert peer.is_stuck


def test_a_crash_is_told_at_once(peer: Peer) -> None:
    with pytest.raises(PeerError, match="ended with 3"):
        peer.call("crash")
    with pytest.raises(PeerError, match=r"ended with 3|has gone"):
        peer.call("double", number=1)


def test_nothing_is_left_behind(peer: Peer) -> None:
    peer.close()
    peer.close()
    assert not _is_alive(peer.pid)
    with pytest.raises(PeerError, match="No module named 'nowhere'"):
        Peer([sys.executable, "-c", "import nowhere"], name="broken", timeout=20)


def test_a_peer_that_is_not_installed_fails_where_everything_must_be_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="make interop"):
        missing("run make interop")
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="make interop"):
        missing("run make interop")

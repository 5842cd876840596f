"""A stop is raised in the code of a script, outside of what is shielded, and never after its end."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from barrage_server.server.console.stop_switch import ScriptStop, StopSwitch


class Code(threading.Thread):
    """Code on a thread of its own, which may be stopped."""

    def __init__(self, switch: StopSwitch, body: Callable[[threading.Event], object]) -> None:
        super().__init__(daemon=True)
        self.begun = threading.Event()
        self.steps: list[str] = []
        self._switch = switch
        self._body = body
        self.start()

    def run(self) -> None:
        try:
            try:
                self._switch.begin()
                self._body(self.begun)
                self.steps.append("ran")
            finally:
                self._switch.end()
        except ScriptStop:
            self._switch.end()
            self.steps.append("stopped")


def spin(begun: threading.Event) -> None:
    begun.set()
    while True:
        pass


def test_code_is_stopped_between_two_steps() -> None:
    switch = StopSwitch()
    code = Code(switch, spin)
    assert code.begun.wait(20)
    assert not switch.is_stopped()
    switch.stop("first")
    switch.stop("second")
    code.join(20)
    assert code.steps == ["stopped"]
    assert switch.reason == "first"


def test_code_that_is_shielded_ends_first() -> None:
    switch, go, steps = StopSwitch(), threading.Event(), list[str]()

    def body(begun: threading.Event) -> None:
        with switch.shielded(), switch.shielded():
            begun.set()
            assert go.wait(20)
            for _ in range(10_000):
                steps.append("worked")
        steps.append("went on")

    code = Code(switch, body)
    assert code.begun.wait(20)
    switch.stop("now")
    go.set()
    code.join(20)
    assert code.steps == ["stopped"]
    assert steps == ["worked"] * 10_000


def test_what_was_stopped_before_does_not_begin() -> None:
    switch = StopSwitch()
    switch.stop("early")
    code = Code(switch, spin)
    code.join(20)
    assert code.steps == ["stopped"]


def test_nothing_is_raised_after_the_end() -> None:
    for _ in range(200):  # the stop comes at the end, sooner or later
        switch = StopSwitch()
        code = Code(switch, lambda begun: begun.set())
        assert code.begun.wait(20)
        switch.stop("late")
        code.join(20)
        assert code.steps in (["ran"], ["stopped"], ["ran", "stopped"])


@pytest.mark.parametrize("stops", [False, True])
def test_profilers_work_after_the_end(stops: bool) -> None:
    """In a process of its own: it would hang."""
    script = (
        "import sys\nfrom barrage_server.server.console.stop_switch import ScriptStop, StopSwitch\n"
        "switch, called = StopSwitch(), []\n"
        "try:\n    try:\n        switch.begin()\n"
        f"        {'switch.stop(str(1))' if stops else 'pass'}\n"
        "    finally:\n        switch.end()\nexcept ScriptStop:\n    switch.end()\n"
        "def work():\n    pass\n\n"
        "sys.setprofile(lambda *event: called.append(event))\nwork()\nsys.setprofile(None)\nassert called\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_other_threads_are_not_shielded_and_not_stopped() -> None:
    switch = StopSwitch()
    code = Code(switch, spin)
    assert code.begun.wait(20)
    with switch.shielded():
        switch.stop("now")
        code.join(20)
    assert code.steps == ["stopped"]
    with pytest.raises(ScriptStop):
        switch.begin()

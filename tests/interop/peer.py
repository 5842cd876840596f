"""A process of another project, driven by JSON lines.

The script on the other side (``peers/``) has functions, which are called by name::

    with Peer.python("deephaven", "deephaven_server", {"port": 0}) as peer:
        print(peer.hello)                       # what it says when it is ready
        peer.call("evaluate", expression="1 + 1")
        peer.event("ticked", timeout=5)         # what it says unasked

Every wait is bounded, and whatever the process has written to its standard error is in the text of a failure, with the
stacks of its threads if a call has not returned in time. It is always ended, by its process id.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import IO, Any, Final, Self

from tests.waiting import until

from .environments import ROOT, python_of

START_SECONDS: Final = 90.0
CALL_SECONDS: Final = 60.0
END_SECONDS: Final = 10.0
STACK_SECONDS: Final = 5.0
STUCK_SECONDS: Final = 5.0
_LINES_KEPT: Final = 200


class PeerError(AssertionError):
    """The peer answered with an error, did not answer in time, or has gone.

    Attributes:
        kind: the class of the exception that was raised there; empty when none was.
        text: its text.
    """

    def __init__(self, message: str, *, kind: str = "", text: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.text = text


class Peer:
    """One process. It is ready, and :attr:`hello` is what it said, when this is made.

    Args:
        command: the program and its arguments.
        name: for texts.
        environment: variables on top of those of this process.
        timeout: seconds until it must be ready.
        stacks: whether it writes the stacks of its threads when it gets ``SIGUSR1``, as every :class:`Loop` does.

    Attributes:
        is_stuck: whether a call has not returned in time. Those after it wait for it, a few seconds only.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        name: str,
        environment: Mapping[str, str] | None = None,
        timeout: float = START_SECONDS,
        stacks: bool = False,
    ) -> None:
        self.name = name
        self._stacks = stacks
        self.is_stuck = False
        self._errors: deque[str] = deque(maxlen=_LINES_KEPT)
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._events: list[dict[str, Any]] = []
        self._calls = 0
        self._process = subprocess.Popen(
            list(command),
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._input: IO[str] = self._process.stdin
        self._readers = [
            threading.Thread(target=self._read_answers, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._read_errors, args=(self._process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        try:
            self.hello = self.event("ready", timeout=timeout)
        except BaseException:
            self.kill()
            raise

    @classmethod
    def python(
        cls,
        environment: str,
        script: str,
        settings: Mapping[str, Any] | None = None,
        *,
        timeout: float = START_SECONDS,
    ) -> Self:
        """A script of ``peers/`` in an environment that ``make interop`` has made; ``settings`` is what it gets."""
        command = [python_of(environment), "-m", f"tests.interop.peers.{script}", json.dumps(dict(settings or {}))]
        # Our own packages must not be found there: the peer is to be what its environment has.
        alone = {"PYTHONPATH": "", "PYTHONUNBUFFERED": "1"}
        return cls(command, name=script, environment=alone, timeout=timeout, stacks=True)

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def call(self, function: str, timeout: float = CALL_SECONDS, /, **arguments: Any) -> Any:
        """What ``function(**arguments)`` returns there.

        Raises:
            PeerError: it raised, did not return in time, or the process has gone.
        """
        self._calls += 1
        number = self._calls
        self._write({"call": function, "id": number, "with": arguments})
        timeout = min(timeout, STUCK_SECONDS) if self.is_stuck else timeout
        deadline = time.monotonic() + timeout
        while True:
            try:
                answer = self._next(deadline)
            except queue.Empty:
                self.is_stuck = True
                self._tell_stacks()
                raise PeerError(self._explained(f"{function}() did not return in {timeout:g} s")) from None
            if "event" in answer:
                self._events.append(answer)
                continue
            self.is_stuck = False
            if answer.get("id") == number:
                break
        if "error" in answer:
            kind, text = answer["error"], answer["text"]
            raise PeerError(f"{self.name}: {function}() raised:\n{answer['trace']}", kind=kind, text=text)
        return answer["value"]

    def event(self, event: str, timeout: float = CALL_SECONDS) -> dict[str, Any]:
        """The next event of that name, in the order in which they came; others stay for later."""
        deadline = time.monotonic() + timeout
        while True:
            for position, found in enumerate(self._events):
                if found["event"] == event:
                    return self._events.pop(position)
            try:
                answer = self._next(deadline)
            except queue.Empty:
                raise PeerError(self._explained(f"no '{event}' in {timeout:g} s")) from None
            if "event" in answer:
                self._events.append(answer)

    def close(self) -> None:
        """Ask it to end, and see to it that it does. May be called repeatedly."""
        if self._process.poll() is None:
            try:
                self._write({"call": "end", "id": 0, "with": {}})
                self._input.close()
                self._process.wait(END_SECONDS)
            except (OSError, PeerError, subprocess.TimeoutExpired):
                pass  # it is ended by force below
        self.kill()

    def kill(self) -> None:
        """End it at once, as a crash would."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(END_SECONDS)
        for reader in self._readers:
            reader.join(END_SECONDS)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                try:
                    stream.close()
                except OSError:  # what was left to write has no reader any more
                    continue

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, message: dict[str, Any]) -> None:
        try:
            self._input.write(json.dumps(message) + "\n")
            self._input.flush()
        except (OSError, ValueError) as error:
            raise PeerError(self._explained("the process has gone")) from error

    def _tell_stacks(self) -> None:
        """Have the process write where its threads are."""
        if self._stacks and self._process.poll() is None:
            self._process.send_signal(signal.SIGUSR1)
            told = "Current thread"  # of the stacks that faulthandler writes, the last one
            with suppress(AssertionError):
                until(lambda: any(told in line for line in list(self._errors)), timeout=STACK_SECONDS)

    def _next(self, deadline: float) -> dict[str, Any]:
        answer = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
        if answer is None:
            self._answers.put(None)
            raise PeerError(self._explained(f"the process ended with {self._process.wait(END_SECONDS)}"))
        return answer

    def _explained(self, text: str) -> str:
        tail = "\n".join(self._errors)
        return f"{self.name}: {text}" + (f"; it wrote:\n{tail}" if tail else "")

    def _read_answers(self, stream: IO[str]) -> None:
        for line in stream:
            try:
                answer = json.loads(line)
            except ValueError:
                self._errors.append(line.rstrip())
                continue
            if isinstance(answer, dict):
                self._answers.put(answer)
        self._answers.put(None)

    def _read_errors(self, stream: IO[str]) -> None:
        for line in stream:
            self._errors.append(line.rstrip())

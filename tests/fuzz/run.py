"""A mutation fuzz of raw calls on a live server: seeded, in several threads, watched, and kept for a replay."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from barrage_proto import flight_pb2

from barrage_server.errors import WireFormatError
from barrage_server.wire.commit_messages import CommitRequest, StageResult
from barrage_server.wire.metadata import SubscriptionOptions, SubscriptionRequest
from barrage_server.wire.protocol import COMMIT_ACTION
from barrage_server.wire.tickets import scope_ticket
from tests.fuzz import mutations, protobuf
from tests.fuzz.corpus import FLIGHT, STAGE_ROWS, Call, path_descriptor, valid_calls
from tests.fuzz.judge import GoodClient, complaint, settled
from tests.fuzz.known import ends_pyarrow
from tests.fuzz.senders import GrpcSender, Outcome, Sender, WebSender
from tests.live.figures import faults_of
from tests.live.process import ServerProcess

ENDPOINTS = ("flight", "grpc", "deephaven", "web")
"""Flight by each of its fronts, and the two ports for Deephaven's clients."""
PLAIN = ("flight", "grpc")
LIMITS = {
    "put_bytes": 64 << 20,
    "request_bytes": 4 << 20,
    "slow_client_seconds": 5.0,
    "idle_upload_seconds": 5.0,
    "goodbye_seconds": 0.2,
    "session_seconds": 20.0,
    "staging": {
        "total_bytes": 128 << 20,
        "entry_bytes": 64 << 20,
        "entries": 500,
        "expiry_seconds": 3.0,
        "lifetime_seconds": 5.0,
    },
}
THREADS = {"flight": 4, "grpc": 16, "deephaven": 16, "web": 16}
"""More where a call may have to wait some seconds for an export that no call defines."""
CHECK_EVERY = 1000
_KEPT = 400


class FuzzError(AssertionError):
    """Something that may never happen has happened; the text says how it is repeated."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run came to."""

    calls: int
    seconds: float
    codes: dict[str, int]
    before: str
    after: str

    def __str__(self) -> str:
        codes = ", ".join(f"{code} {count}" for code, count in sorted(self.codes.items(), key=lambda item: -item[1]))
        return f"{self.calls} calls, {self.calls / self.seconds:.0f}/s; {codes}; {self.before} -> {self.after}"


class Generator:
    """The calls of a seed: call number ``n`` is the same whatever was sent before it."""

    def __init__(self, seed: int, endpoint: str) -> None:
        self._seed = f"{seed}/{endpoint}"
        self._is_flight = endpoint == "flight"
        calls = [call for call in valid_calls() if endpoint not in PLAIN or not call.is_deephaven]
        self._groups: dict[str, list[Call]] = {}
        for call in calls:
            service, _, method = call.method.rpartition("/")
            self._groups.setdefault(method if service.endswith("FlightService") else service, []).append(call)
        puts = ["DoPut"] * 5 + ["DoExchange"] * 3
        self._names = [*self._groups, *puts]
        self._messages = [message for call in calls for message in call.messages]

    def chance(self, number: int) -> random.Random:
        return random.Random(f"{self._seed}/{number}")

    def call(self, number: int) -> Call:
        """A valid call with one thing or two wrong with it; a few have nothing wrong."""
        chance = self.chance(number)
        call = chance.choice(self._groups[chance.choice(self._names)])
        messages = list(call.messages)
        kind = chance.random()
        if kind < 0.04:
            return call
        if kind < 0.16:
            messages = mutations.damaged_sequence(messages, self._messages, chance)
        if kind > 0.12 and messages:
            for _ in range(chance.choice([1, 1, 1, 2])):
                place = chance.randrange(len(messages))
                if kind > 0.95:
                    messages[place] = mutations.spliced(messages[place], chance.choice(self._messages), chance)
                else:
                    messages[place] = mutations.damaged_message(messages[place], chance)
        if self._is_flight and ends_pyarrow(messages):
            return call
        return replace(call, messages=tuple(messages))

    def frames(self, frames: list[bytes], number: int) -> list[bytes] | None:
        """Websocket frames with something wrong with them; None for the many that are to be left as they are."""
        chance = self.chance(-number - 1)
        if chance.random() > 0.2:
            return None
        frames = mutations.damaged_sequence(frames, frames, chance)
        for place in range(len(frames)):
            if chance.random() < 0.5:
                frames[place] = mutations.damaged_bytes(frames[place], chance)
        return frames


@dataclass
class Fuzz:
    """One run against one endpoint.

    Args:
        server: the live server.
        endpoint: which of :data:`ENDPOINTS`.
        seed: of all choices.
        folder: where the last calls are left when something goes wrong.
        progress: told a line from time to time.
        survey: only a death ends the run; everything else is gathered in ``found``.
    """

    server: ServerProcess
    endpoint: str
    seed: int
    folder: Path
    progress: Callable[[str], None] = lambda _: None
    survey: bool = False
    recent: deque[tuple[int, Call]] = field(default_factory=lambda: deque(maxlen=_KEPT))
    codes: dict[str, int] = field(default_factory=dict)
    found: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _failure: str | None = None

    def run(self, calls: int) -> Summary:
        """Make the calls.

        Raises:
            FuzzError: a death, a hang, a leak, a traceback, or a good client that noticed something.
        """
        generator = Generator(self.seed, self.endpoint)
        began = time.monotonic()
        with GoodClient(self.server) as good:
            warm_up = min(CHECK_EVERY, max(100, calls // 4))
            done, before = 0, None
            while done < calls:
                until = min(calls, done + CHECK_EVERY) if before is not None else warm_up
                self._batch(generator, range(done, until))
                done = until
                self._check(good)
                if before is None:
                    self._judged(good.wait_for_rest)
                    before = self.server.settled()
                rate = done / (time.monotonic() - began)
                self.progress(f"{self.endpoint}: {done} of {calls} calls, {rate:.0f}/s, {self.server.figures()}")
            assert before is not None
            self._judged(good.wait_for_rest)
            after, found = settled(self.server, before, calls)
            if found and not self.survey:
                self._fail("; ".join(found))
            self.found += found
        return Summary(calls, time.monotonic() - began, dict(self.codes), str(before), str(after))

    def _batch(self, generator: Generator, numbers: range) -> None:
        rest = iter(numbers)

        def work() -> None:
            sender = sender_of(self.endpoint, self.server)
            try:
                while True:
                    with self._lock:
                        number = next(rest, None)
                        if number is None or self._failure is not None:
                            return
                    self._one(generator, sender, number)
            except Exception as error:
                self._failure = self._failure or f"the fuzz itself failed: {error!r}"
                raise
            finally:
                sender.close()

        threads = [threading.Thread(target=work, name=f"fuzz-{number}") for number in range(THREADS[self.endpoint])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if not self.server.is_alive:
            self._failure = f"the server died with {self.server.exit_code}"
        if self._failure is not None:
            self._fail(self._failure)

    def _one(self, generator: Generator, sender: Sender, number: int) -> None:
        call = generator.call(number)
        with self._lock:
            self.recent.append((number, call))
        outcome = make(generator, sender, call, number)
        wrong = complaint(outcome) if self.server.is_alive else f"the server died with {self.server.exit_code}"
        with self._lock:
            self.codes[outcome.code] = self.codes.get(outcome.code, 0) + 1
            if wrong is not None and self.survey and self.server.is_alive:
                self.found.append(f"call {number}, {call.method}: {wrong}")
            elif wrong is not None:
                self._failure = self._failure or f"call {number}, {call.method}: {wrong}"

    def _check(self, good: GoodClient) -> None:
        self._judged(good.check)
        faults = faults_of(self.server.log())
        if faults and not self.survey:
            self._fail("the server's log tells of a fault: " + " | ".join(faults[:5]))

    def _judged(self, step: Callable[[], None]) -> None:
        """Have the good client do something; whatever it meets is the server's fault."""
        try:
            step()
        except Exception as error:
            if self.survey and self.server.is_alive:
                self.found.append(f"a good client noticed something: {error!r}")
                return
            self._fail(f"a good client noticed something: {error!r}")

    def _fail(self, text: str) -> None:
        path = self.folder / f"fuzz-{self.endpoint}-{self.seed}.json"
        path.write_text(json.dumps({"endpoint": self.endpoint, "seed": self.seed, "calls": saved(self.recent)}))
        if not self.server.is_alive:
            text += f" (exit status {self.server.exit_code})"
        raise FuzzError(
            f"{text}\nlog: {self.server.log_path}\nrepeat: make fuzz ENDPOINT={self.endpoint} SEED={self.seed}\n"
            f"replay the last calls: python -m tests.fuzz replay {path}"
        )


def make(generator: Generator, sender: Sender, call: Call, number: int) -> Outcome:
    """Make a call, and what follows from its answer."""
    if isinstance(sender, WebSender):
        frames = generator.frames(sender.frames(call), number)
        if frames is not None:
            return sender.send_frames(frames)
        sender.next_stream -= 1
    outcome = sender.send(call)
    if call.then is None or complaint(outcome) is not None:
        return outcome
    for following in _following(call, outcome):
        answer = sender.send(following)
        if complaint(answer) is not None:
            return answer
    return outcome


def _following(call: Call, outcome: Outcome) -> list[Call]:
    kind, _, table = str(call.then).partition(" ")
    reading = []
    if kind == STAGE_ROWS:
        token = _staged_token(outcome)
        if token is None:
            return []
        body = CommitRequest("fuzz", table, 1 << 40, tokens=(token,), allow_gap=True).to_json()
        reading = [Call(FLIGHT + "DoAction", (flight_pb2.Action(type=COMMIT_ACTION, body=body).SerializeToString(),))]
    if outcome.code not in ("OK", "0", "READ"):
        return []
    ticket = scope_ticket(table)
    request = SubscriptionRequest(ticket, options=SubscriptionOptions(min_update_interval_ms=1)).encode()
    subscription = protobuf.field(1, b"\x08\x02" + protobuf.field(2, b"dphn")) + protobuf.field(3, request)
    return [
        *reading,
        Call(FLIGHT + "DoGet", (flight_pb2.Ticket(ticket=ticket).SerializeToString(),)),
        Call(FLIGHT + "DoExchange", (subscription,)),
        Call(FLIGHT + "GetFlightInfo", (path_descriptor(table),)),
    ]


def _staged_token(outcome: Outcome) -> str | None:
    for message in outcome.messages:
        for entry in protobuf.decode(message[9:] if message[:1] == b"\0" else message) or ():
            if isinstance(entry.value, bytes):
                try:
                    return StageResult.from_json(entry.value).token
                except WireFormatError:
                    continue
    return None


def server_for(endpoint: str, folder: Path) -> ServerProcess:
    """A server that has the endpoint; its log is in ``folder``."""
    return ServerProcess(folder, limits=LIMITS, front="grpc" if endpoint == "grpc" else "pyarrow")


def sender_of(endpoint: str, server: ServerProcess) -> Sender:
    """A client of that endpoint."""
    flight, deephaven, web = server.addresses
    address = {"deephaven": deephaven, "web": web}.get(endpoint, flight)
    return WebSender(address) if endpoint == "web" else GrpcSender(address)


def saved(calls: deque[tuple[int, Call]]) -> list[dict[str, object]]:
    """Calls as JSON."""
    return [
        {
            "number": number,
            "method": call.method,
            "messages": [message.hex() for message in call.messages],
            "waits": call.waits,
            "then": call.then,
            "session": call.session,
        }
        for number, call in calls
    ]


def loaded(path: Path) -> tuple[str, int, list[tuple[int, Call]]]:
    """Endpoint, seed and calls of a file that a failure has left."""
    content = json.loads(path.read_text())
    calls = []
    for entry in content["calls"]:
        messages = tuple(bytes.fromhex(text) for text in entry["messages"])
        calls.append(
            (entry["number"], Call(entry["method"], messages, entry["waits"], entry["then"], entry["session"]))
        )
    return content["endpoint"], content["seed"], calls

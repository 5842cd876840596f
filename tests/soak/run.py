"""Updates and sessions without end: what a server holds must be the same at every rest."""

from __future__ import annotations

import gc
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from barrage_server.client import Client
from tests.live.figures import faults_of
from tests.live.process import PATIENCE, Figures, ServerProcess
from tests.soak.sessions import KINDS_OF_SESSION, clear
from tests.waiting import until

__all__ = ["LIMITS", "Soak", "SoakError", "Summary", "grown"]

LIMITS = {
    "session_seconds": 20.0,
    "slow_client_seconds": 10.0,
    "retain_seconds": 5.0,
    "staging": {"expiry_seconds": 10.0, "lifetime_seconds": 15.0},
}
WARM = 0.4
"""The share of the rounds after which everything that is made once has been made."""
_GROWTH = 0.02
_FEW = 2
"""Threads and descriptors beyond that: gRPC's own pools make and end them as they like."""


class SoakError(AssertionError):
    """A server that does not return to what it held."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A run, and the figures after its warm-up and at its end."""

    updates: int
    sessions: dict[str, int]
    seconds: float
    before: Figures
    after: Figures

    def __str__(self) -> str:
        kinds = ", ".join(f"{name} {count}" for name, count in sorted(self.sessions.items()))
        growth = self.after.memory / self.before.memory - 1
        return (
            f"{self.updates:,} updates and {sum(self.sessions.values()):,} sessions ({kinds}) in {self.seconds:.0f} s: "
            f"{self.before} -> {self.after}, memory {growth:+.2%}"
        )


def grown(before: Figures, after: Figures, slack: int = 0) -> list[str]:
    """The figures that have grown by more than 2 %; memory by ``slack`` bytes more."""
    found = []
    if after.memory > before.memory * (1 + _GROWTH) + slack:
        found.append(f"memory grew from {before.memory >> 10:,} to {after.memory >> 10:,} KiB")
    for name in ("threads", "descriptors"):
        first, last = getattr(before, name), getattr(after, name)
        if last > first * (1 + _GROWTH) + _FEW:
            found.append(f"{name} grew from {first} to {last}")
    return found


class Soak:
    """One run on one server.

    Args:
        server: the live server.
        seed: of all choices.
        tell: called with a line for each round.
        clients: clients at a time.

    """

    def __init__(
        self, server: ServerProcess, seed: int, tell: Callable[[str], None] = lambda _: None, clients: int = 4
    ) -> None:
        self._server = server
        self._seed = seed
        self._tell = tell
        self._clients = clients
        self._lock = threading.Lock()
        self._begun = 0
        self._sessions: dict[str, int] = {}
        self._errors: list[str] = []

    def run(self, updates: int, sessions: int, rounds: int, *, slack: int = 0) -> Summary:
        """Share both out among the rounds; compare the rest after the warm-up with the last one.

        ``slack``: bytes of memory that may be held beyond the growth that is allowed.

        Raises:
            SoakError: something has grown, or went wrong.

        """
        began = time.monotonic()
        warm = max(1, round(rounds * WARM))
        self._server.command(do="make updates", seed=self._seed)
        before: Figures | None = None
        done = 0
        for number in range(rounds):
            until_now = updates * (number + 1) // rounds
            self._round(until_now - done, sessions * (number + 1) // rounds)
            done = until_now
            after = self._rest(before, slack)
            self._tell(f"round {number + 1}: {done:,} updates, {self._begun:,} sessions, {after}")
            if number + 1 == warm:
                before = after
        assert before is not None
        found = grown(before, after, slack)
        found += [f"the log says: {line}" for line in faults_of(self._server.log())[:5]]
        if found:
            raise SoakError("; ".join(found))
        return Summary(done, dict(self._sessions), time.monotonic() - began, before, after)

    def _round(self, updates: int, last: int) -> None:
        """Make ``updates`` updates, and open sessions up to number ``last``, at the same time."""
        threads = [threading.Thread(target=self._visit, args=(last,), daemon=True) for _ in range(self._clients)]
        for thread in threads:
            thread.start()
        self._server.command(do="update", count=updates)
        for thread in threads:
            while thread.is_alive():
                thread.join(PATIENCE)
        if self._errors:
            raise SoakError("; ".join(self._errors[:3]))

    def _visit(self, last: int) -> None:
        while not self._errors:
            with self._lock:
                number = self._begun
                if number >= last:
                    return
                self._begun += 1
            chance = random.Random(f"{self._seed}/{number}")
            kind = chance.choice(KINDS_OF_SESSION)
            try:
                kind(self._server, chance, f"made_{number}")
            except Exception as error:
                self._errors.append(f"session {number}, {kind.__name__}: {error!r}")
                return
            with self._lock:
                self._sessions[kind.__name__] = self._sessions.get(kind.__name__, 0) + 1

    def _rest(self, before: Figures | None, slack: int) -> Figures:
        """The figures once no session is left; while they are above those ``before``, for a while, the least."""
        gc.collect()  # clients of this process that hold connections
        with Client(self._server.flight) as client:
            until(lambda: not _left(client, self._server), what="sessions end with their clients")
        found = self._server.settled()

        def is_flat() -> bool:
            nonlocal found
            gc.collect()
            now = self._server.settled()
            found = Figures(*(min(pair) for pair in zip(_parts(found), _parts(now), strict=True)))
            return before is not None and not grown(before, found, slack)

        # threads of pools end when they have had nothing to do for a while
        deadline = time.monotonic() + 15.0
        until(lambda: is_flat() or time.monotonic() > deadline, what="a rest", pause=0.5)
        return found


def _parts(figures: Figures) -> tuple[int, int, int]:
    return figures.memory, figures.threads, figures.descriptors


def _left(client: Client, server: ServerProcess) -> bool:
    """Whether something of a session is there. Tables that sessions have left behind are dropped."""
    clear(server)
    figures = client.statistics()
    counts = (figures[name] for name in ("uploads", "downloads", "sessions", "exports"))
    return bool(figures["staging"]["entries"] or figures["subscriptions"] or any(counts))

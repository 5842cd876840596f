"""Subscribers in a process of their own: whole tables and viewports, which must be what the server has."""

from __future__ import annotations

import hashlib
import random
import sys
from typing import Any

import numpy as np
import pyarrow as pa

import barrage_server as bs
from tests.faults.child import serve
from tests.waiting import until


def digest(rows: pa.Table, keys: np.ndarray[Any, Any] | None) -> str:
    """Of rows, and of their row keys, in their order."""
    made = hashlib.sha256(b"" if keys is None else keys.tobytes())
    for column in rows.columns:
        made.update(repr(column.to_pylist()).encode())
    return made.hexdigest()


class Follower:
    """A live table, which is opened anew only when it has failed for good."""

    def __init__(self, client: bs.Client, name: str, viewport: tuple[int, int] | None, *, reverse: bool) -> None:
        self._client = client
        self.name = name
        self.viewport = viewport
        self.reverse = reverse
        self._live: bs.LiveTable | None = None

    def agrees(self, wanted: str) -> bool:
        live = self._open()
        if live.state is bs.LiveState.FAILED and isinstance(live.error, bs.UnknownTableError):
            self._live = None  # a relay that was started again does not have the table yet
            return False
        if live.state is bs.LiveState.FAILED:
            raise AssertionError(f"the subscription to {self.name} has failed: {live.error!r}")
        return live.state is bs.LiveState.LIVE and self.seen() == wanted

    def seen(self) -> str:
        assert self._live is not None
        version = self._live.version
        return digest(version.to_table(), version.row_set.keys() if self.viewport is None else None)

    def __str__(self) -> str:
        return f"{self.name} {self.viewport} reverse={self.reverse}: {self._live!r} {self._live and self._live.error!r}"

    def _open(self) -> bs.LiveTable:
        if self._live is None:
            window = None if self.viewport is None else range(*self.viewport)
            self._live = self._client.subscribe(self.name, viewport=window, reverse=self.reverse, interval_ms=1)
        return self._live


def main(uri: str, seed: str) -> None:
    chance = random.Random(seed)
    retry = bs.RetryPolicy(first_delay=0.05, max_delay=0.5, deadline=None)
    client = bs.connect(uri, timeout=5.0, wait=120.0, retry=retry)
    followers: list[Follower] = []

    def follow(tables: list[str]) -> dict[str, Any]:
        """Follow each table, and a part of it. The answer: what this process must agree with."""
        known = {entry.name for entry in followers}
        for name in tables:
            if name not in known:
                first = chance.randrange(30)
                window = (first, first + chance.randint(1, 60))
                followers.append(Follower(client, name, None, reverse=False))
                followers.append(Follower(client, name, window, reverse=chance.random() < 0.5))
        return {"views": [[entry.name, entry.viewport, entry.reverse] for entry in followers]}

    def agree(digests: list[str], seconds: float) -> None:
        """Return when every view has what ``digests`` say."""
        for follower, wanted in zip(followers, digests, strict=True):

            def agrees(follower: Follower = follower, wanted: str = wanted) -> bool:
                try:
                    return follower.agrees(wanted)
                except (bs.UnavailableError, bs.DeadlineError, bs.UnknownTableError):
                    return False  # it could not be opened yet, or the relay does not have it yet

            until(agrees, seconds, pause=0.02, what=str(follower))

    serve({"follow": follow, "agree": agree})


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Subscribers: each follows one table after another, in all the ways that there are."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

import barrage_server as bs
from barrage_server.rowset import RowSet
from tests.live.process import PATIENCE
from tests.stress.cells import Row, rows

# What a subscriber may meet while connections are cut, servers restart, and tables are dropped and made anew.
PASSING = (bs.UnavailableError, bs.DeadlineError, bs.UnknownTableError, bs.UnknownColumnError, bs.SchemaMismatchError)


class Subscriber:
    """Follows a table; its viewport and columns change, it comes and goes.

    Args:
        name: of its own, for what is said about it.
        seed: of its choices.
        address: where it connects to, through whatever disturbs it.
        tables: names to choose from.
    """

    def __init__(self, name: str, seed: str, address: str, tables: Sequence[str]) -> None:
        self.name = name
        self.chance = random.Random(f"{seed}/{name}")
        self.table = ""
        self.live: bs.LiveTable | None = None
        self._address = address
        self._tables = tables
        self._client: bs.Client | None = None
        self._dialect: str | None = None

    def step(self) -> None:
        """Do something, which may fail in passing."""
        try:
            if self.live is None or self.live.state in (bs.LiveState.FAILED, bs.LiveState.CLOSED):
                self.open()
            elif self.chance.random() < 0.2:
                self.leave()
            elif self.chance.random() < 0.7:
                self._move(self.live)
        except PASSING:
            self.leave()

    def open(self) -> None:
        """Subscribe anew, to any table."""
        self.leave()
        chance = self.chance
        if self._client is not None and chance.random() < 0.3:
            self._client.close()
            self._client = None
        if self._client is None:
            retry = bs.RetryPolicy(first_delay=0.05, max_delay=0.5, deadline=None)
            self._client = bs.connect(self._address, timeout=PATIENCE, wait=PATIENCE, retry=retry)
        self.table = chance.choice(self._tables)
        self._dialect = chance.choice([None, "key-space", "flattened"])
        viewport, reverse = self._viewport()
        self.live = self._client.subscribe(
            self.table,
            columns=None,
            viewport=viewport,
            reverse=reverse,
            interval_ms=chance.choice([1, 1, 10, 50]),
            dialect=self._dialect,
        )

    def leave(self) -> None:
        """End the subscription, if there is one."""
        live, self.live = self.live, None
        if live is not None:
            live.close()

    def close(self) -> None:
        self.leave()
        if self._client is not None:
            self._client.close()
            self._client = None

    def ready(self) -> None:
        """Have a subscription that lives, now that nothing disturbs it."""
        if self.live is None or self.live.state in (bs.LiveState.FAILED, bs.LiveState.CLOSED):
            self.open()

    def seen(self) -> list[Row]:
        """The rows in view."""
        assert self.live is not None
        return rows(self.live.to_arrow())

    def expected(self, content: list[Row], names: Sequence[str]) -> list[Row]:
        """Those of the table's rows that ought to be in view, with the columns that are."""
        live = self.live
        assert live is not None
        numbers = [names.index(name) for name in live.schema.names if name in names]
        chosen = content
        if live.viewport is not None:
            size = len(content)
            wanted = live.viewport.restrict(0, size - 1).keys().tolist() if size else []
            positions = sorted(size - 1 - position for position in wanted) if live.is_reverse else wanted
            chosen = [content[position] for position in positions]
        return [tuple(row[number] for number in numbers) for row in chosen]

    def __str__(self) -> str:
        live = self.live
        view = "" if live is None else f" {live!r} viewport {live.viewport} reverse {live.is_reverse}"
        return f"{self.name}: {self.table} {self._dialect}{view}"

    def _move(self, live: bs.LiveTable) -> None:
        viewport, reverse = self._viewport()
        names = live.table.schema.names
        columns = self.chance.choice([None, self.chance.sample(names, self.chance.randint(1, len(names)))])
        live.set_viewport(viewport, columns, reverse=reverse, timeout=PATIENCE)

    def _viewport(self) -> tuple[RowSet | None, bool]:
        chance = self.chance
        kind = chance.randrange(6)
        if kind == 0:
            return None, False
        if kind == 1:
            return RowSet.empty(), chance.random() < 0.5
        if kind == 2:  # scattered
            keys = sorted(chance.sample(range(400), chance.randint(1, 40)))
            return RowSet.from_keys(np.array(keys, np.int64)), chance.random() < 0.5
        if kind == 3:  # beyond the end
            return RowSet.from_range(chance.randrange(100), 1 << chance.choice([10, 40])), chance.random() < 0.5
        first = chance.randrange(300)
        return RowSet.from_range(first, first + chance.randrange(60)), chance.random() < 0.5

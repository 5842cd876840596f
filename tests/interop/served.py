"""Tables of a server that change at random, each with a model of what it must contain."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import barrage_server as bs
from barrage_server import Server
from barrage_server.engine import Table, UpdateGraph
from tests.properties.sources import (
    SCHEMA,
    AppendSource,
    KeyedSource,
    ReplacedSource,
    RingSource,
    Row,
    ShiftingSource,
    Source,
)
from tests.waiting import until

__all__ = ["KINDS", "Served", "served"]


class Served:
    """A table of the server, and the source that changes it."""

    def __init__(self, source: Source) -> None:
        self.source = source

    @property
    def table(self) -> Table:
        """The server's table."""
        return self.source.table

    def change(self, chance: random.Random, times: int = 1) -> None:
        """Change it, each time in a cycle of its own."""
        for _ in range(times):
            self.source.change(chance)

    def settle(self) -> None:
        """Wait until the server has it all."""


class _Append(AppendSource):
    """Rows are added at the end."""

    def __init__(self, server: Server) -> None:
        self.table = self.rows = server.append_table("t", SCHEMA)
        self.model: list[Row] = []


class _Ring(RingSource):
    """The oldest rows go."""

    def __init__(self, server: Server) -> None:
        self.table = self.rows = server.ring_table("t", SCHEMA, capacity=self.CAPACITY)
        self.model: list[Row] = []


class _Keyed(KeyedSource):
    """Rows are added, changed cell by cell, and removed."""

    def __init__(self, server: Server) -> None:
        self.table = self.rows = server.keyed_table("t", SCHEMA, key=["key"])
        self.model: dict[int, Row] = {}


class _Replaced(ReplacedSource):
    """Everything is replaced, row by row."""

    def __init__(self, server: Server) -> None:
        self.table = self.rows = server.replaced_table("t", SCHEMA)
        self.model: list[Row] = []


class _Moving(Served):
    """A sorted table of another process, published to the server, with shifts."""

    def __init__(self, source: ShiftingSource, server: Server, publication: bs.Publication) -> None:
        super().__init__(source)
        self._table = server.table("t")
        self._publication = publication

    @property
    def table(self) -> Table:
        """The server's table, which follows the source's."""
        return self._table

    def settle(self) -> None:
        """Wait until the server has it all."""
        self._publication.flush()
        until(lambda: self._table.to_arrow().equals(self.source.table.to_arrow()))


_KINDS: Final[dict[str, Callable[[Server], Source]]] = {
    "append": _Append,
    "ring": _Ring,
    "keyed": _Keyed,
    "replaced": _Replaced,
}
KINDS: Final = [*_KINDS, "moving"]


@contextmanager
def served(kind: str, server: Server) -> Iterator[Served]:
    """A table ``t`` of ``server`` of one of the :data:`KINDS`."""
    if kind == "moving":
        source = ShiftingSource(UpdateGraph())
        with bs.connect(server.uri) as client, client.publish_live("t", source.table, interval_ms=1) as publication:
            yield _Moving(source, server, publication)
    else:
        yield Served(_KINDS[kind](server))

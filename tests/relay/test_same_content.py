"""Whatever happens upstream, what is served here is always one of its versions, and in the end the last one."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

import barrage_server as bs
from barrage_server.engine import Table, TableUpdate, TableVersion
from barrage_server.engine.alias import alias
from barrage_server.flight.sockets import shut_all
from barrage_server.rowset import RowSet
from tests.properties.sources import SOURCES, PartSource, Row, Source, rows_of
from tests.waiting import until

KINDS = list(dict.fromkeys(SOURCES))
ROUNDS, CHANGES = 12, 8


class Versions:
    """All contents that a table has had: row keys, and the rows."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.seen: list[tuple[RowSet, list[Row]]] = []
        self._add(table.version)
        table.add_listener(self._changed)

    def _changed(self, _update: TableUpdate, _before: TableVersion, after: TableVersion) -> None:
        self._add(after)

    def _add(self, version: TableVersion) -> None:
        self.seen.append((version.row_set, rows_of(version.to_table())))


@pytest.fixture
def far() -> Iterator[bs.Server]:
    """Follows the relay."""
    with bs.Server() as far:
        yield far


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("seed", [1, 2])
def test_every_version_is_one_of_upstream_and_the_last_one_is_the_last(
    relay: bs.Server, far: bs.Server, kind: type[Source], seed: int
) -> None:
    chance = random.Random(seed)
    with bs.Server() as upstream, bs.connect(far.uri) as client:
        source = kind(upstream.graph)
        # a part of a table has the name of that: under another one it is served as an alias
        upstream.add_table("t", alias(source.table, "t") if kind is PartSource else source.table)
        for _ in range(chance.choice([0, 5])):
            source.change(chance)
        first = relay.follow(f"{upstream.uri}/t", interval_ms=1)
        second = far.follow(f"{relay.uri}/t", name="t2", interval_ms=2)
        tables = [Versions(table) for table in (source.table, first.table, second.table)]
        with client.subscribe("t2", interval_ms=1) as live:
            for _ in range(ROUNDS):
                for _ in range(chance.randrange(CHANGES)):
                    source.change(chance)
                if chance.random() < 0.2:  # a quiet point is also reached over a stream that was cut
                    shut_all(upstream.port)
                source.check()
                expected = (source.table.version.row_set, rows_of(source.table.to_arrow()))
                for shown in (first.table, second.table, live):
                    _until_it_shows(shown, expected)
        upstream_versions = tables[0].seen
        for copy in tables[1:]:
            assert first.table is tables[1].table
            assert all(version in upstream_versions for version in copy.seen)
            assert copy.seen[-1] == upstream_versions[-1]
        second.close()
        first.close()


def _until_it_shows(shown: Table | bs.LiveTable, expected: tuple[RowSet, list[Row]]) -> None:
    def shows() -> bool:
        version = shown.version
        return (version.row_set, rows_of(version.to_table())) == expected

    until(shows)

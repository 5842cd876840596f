"""A client of an earlier start has a part of the present history, or is told that it has not: also after crashes."""

from __future__ import annotations

import copy
import json
import random

import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.engine import UpdateGraph
from barrage_server.errors import JournalError
from barrage_server.journal.lineage import LINEAGE, forget_segment, last_segment, read_lineage, write_lineage
from barrage_server.server.catalog import Catalog
from barrage_server.server.durability import Durability
from barrage_server.server.durable_tables import is_durable
from barrage_server.server.fsync import Fsync
from barrage_server.wire.protocol import TableKind
from barrage_server.wire.resume import MOST_ERAS, Era, Lineage, ResumePoint
from barrage_server.wire.table_spec import TableSpec
from tests.journal.simulated import Content, Machine, SimulatedFolder

SCHEMA = pa.schema([("v", pa.int64())])


class Site:
    """A server without ports, with one table."""

    def __init__(self, root: SimulatedFolder) -> None:
        self.graph = UpdateGraph()
        self.durability = Durability(root, self.graph, Fsync.OS)
        self.catalog = Catalog(self.graph, is_durable=is_durable)
        self.catalog.restore(self.durability.recovered.tables.values())
        self.durability.attach(tuple)
        self.table, _ = self.catalog.ensure("t", SCHEMA, TableSpec(TableKind.APPEND))

    @property
    def lineage(self) -> Lineage:
        return self.durability.lineage

    def append(self, value: int) -> tuple[str, int]:
        """Write a row; what a client that has seen it names."""
        self.table.append({"v": [value]})  # type: ignore[attr-defined]
        return self.lineage.present.id, self.table.version.step

    @property
    def content(self) -> list[int]:
        values: list[int] = self.table.to_arrow()["v"].to_pylist()
        return values


@pytest.mark.parametrize("seed", range(30))
def test_a_point_holds_exactly_if_what_was_seen_at_it_was_not_lost(seed: int) -> None:
    """Starts that end in crashes, which lose what was not synced: of each point the content that was seen is known."""
    rng = random.Random(seed)
    root = SimulatedFolder(Machine())
    seen: dict[tuple[str, int], list[int]] = {}
    value = 0
    for _ in range(5):
        site = Site(root)
        for (era, step), content in seen.items():
            is_part = site.content[: len(content)] == content
            if site.lineage.holds(era, step):
                assert is_part
            else:  # values are written once: a part that is there was not lost
                assert not is_part
        for _ in range(rng.randrange(1, 6)):
            value += 1
            point = site.append(value)
            seen[point] = site.content
            if rng.random() < 0.4:
                site.durability.sync()
        root = root.after_crash(rng, Machine())


def test_a_crash_at_any_write_of_a_start_leaves_a_lineage() -> None:
    root = SimulatedFolder(Machine())
    site = Site(root)
    point = site.append(1)
    site.durability.sync()
    crashes: list[SimulatedFolder] = []
    root.machine.watch = lambda: crashes.append(root.after_crash(random.Random(len(crashes)), Machine()))
    Site(root)
    root.machine.watch = None
    assert len(crashes) > 5  # the lineage is written, synced and renamed
    for left in crashes:
        again = Site(left)
        assert again.lineage.holds(*point)
        assert again.content == [1]


@pytest.mark.parametrize("damage", [b"", b"x", b"\n{}", b'0000000000000000\n{"eras": []}', bytes(100)])
def test_a_damaged_lineage_is_none_and_does_not_stop_the_start(damage: bytes) -> None:
    root = SimulatedFolder(Machine())
    site = Site(root)
    point = site.append(1)
    site.durability.sync()
    root.remove(LINEAGE)
    file = root.create(LINEAGE)
    file.write([damage])
    assert read_lineage(root) == Lineage(())
    again = Site(root)
    assert again.content == [1]
    assert not again.lineage.holds(*point)
    assert len(read_lineage(root).eras) == 1


def lineage_file(root: SimulatedFolder) -> bytes:
    return bytes(root.read(LINEAGE))


def replace_lineage(root: SimulatedFolder, content: bytes) -> None:
    root.remove(LINEAGE)
    root.create(LINEAGE).write([content])


@pytest.mark.parametrize("saves", [True, False])
def test_a_lineage_that_is_older_than_the_journal_is_none(saves: bool) -> None:
    """It does not know that a crash took back a step that its last era had shown."""
    root = SimulatedFolder(Machine())
    site = Site(root)
    site.append(1)
    site.durability.sync()
    older = lineage_file(root)
    lost = site.append(2)
    root = copy.deepcopy(root)
    (name,) = root.folder("journal").names()
    content = root.folder("journal").entries[name]
    assert isinstance(content, Content)
    del content.data[content.synced :]  # the crash
    for value in (3, 4):
        site = Site(root)
        assert not site.lineage.holds(*lost)
        site.append(value)
        if saves:
            site.durability.save()
        site.durability.sync()
    point = site.append(5)
    site.durability.sync()
    replace_lineage(root, older)
    again = Site(root)
    assert again.content == [1, 3, 4, 5]
    assert not again.lineage.holds(*lost)
    assert not again.lineage.holds(*point)


def test_the_lineage_of_another_directory_is_none() -> None:
    root, other = SimulatedFolder(Machine()), SimulatedFolder(Machine())
    points = []
    for folder in (root, other):
        site = Site(folder)
        points.append(site.append(1))
        site.durability.sync()
    replace_lineage(root, lineage_file(other))
    again = Site(root)
    assert not any(again.lineage.holds(*point) for point in points)


def test_a_lineage_that_is_newer_than_the_journal_holds_what_the_journal_has() -> None:
    """The journal may be that of a backup. It lacks a segment then, which one has to say that one does without."""
    root = SimulatedFolder(Machine())
    site = Site(root)
    point = site.append(1)
    site.durability.sync()
    backup = copy.deepcopy(root)
    later = site.append(2)
    site.durability.sync()
    Site(root)
    replace_lineage(backup, lineage_file(root))
    with pytest.raises(JournalError, match=r"segment \d{20}\.log of the journal is missing"):
        Site(backup)
    forget_segment(backup)
    again = Site(backup)
    assert again.lineage.holds(*point)
    assert not again.lineage.holds(*later)


eras = st.lists(st.integers(0, 20), min_size=1, max_size=6)


@given(eras, st.integers(0, 30), st.integers(0, 7))
def test_a_point_holds_if_no_later_start_began_before_it(steps: list[int], step: int, number: int) -> None:
    lineage = Lineage(tuple(Era(str(place), began) for place, began in enumerate(steps)))
    expected = number < len(steps) and all(step <= later for later in steps[number + 1 :])
    assert lineage.holds(str(number), step) == expected


def test_the_lineage_is_bounded_and_read_as_it_was_written() -> None:
    lineage = Lineage(())
    for number in range(MOST_ERAS + 7):
        lineage = lineage.followed_by(Era(f"{number:x}", number))
    root = SimulatedFolder(Machine())
    write_lineage(root, lineage)
    write_lineage(root, lineage)
    assert read_lineage(root) == lineage
    assert len(lineage.eras) == MOST_ERAS
    assert not lineage.holds("6", 0)
    assert lineage.holds("7", 7)


def test_the_last_segment_is_known_to_its_own_directory_until_it_is_forgotten() -> None:
    root, lineage = SimulatedFolder(Machine()), Lineage((Era("a", 3),))
    assert last_segment(root, "one") == 0
    write_lineage(root, lineage, "one", 7)
    assert (last_segment(root, "one"), last_segment(root, "another")) == (7, 0)
    forget_segment(root)
    assert last_segment(root, "one") == 0
    assert read_lineage(root) == lineage
    write_lineage(root, lineage, "one", 7)
    replace_lineage(root, lineage_file(root)[:-3])
    assert last_segment(root, "one") == 0
    forget_segment(root)  # a damaged file is left as it is
    assert read_lineage(root) == Lineage(())


def test_the_lineage_of_an_earlier_version_names_no_segment() -> None:
    root = SimulatedFolder(Machine())
    text = json.dumps({"eras": [{"id": "a", "step": 3}]}).encode()
    root.replace(LINEAGE, [f"{xxhash.xxh3_64_hexdigest(text)}\n".encode(), text])
    assert read_lineage(root) == Lineage((Era("a", 3),))
    assert last_segment(root, "") == 0


@given(st.text(max_size=40))
def test_any_header_is_a_point_or_none(header: str) -> None:
    point = ResumePoint.decode(header)
    assert point is not None
    if point.lineage:
        assert ResumePoint.decode(point.encode()) == point
        assert 0 <= point.step < 10**18
    assert ResumePoint.decode(None) is None


@given(st.from_regex(r"\A[!-~]{1,200}\Z"), st.integers(0, 10**18 - 1))
def test_a_point_is_read_as_it_was_written(lineage: str, step: int) -> None:
    point = ResumePoint(lineage, step)
    assert ResumePoint.decode(point.encode()) == point

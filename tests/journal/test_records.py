"""Records: every change of a byte is noticed, and what a crash tears off is told from damage."""

from __future__ import annotations

import errno
import os
import random
import sys
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.errors import JournalError
from barrage_server.journal.files import OsDirectory
from barrage_server.journal.record import HEADER_BYTES, RecordType, encode_record, find_records, read_records
from barrage_server.journal.segments import Journal, cut_journal, read_journal, reserve_segment, segment_names
from tests.journal.simulated import Machine, SimulatedFolder

BODIES = st.lists(st.binary(max_size=50), max_size=8)


def encoded(bodies: list[bytes], synced: int = 0, first: int = 0) -> bytes:
    parts = [encode_record(RecordType.CYCLE, number, [body], synced)[0] for number, body in enumerate(bodies, first)]
    return b"".join(bytes(part) for record in parts for part in record)


def bodies_in(data: bytes) -> list[bytes]:
    return [bytes(record.body) for record in read_records(memoryview(data))]


@given(BODIES)
def test_records_come_back(bodies: list[bytes]) -> None:
    data = encoded(bodies)
    assert bodies_in(data) == bodies
    assert [record.number for record in read_records(memoryview(data))] == list(range(len(bodies)))
    assert len(data) % 8 == 0


@given(BODIES, st.data())
def test_what_is_cut_off_takes_whole_records_with_it(bodies: list[bytes], data: st.DataObject) -> None:
    whole = encoded(bodies)
    left = bodies_in(whole[: data.draw(st.integers(0, len(whole)))])
    assert left == bodies[: len(left)]


@given(st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=8), st.data())
def test_a_changed_bit_ends_the_records_before_it(bodies: list[bytes], data: st.DataObject) -> None:
    content = bytearray(encoded(bodies))
    ends = [record.end for record in read_records(memoryview(bytes(content)))]
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    left = bodies_in(bytes(content))
    number = next(number for number, end in enumerate(ends) if place < end)
    # Padding is not under the checksum: it means nothing.
    assert left in (bodies[:number], bodies)
    if left == bodies:
        assert place >= ends[number] - 7


@given(BODIES, st.binary(min_size=HEADER_BYTES, max_size=100), BODIES)
def test_records_are_found_behind_anything(before: list[bytes], between: bytes, after: list[bytes]) -> None:
    between += bytes(-len(between) % 8)
    data = encoded(before) + between + encoded(after, first=len(before) + 1)
    found = [bytes(record.body) for record in find_records(memoryview(data), len(encoded(before)), len(before))]
    assert found[len(found) - len(after) :] == after


def journal(path: Path, syncs: bool) -> OsDirectory:
    directory = OsDirectory(path)
    written = Journal(directory, "here", 0, "era")
    for number in range(10):
        written.append(RecordType.CYCLE, [b"body %d" % number * 10])
        if syncs:
            written.sync()
    written.close()
    return directory


def numbers(directory: OsDirectory, repair: bool = True) -> list[int]:
    return [record.number for record in read_journal(directory, "here", 0, repair=repair)]


@given(st.lists(st.tuples(st.integers(0, 900), st.booleans()), max_size=12), st.randoms(use_true_random=False))
def test_a_crash_beside_zeros_ahead_leaves_what_was_synced(steps: list[tuple[int, bool]], rng: random.Random) -> None:
    """Of the other records, it leaves those up to one of them."""
    folder, crashes = SimulatedFolder(Machine()), list[tuple[SimulatedFolder, int]]()
    safe = 0  # records that must be there
    reserve_segment(folder, 0)
    folder.machine.watch = lambda: crashes.append((folder.after_crash(rng, Machine()), safe))
    written = Journal(folder, "here", 0, "era", ahead=8000)
    for number, (length, syncs) in enumerate(steps, start=1):
        written.append(RecordType.CYCLE, [bytes([number]) * length])
        if syncs:
            safe = written.sync()
    for left, known in crashes:
        torn = list[str]()
        for repair in (False, True, False):
            found = list(read_journal(left, "here", 0, repair=repair, torn=torn.append))
            assert known <= len(found) <= len(steps) + 1
            assert all(set(record.body) <= {record.number} for record in found[1:])
        assert len(torn) in (0, 2)  # what is torn is cut off once


def test_zeros_ahead_of_records_are_cut_off(tmp_path: Path) -> None:
    """By the end of the segment, or without a word by the start after a crash."""
    directory, sizes = OsDirectory(tmp_path), list[int]()
    written = Journal(directory, "here", 0, "era", ahead=8000)

    def write() -> Path:
        for number in range(10):
            written.append(RecordType.CYCLE, [bytes(100 * number)])
            written.sync()
        sizes.append(written.segment.size)
        segment = tmp_path / written.segment.name
        assert sizes[-1] < segment.stat().st_size <= sizes[-1] + 8000
        return segment

    first = write()
    written.rotate()
    assert first.stat().st_size == sizes[0]
    last = write()
    for repair in (False, True):  # as after a crash: the journal is not closed
        torn = list[str]()
        found = read_journal(directory, "here", 0, repair=repair, torn=torn.append)
        assert [record.number for record in found] == list(range(22))
        assert not torn
        assert (last.stat().st_size == sizes[1]) is repair
    written.append(RecordType.CYCLE, [bytes(8000)])  # too large to write it twice
    assert last.stat().st_size == written.segment.size
    write()
    assert written.close() == written.number


def test_zeros_that_were_not_written_ahead_are_told(tmp_path: Path) -> None:
    """They are records that a loss of power has emptied, or damage where there is a later segment."""
    directory = journal(tmp_path, syncs=False)
    (name,) = segment_names(directory)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-100] + bytes(100))
    torn = list[str]()
    assert len(list(read_journal(directory, "here", 0, repair=False, torn=torn.append))) == 10
    assert "torn record" in torn[0]
    whole = Journal(OsDirectory(tmp_path / "other"), "here", 0, "era", ahead=8000)
    for _ in range(3):
        whole.append(RecordType.CYCLE, [b"x" * 100])
    first = tmp_path / "other" / whole.segment.name
    whole.sync()
    whole.rotate()
    whole.close()
    size = first.stat().st_size
    first.write_bytes(first.read_bytes()[:-100] + bytes(100))
    with pytest.raises(JournalError, match=f"{first.name}.*incomplete"):
        numbers(OsDirectory(tmp_path / "other"))
    assert first.stat().st_size == size


@pytest.mark.parametrize("room", [0, 100])
def test_a_disk_without_room_for_zeros_takes_records(
    tmp_path: Path, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwritev = os.pwritev

    def filled(descriptor: int, parts: list[memoryview], place: int) -> int:
        if sum(map(len, parts)) < 8000:
            return pwritev(descriptor, parts, place)
        if not room or os.fstat(descriptor).st_size > place:
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwritev(descriptor, [parts[0][:room]], place)

    monkeypatch.setattr(os, "pwritev", filled)
    written = Journal(OsDirectory(tmp_path), "here", 0, "era", ahead=8000)
    for number in range(20):
        assert written.append(RecordType.CYCLE, [bytes(20)]) == number + 1
    written.sync()
    assert numbers(OsDirectory(tmp_path)) == list(range(21))


def test_some_zeros_on_a_full_disk_are_cut_off_with_the_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwritev = os.pwritev

    def filled(descriptor: int, parts: list[memoryview], place: int) -> int:
        if sum(map(len, parts)) == 8000:
            return pwritev(descriptor, [parts[0][:100]], place)
        if sum(map(len, parts)) > 7000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwritev(descriptor, parts, place)

    monkeypatch.setattr(os, "pwritev", filled)
    written = Journal(OsDirectory(tmp_path), "here", 0, "era", ahead=8000)
    written.append(RecordType.CYCLE, [b"one"])
    first = tmp_path / written.segment.name
    assert first.stat().st_size == written.segment.size + 100
    written.sync()
    written.rotate()
    written.append(RecordType.CYCLE, [b"two"])
    written.close()
    assert numbers(OsDirectory(tmp_path)) == list(range(4))


def test_an_interrupt_leaves_a_whole_record_or_none(tmp_path: Path) -> None:
    """In whichever call it comes."""
    calls = place = 0
    while calls >= place:
        directory = OsDirectory(tmp_path / str(place))
        written = Journal(directory, "here", 0, "era", ahead=8000)
        calls, place = 0, place + 1

        def interrupt(_frame: FrameType, event: str, _argument: object, last: int = place) -> None:
            nonlocal calls
            if event.endswith("return"):
                calls += 1
                if calls == last:
                    sys.setprofile(None)
                    raise KeyboardInterrupt

        sys.setprofile(interrupt)
        try:
            written.append(RecordType.CYCLE, [b"one"])
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        written.append(RecordType.CYCLE, [b"two"])
        written.sync()
        assert numbers(directory) == list(range(written.number))
    assert place > 10


def flip(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)


def test_damage_is_told_from_a_torn_end_by_what_was_synced(tmp_path: Path) -> None:
    """Records behind the place say that it had been synced; without them, a crash may have torn it."""
    for syncs in (True, False):
        directory = journal(tmp_path / str(syncs), syncs)
        (segment,) = segment_names(directory)
        assert numbers(directory) == list(range(11))
        flip(tmp_path / str(syncs) / segment, 400)
        if syncs:
            with pytest.raises(JournalError, match=segment) as caught:
                numbers(directory)
            assert caught.value.segment == segment
            assert 0 < caught.value.offset <= 400
            copies = cut_journal(directory, segment, caught.value.offset)
            assert [name.startswith("cut-") for name in copies] == [True]
        left = numbers(directory)
        assert left == list(range(len(left)))
        assert 0 < len(left) < 11
        assert numbers(directory, repair=False) == left


def test_a_segment_of_another_directory_is_refused(tmp_path: Path) -> None:
    directory = journal(tmp_path, syncs=True)
    with pytest.raises(JournalError, match="another data directory"):
        list(read_journal(directory, "elsewhere", 0))


def test_a_missing_segment_is_noticed(tmp_path: Path) -> None:
    directory = OsDirectory(tmp_path)
    written = Journal(directory, "here", 0, "era")
    for _ in range(3):
        written.append(RecordType.CYCLE, [b"x"])
        written.rotate()
    written.close()
    names = segment_names(directory)
    assert len(names) == 4
    directory.remove(names[1])
    with pytest.raises(JournalError):
        numbers(directory)
    with pytest.raises(JournalError, match="is missing"):
        directory.remove(names[0])
        list(read_journal(directory, "here", 2))


@pytest.mark.parametrize("at", ["sync", "write"])
def test_a_segment_that_could_not_be_begun_nor_removed_goes_before_the_next_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """Records behind it would have its numbers, and the journal would be taken for damaged."""
    directory = OsDirectory(tmp_path)
    written = Journal(directory, "here", 0, "era")
    written.append(RecordType.CYCLE, [b"x"])
    before = segment_names(directory)

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(OsDirectory, "remove", fail)
        patch.setattr(OsDirectory, "sync", fail) if at == "sync" else patch.setattr(
            type(written.segment.file), "write", fail
        )
        with pytest.raises(OSError, match="I/O error"):
            written.rotate()
        assert len(segment_names(directory)) == 2
        with pytest.raises(OSError, match="I/O error"):
            written.append(RecordType.CYCLE, [b"y"])
    assert written.append(RecordType.CYCLE, [b"y"]) == 2
    assert segment_names(directory) == before
    assert written.rotate() == 3
    written.append(RecordType.CYCLE, [b"z"])
    written.close()
    assert numbers(directory) == [0, 1, 2, 3, 4]

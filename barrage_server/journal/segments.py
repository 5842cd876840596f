"""The segments of a journal: files of records, of which the last is written to.

The name of a segment is the number of its first record, in twenty digits, with the ending ``.log``. All segments but
the last are complete. The last may end in a torn record, which is cut off, or in zeros that were written ahead; any
other bytes that are not a record are damage.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from barrage_server.errors import JournalError
from barrage_server.journal.content import length_in
from barrage_server.journal.files import Buffer, Directory, JournalFile
from barrage_server.journal.json_form import MALFORMED
from barrage_server.journal.record import (
    Record,
    RecordType,
    UnclearEndError,
    encode_record,
    find_records,
    read_records,
)

__all__ = [
    "REPAIR",
    "CutOff",
    "Journal",
    "Segment",
    "cut_journal",
    "cut_off",
    "era_of",
    "read_journal",
    "replace_segment",
    "reserve_segment",
    "segment_names",
]

FORMAT_VERSION: Final = 1
REPAIR: Final = "barrage-server repair"
"""The command in quotes in the texts of errors, without the data directory."""
_ENDING: Final = ".log"
_SMALL_RECORDS: Final = 8
"""Zeros are written ahead if as many records as this fit into them: every byte is written twice then."""


@dataclass(slots=True)
class Segment:
    """A file with records, which is written at its end.

    Attributes:
        name: its name.
        file: the file.
        size: bytes of its records.
        synced: bytes of its records that are known to be synced.
        length: most bytes of the file: its records, and zeros that were written ahead.
    """

    name: str
    file: JournalFile
    size: int = 0
    synced: int = 0
    length: int = 0


class Journal:
    """Writes records. One thread writes at a time; another one may sync.

    Args:
        directory: the folder of the segments.
        identity: the identity of the data directory.
        number: the number of the first record to write.
        era: the id of the present era.
        ahead: zeros to write behind a small record, over which the next ones are written. They do not change the size
            of the file then, so that a sync takes one write of the disk instead of two. 0 writes none.

    Attributes:
        number: the number of the next record.
        nbytes: bytes of the appended records.
        segment: the segment to which records are appended.
    """

    def __init__(self, directory: Directory, identity: str, number: int, era: str, *, ahead: int = 0) -> None:
        self._directory = directory
        head = {"version": FORMAT_VERSION, "directory": identity, "era": era, **({"zeros": ahead} if ahead else {})}
        self._head = json.dumps(head).encode()
        self._ahead = ahead
        self._abandoned = ""  # a segment that could not be begun, nor removed
        self.number = number
        self.nbytes = 0
        self.segment = self._begin()

    def append(self, kind: RecordType, body: Sequence[Buffer]) -> int:
        """Write a record; returns its number.

        Raises:
            OSError: it cannot be written. Nothing is written then, or the end of the segment is torn.
        """
        if self._abandoned:
            self._remove_abandoned()
        segment, number = self.segment, self.number
        parts, nbytes = encode_record(kind, number, body, segment.synced)
        end = segment.size + nbytes
        try:
            segment.file.write(parts)
        except BaseException:
            segment.file.truncate(segment.size)
            segment.length = segment.size
            raise
        # no call in between, in which an interrupt could come: the size and the number belong together
        segment.size = end
        self.number = number + 1
        self.nbytes += nbytes
        if end > segment.length:
            segment.length = end
            if nbytes * _SMALL_RECORDS <= self._ahead:
                self._fill(segment)
        return number

    def _fill(self, segment: Segment) -> None:
        """Write zeros ahead of the next records, if the disk has room for them."""
        segment.length += self._ahead  # some of them may be written even if not all can
        try:
            segment.file.fill(self._ahead)
        except OSError:
            self._ahead = 0

    def sync(self) -> int:
        """Sync the written records; returns the number of the first that may not be."""
        segment, number = self.segment, self.number
        size = segment.size
        segment.file.sync()
        segment.synced = size
        return number

    def rotate(self) -> int:
        """Begin another segment; returns the number of its first record.

        All written records must be synced. The name of the new segment is synced: a segment with a later one is
        complete.

        Raises:
            OSError: there can be no new segment; nothing has changed.
        """
        if self._abandoned:
            self._remove_abandoned()
        number, before = self.number, self.segment
        if before.length > before.size:
            before.file.truncate(before.size)
            before.length = before.size
            before.file.sync()
        segment = self._begin()
        try:
            self._directory.sync()
        except BaseException:
            self.number = number
            segment.file.close()
            self._abandon(segment.name)
            raise
        self.segment = segment
        before.file.close()
        return number

    def close(self) -> int:
        """Sync the written records, and close the journal.

        Zeros stay: another thread may be writing a record.

        Returns:
            What :meth:`sync` does.
        """
        number = self.sync()
        self.segment.file.close()
        return number

    def remove_before(self, number: int) -> None:
        """Remove the segments with only records before ``number``."""
        names = segment_names(self._directory)
        for name, following in pairwise(names):
            if _first_number(following) <= number and name != self.segment.name:
                self._directory.remove(name)

    def _abandon(self, name: str) -> None:
        """Remove a segment, now or before anything more is written.

        Records behind it in the former segment would have the numbers of its own.
        """
        self._abandoned = name
        with suppress(OSError):
            self._remove_abandoned()

    def _remove_abandoned(self) -> None:
        if self._abandoned in self._directory.names():
            self._directory.remove(self._abandoned)
        self._abandoned = ""

    def _begin(self) -> Segment:
        name = _name(self.number)
        is_reserved = _is_reserved(self._directory, name)
        file = self._directory.open(name) if is_reserved else self._directory.create(name)
        segment = Segment(name, file)
        parts, nbytes = encode_record(RecordType.SEGMENT, self.number, [self._head], 0)
        try:
            segment.file.write(parts)
        except BaseException:
            if is_reserved:
                segment.file.truncate(0)
            segment.file.close()
            if not is_reserved:
                self._abandon(name)
            raise
        segment.size = segment.length = nbytes
        self.number += 1
        return segment


def reserve_segment(directory: Directory, number: int) -> None:
    """Create an empty file for the segment that begins with ``number``, and sync it.

    Does nothing if the file exists. From then on, a missing segment is a loss, and not a server that ended before it
    began one. An empty segment has no records.
    """
    if _name(number) not in directory.names():
        directory.create(_name(number)).close()
    directory.sync()


def replace_segment(directory: Directory, name: str) -> None:
    """Create an empty file in place of the missing segment ``name``.

    Does nothing if there are other segments: the journal goes on with the last of them then.
    """
    if not segment_names(directory):
        reserve_segment(directory, _first_number(name))


def segment_names(directory: Directory) -> list[str]:
    """The names of the segments, in order."""
    return [name for name in directory.names() if name.endswith(_ENDING) and name[: -len(_ENDING)].isdecimal()]


def era_of(record: Record) -> str:
    """The id of the era of a segment, from its first record; empty if unknown."""
    return str(json.loads(bytes(record.body)).get("era", ""))


def read_journal(
    directory: Directory,
    identity: str,
    number: int,
    *,
    last: int = 0,
    is_new: bool = False,
    repair: bool = True,
    torn: Callable[[str], object] = lambda _text: None,
) -> Iterator[Record]:
    """The records from ``number`` on, in order.

    Args:
        directory: the folder of the segments.
        identity: the identity of the data directory.
        number: the first record to read, with which a segment begins: the number of the checkpoint, or 0 without one.
        last: a record with which a segment begins that must be there, if it is behind ``number``.
        is_new: whether no server has begun a journal yet, so that there may be no segment.
        repair: whether to cut a torn end off the last segment. A copy is kept if it has complete records.
        torn: called with a sentence about a torn end.

    Raises:
        JournalError: the journal is damaged, or incomplete; the text names file and offset.
    """
    names = segment_names(directory)
    firsts = [_first_number(name) for name in names]
    if number not in firsts:
        if is_new and not names:
            return
        raise _missing(number, firsts, last)
    if last > number and last not in firsts:
        raise JournalError(
            f"The segment {_name(last)} of the journal is missing, and what was committed to it is lost. Restore the "
            f"data directory from a backup, or do without it by '{REPAIR}'.",
            _name(last),
        )
    expected: int | None = None
    for place in range(firsts.index(number), len(names)):
        name, is_last = names[place], place == len(names) - 1
        data = directory.read(name)
        end, has_zeros = 0, False
        for record in read_records(data):
            if record.number != (firsts[place] if expected is None else expected):
                raise _damage(name, record.offset, f"record {record.number} is not the one that follows")
            if record.offset == 0:
                has_zeros = bool(_checked_head(record, name, identity).get("zeros"))
            expected = record.number + 1
            end = record.end
            if record.number >= number:
                yield record
        if not end and expected is not None and firsts[place] != expected:
            raise _damage(name, 0, f"record {expected} is the one that follows, and it is not there")
        if not len(data) and is_last:
            return  # begun, and nothing of it had reached the disk
        if is_last and has_zeros and _are_zeros(data[end:]):
            if repair and end < len(data):
                _cut(directory, name, end)
        elif end < len(data) or not end:
            number_there = firsts[place] if expected is None else expected
            behind = _check_torn(name, data, end, number_there, is_last=is_last)
            torn(
                f"{name} ends in a torn record: {len(data) - end:,} bytes from byte {end:,} on are no part of the "
                f"journal, with {behind:,} whole records among them that were never synced."
            )
            if repair and behind:
                cut_journal(directory, name, end)
            elif repair:
                _cut(directory, name, end)


def _checked_head(record: Record, name: str, identity: str) -> dict[str, object]:
    """The content of the first record of a segment of this data directory."""
    try:
        head = json.loads(bytes(record.body)) if record.type == RecordType.SEGMENT else {}
    except MALFORMED:
        head = {}
    if not isinstance(head, dict) or head.get("version") != FORMAT_VERSION:
        raise _damage(name, 0, "it is of another version, or no segment")
    if head.get("directory") != identity:
        raise _damage(name, 0, f"it belongs to another data directory, {head.get('directory')}; this one is {identity}")
    return head


def _are_zeros(data: memoryview) -> bool:
    """Whether ``data`` is zeros that stand ahead of records, or nothing."""
    return bytes(data).count(0) == len(data)


def _check_torn(name: str, data: memoryview, end: int, number: int, *, is_last: bool) -> int:
    """Raise unless a crash during a write can have left the bytes at ``end``.

    Args:
        name: the segment.
        data: its content.
        end: the end of its records.
        number: the number of the record that is missing there.
        is_last: whether it is the last segment.

    Returns:
        The number of complete records behind ``end``.
    """
    records = find_records(data, end, number, length_in)
    try:
        if not is_last:
            whole = next(records, None)
            what = "the segment is incomplete, and there is a later one"
            raise _damage(name, end, what if whole is None else f"record {whole.number} stands behind it")
        behind = 0
        for record in records:
            if record.synced > end:
                raise _damage(name, end, f"record {record.number} behind it says that this was synced")
            behind += 1
    except UnclearEndError:
        what = "no record begins there, and there are too many places behind it at which one may begin"
        raise _damage(name, end, what) from None
    return behind


def _cut(directory: Directory, name: str, size: int) -> None:
    """Cut a segment, and keep its file: a checkpoint may begin with it."""
    file = directory.open(name)
    try:
        file.truncate(size)
        file.sync()
    finally:
        file.close()


def _first_number(name: str) -> int:
    return int(name[: -len(_ENDING)])


def _name(number: int) -> str:
    return f"{number:020d}{_ENDING}"


def _is_reserved(directory: Directory, name: str) -> bool:
    return name in directory.names() and not len(directory.read(name))


def _missing(number: int, firsts: Sequence[int], last: int) -> JournalError:
    found = f"the first segment begins with {firsts[0]}" if firsts else "there is no segment"
    wanted = "the checkpoint goes on with it" if number else "there is no checkpoint that goes on with a later one"
    text = f"Record {number} of the journal is missing, and {wanted}: {found}. Restore the data directory from a backup"
    if firsts or last > number:
        return JournalError(f"{text}.")
    return JournalError(
        f"{text}, or do without the segment {_name(number)}, and all that was committed to it, by '{REPAIR}'.",
        _name(number),
    )


def _damage(name: str, offset: int, what: str) -> JournalError:
    return JournalError(
        f"The journal is damaged in {name} at byte {offset:,}: {what}. Restore the data directory from a backup, "
        f"or cut the journal there with '{REPAIR}'.",
        name,
        offset,
    )


@dataclass(frozen=True, slots=True)
class CutOff:
    """What a cut takes off the journal.

    Attributes:
        nbytes: the bytes, zeros written ahead included.
        cycles: the number of complete cycles that can be read among them; ``None`` if it is unknown.
        segments: the segments that are cut or removed, in order.
    """

    nbytes: int
    cycles: int | None
    segments: tuple[str, ...]


def cut_off(directory: Directory, name: str, offset: int) -> CutOff:
    """What :func:`cut_journal` would cut off; changes nothing."""
    names = segment_names(directory)
    segments = tuple(names[names.index(name) :])
    nbytes, cycles, is_clear = 0, 0, True
    for segment in segments:
        data = directory.read(segment)
        start, number = (offset, _number_at(data, segment, offset)) if segment == name else (0, _first_number(segment))
        nbytes += len(data) - start
        try:
            found = find_records(data, start, number, length_in)
            cycles += sum(record.type == RecordType.CYCLE for record in found)
        except UnclearEndError:
            is_clear = False
    return CutOff(nbytes, cycles if is_clear else None, segments)


def cut_journal(directory: Directory, name: str, offset: int) -> list[str]:
    """Cut the segment ``name`` at ``offset``, and remove all later segments.

    Returns:
        The names of copies of the removed parts, which begin with ``cut-``.
    """
    names = segment_names(directory)
    place = names.index(name)
    follows = place == 0 or _end_of(directory, names[place - 1]) == _first_number(name)
    kept = []
    for later in reversed(names[place:]):
        start = offset if later == name else 0
        copy = f"cut-{later}"
        directory.remove(copy)
        directory.write(copy, [directory.read(later)[start:]])
        directory.sync()
        if later == name and (offset or follows):
            _cut(directory, later, start)
        else:
            directory.remove(later)
            directory.sync()
        kept.append(copy)
    return kept


def _end_of(directory: Directory, name: str) -> int:
    """The number after the last record of a segment."""
    data = directory.read(name)
    return _number_at(data, name, len(data))


def _number_at(data: memoryview, name: str, offset: int) -> int:
    """The number of the record that follows those before ``offset`` in a segment."""
    number = _first_number(name)
    for record in read_records(data):
        if record.end > offset:
            break
        number = record.number + 1
    return number

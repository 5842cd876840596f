"""Rows that have the form of records: a torn end with them is cut off, and damage is told as without them."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import xxhash

import barrage_server as bs
from barrage_server.engine import UpdateGraph
from barrage_server.errors import JournalError
from barrage_server.journal.files import OsDirectory
from barrage_server.journal.record import HEADER_BYTES, RecordType, encode_record, read_records
from barrage_server.journal.recovery import Recovered, read_identity, recover

SCHEMA = pa.schema([("b", pa.binary())])
_XXH3 = xxhash.xxh3_64
KINDS = ["always", "interval", "os"]


def forged(numbers: range, synced: range) -> bytes:
    """Whole records with all these numbers, which say that all these bytes were synced."""
    parts = [
        bytes(part)
        for number in numbers
        for count in synced
        for part in encode_record(RecordType.CYCLE, number, [b"x" * 8], count)[0]
    ]
    return b"".join(parts)


def heads(count: int, number: int) -> bytes:
    """Headers of records with the number, each with a body of half of them all."""
    return struct.pack("<4sIQQQQ", b"BJR1", RecordType.CYCLE, count * HEADER_BYTES // 2 // 8 * 8, number, 0, 0) * count


class Directory:
    """A data directory whose journal has a synced record, and then one with ``cell`` among its rows."""

    def __init__(self, path: Path, cell: bytes, fsync: str = "os") -> None:
        self.path = path
        with bs.Server(data_dir=path, fsync=fsync) as server:
            server.append_table("victim", SCHEMA).append({"b": [b"1"]})
            table = server.append_table("t", SCHEMA)
            table.append({"b": [cell, b"\xff" * 5000]})
            table.append({"b": [b"behind"]})
        (self.segment,) = (path / "journal").glob("*.log")
        self.content = self.segment.read_bytes()
        records = list(read_records(memoryview(self.content)))
        self.record, self.behind = (record for record in records[-2:])

    def recover(self, content: bytes) -> Recovered:
        """What a start finds with another content of the journal."""
        self.segment.write_bytes(content)
        root = OsDirectory(self.path)
        return recover(root, read_identity(root) or "", UpdateGraph(), repair=False)

    def synced(self) -> bytes:
        """The content, with a last record that says that the one before was synced."""
        parts, _ = encode_record(RecordType.CYCLE, self.behind.number, [self.behind.body], self.record.end)
        return self.content[: self.record.end] + b"".join(bytes(part) for part in parts)


@pytest.mark.parametrize("fsync", KINDS)
def test_a_torn_record_whose_rows_are_records_is_cut_off(tmp_path: Path, fsync: str) -> None:
    made = Directory(
        tmp_path, forged(range(1, 20), range(0, 4000, 200)) + forged(range(4, 8), range(1 << 61, 1 << 61 | 1)), fsync
    )
    ahead = bytes(4096) if fsync == "always" else b""
    start, end = made.record.offset, made.record.end
    for cut in range(start + 1, end - 8, (end - start) // 97):
        found = made.recover(made.content[:cut] + ahead)
        assert found.tables.keys() == {1, 2}
        assert "with 0 whole records" in found.torn
    with bs.Server(data_dir=tmp_path) as server:
        assert server.table("t").size == 0
        assert server.append_table("victim", SCHEMA).to_arrow()["b"].to_pylist() == [b"1"]


@pytest.mark.parametrize("sector", [512, 4096])
def test_a_record_of_which_sectors_are_lost_is_cut_off_with_those_behind_it(tmp_path: Path, sector: int) -> None:
    """The sector of its header is there; that of its text may be lost."""
    made = Directory(tmp_path, forged(range(1, 20), range(0, 4000, 200)))
    first = made.record.offset + HEADER_BYTES
    for place in (first, *range(first - first % sector + sector, made.record.end - sector, sector * 7)):
        content = bytearray(made.content)
        content[place : place + sector] = bytes(sector)
        assert "with 1 whole records" in made.recover(bytes(content)).torn


def test_each_changed_bit_of_a_synced_record_is_told(tmp_path: Path) -> None:
    made = Directory(tmp_path, b"row" * 500)
    whole, start = made.synced(), made.record.offset
    made.recover(whole)
    text_end = made.content.index(b"\xff\xff\xff\xff", start)  # where the message with the rows begins
    for place in (*range(start, text_end + 40), *range(text_end, made.record.end - 8, 501)):
        for bit in range(8):
            content = bytearray(whole)
            content[place] ^= 1 << bit
            with pytest.raises(JournalError, match=f"at byte {start:,}: record {made.behind.number} behind it says"):
                made.recover(bytes(content))


class Counted:
    """Hashes, and the bytes that all of them were given."""

    nbytes = 0

    def __init__(self, data: Any) -> None:
        self._hash = _XXH3()
        self.update(data)

    def update(self, data: Any) -> None:
        Counted.nbytes += len(data)
        self._hash.update(data)

    def intdigest(self) -> int:
        return self._hash.intdigest()


@pytest.mark.parametrize("lost", ["end", "middle", "text", "header"])
def test_a_torn_record_costs_in_proportion_to_the_journal(
    tmp_path: Path, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Directory(tmp_path, heads(20_000, 5))
    start, end = made.record.offset, made.record.end
    content = bytearray(made.content[: end - 8] if lost == "end" else made.content)
    place = {"end": end, "middle": start + 4000, "text": start + 40, "header": start}[lost]
    content[place : place + 100] = bytes(len(content[place : place + 100]))
    monkeypatch.setattr("barrage_server.journal.record.xxhash.xxh3_64", Counted)
    Counted.nbytes = 0
    if lost == "header":  # it cannot be told from a record that was synced
        with pytest.raises(JournalError, match=r"too many places.*'barrage-server repair'"):
            made.recover(bytes(content))
    else:
        assert "torn record" in made.recover(bytes(content)).torn
    assert Counted.nbytes < 6 * len(content)

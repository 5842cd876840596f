"""Damage to copies of a data directory, and what must be left of it: told from the bytes alone.

Records are read here as ``docs/journal.md`` describes them.
"""

from __future__ import annotations

import json
import random
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xxhash

_HEADER = struct.Struct("<4sIQQQ")
_BYTES = 40


@dataclass(frozen=True)
class Entry:
    """A record: where it is, how much it says is synced, and what it says."""

    offset: int
    end: int
    used: int
    synced: int
    kind: int
    number: int
    head: dict[str, object]


@dataclass
class Damage:
    """What was done to a copy, and what must follow.

    Attributes:
        folder: the damaged copy.
        what: in words.
        segment: the segment that a start must name; ``None`` when it must succeed.
        offset: the place in it that it must name.
        lasts: the last batch of each table of the publisher ``plain``, after the journal is cut.
    """

    folder: Path
    what: str
    segment: str | None = None
    offset: int = 0
    lasts: dict[str, int] = field(default_factory=dict)


def entries(data: bytes) -> Iterator[Entry]:
    """The whole records of a segment, up to the first place that has none."""
    place = 0
    while place + _BYTES <= len(data):
        magic, kind, length, number, synced = _HEADER.unpack_from(data, place)
        start, end = place + _BYTES, place + _BYTES + length
        if magic != b"BJR1" or end > len(data):
            return
        checksum = xxhash.xxh3_64(data[place : place + _HEADER.size] + data[start:end]).intdigest()
        if struct.pack("<Q", checksum) != data[place + _HEADER.size : start]:
            return
        body = data[start:end]
        text = body if kind == 1 else body[4 : 4 + struct.unpack_from("<I", body)[0]]
        yield Entry(place, end + -length % 8, end, synced, kind, number, json.loads(text))
        place = end + -length % 8


def tear(source: Path, folder: Path, chance: random.Random) -> Damage:
    """Cut bytes off the journal's end, or empty some sectors there, as a loss of power does."""
    shutil.copytree(source, folder)
    segment = max((folder / "journal").glob("*.log"))
    content = bytearray(segment.read_bytes())
    known = list(entries(bytes(content)))
    if known and not any(content[known[-1].end :]):  # zeros ahead of records to come
        del content[known[-1].end :]
    synced = max((entry.synced for entry in known), default=0)
    first = chance.randint(max(synced, len(content) - 20_000), len(content))
    if chance.random() < 0.7 or first == len(content):
        del content[first:]
        what = f"cut {segment.name} at byte {first:,}"
    else:
        length = min(len(content) - first, chance.randint(1, 1024))
        content[first : first + length] = bytes(length)
        what = f"{length} zeros in {segment.name} at byte {first:,}"
    segment.write_bytes(content)
    # Nothing before is lost. A record that is whole but behind the hole may not count.
    kept = [entry for entry in known if entry.end <= first]
    return Damage(folder, what, lasts=_lasts(folder, segment.name, kept))


def flip(source: Path, folder: Path, chance: random.Random) -> Damage:
    """Change a bit of the journal."""
    shutil.copytree(source, folder)
    segments = sorted((folder / "journal").glob("*.log"))
    segment = chance.choice(segments)
    content = bytearray(segment.read_bytes())
    known = list(entries(bytes(content)))
    place = chance.randrange(known[-1].end if known else len(content))
    content[place] ^= 1 << chance.randrange(8)
    segment.write_bytes(content)
    what = f"flipped a bit of {segment.name} at byte {place:,}"
    hit = next((number for number, entry in enumerate(known) if place < entry.end), len(known))
    kept = known[:hit]
    if hit < len(known) and place >= known[hit].used:  # padding means nothing
        return Damage(folder, what, lasts=_lasts(folder, segment.name, known))
    start = known[hit].offset if hit < len(known) else known[-1].end
    damage = Damage(folder, what, lasts=_lasts(folder, segment.name, kept))
    if segment != segments[-1] or any(entry.synced > start for entry in known[hit + 1 :]):
        damage.segment, damage.offset = segment.name, start
        damage.what += f", before the tail, in the record at byte {start:,}"
    return damage


def spoil(source: Path, folder: Path, chance: random.Random) -> Damage | None:
    """Change a bit of the checkpoint; ``None`` when there is none."""
    files = [path for path in sorted((source / "state").rglob("*")) if path.is_file() and path.stat().st_size]
    if not files:
        return None
    chosen = chance.choice(files)
    shutil.copytree(source, folder)
    path = folder / chosen.relative_to(source)
    content = bytearray(path.read_bytes())
    place = chance.randrange(len(content))
    content[place] ^= 1 << chance.randrange(8)
    path.unlink()  # it may be a hard link
    path.write_bytes(content)
    return Damage(folder, f"flipped a bit of {chosen.relative_to(source)} at byte {place:,}")


def _lasts(folder: Path, last: str, kept: list[Entry]) -> dict[str, int]:
    """The last batches of the publisher ``plain``: of the checkpoint, and of the records after it that are left."""
    names: dict[int, str] = {}
    found: dict[int, int] = {}

    def note(made: object, ledger: object) -> None:
        assert isinstance(made, list)
        assert isinstance(ledger, list)
        names.update({table["id"]: table["name"] for table in made})
        commit: dict[str, Any] = {}  # of each entry; what is left out is that of the entry before
        for entry in ledger:
            commit |= {**entry, **entry.get("entry", {})}
            if commit["publisher"] == "plain":
                found[commit["table"]] = commit["batch"]

    begin = 0
    states = sorted(path for path in (folder / "state").glob("*") if path.name.isdecimal())
    if states:
        manifest = json.loads((states[-1] / "manifest.json").read_bytes().partition(b"\n")[2])
        note(manifest["tables"], manifest["ledger"])
        begin = manifest["number"]
    for segment in sorted((folder / "journal").glob("*.log")):
        if segment.name > last:
            break
        for entry in kept if segment.name == last else entries(segment.read_bytes()):
            if entry.kind == 2 and entry.number >= begin:
                note(entry.head.get("made", []), entry.head.get("ledger", []))
    return {names[table]: batch for table, batch in found.items()}

"""A data directory with right checksums and wrong content stops the start with a text, whatever stands in it."""

from __future__ import annotations

import base64
import copy
import json
import struct
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
import xxhash

from barrage_server.engine import UpdateGraph
from barrage_server.errors import BarrageError, JournalError
from barrage_server.journal.files import Directory
from barrage_server.journal.lineage import LINEAGE
from barrage_server.journal.record import RecordType, encode_record, read_records
from barrage_server.journal.recovery import IDENTITY
from barrage_server.journal.segments import segment_names
from barrage_server.server.durability import Durability
from barrage_server.server.fsync import Fsync
from barrage_server.wire.protocol import PublishMode
from tests.journal.simulated import Machine, SimulatedFolder
from tests.journal.test_crashes import SCHEMA, SPECS, Site

NESTED = "[" * 20_000
HOSTILE: list[Any] = [
    None, True, -1, 0, 1, 1.5, float("inf"), float("nan"), 10**30, 2**62, "", "x", "²", [], [[]], [None], {}, {"x": 1},
    ["x", "x"], "ring",
    base64.b64encode(b"\xff" * 9).decode(),
]  # fmt: skip
_LENGTH = struct.Struct("<I")


@pytest.fixture(scope="module")
def whole() -> SimulatedFolder:
    """A checkpoint with every kind of table, and every kind of record after it."""
    root = SimulatedFolder(Machine())
    site = Site(root)
    for name, spec in SPECS.items():
        site.catalog.ensure(name, SCHEMA, spec)
    site.commit("a", 1, {"log": (None, [1, 2]), "keyed": (None, [1, 2]), "whole": (PublishMode.REPLACE, [1])})
    site.durability.save()
    site.commit("b", 1, {"log": (None, [3]), "ring": (None, [3]), "keyed": (PublishMode.DELETE, [1])})
    site.commit("b", 2, {"log": (PublishMode.REPLACE, [4])})  # takes the place of another table
    site.catalog.drop("keyed")
    site.catalog.ensure("keyed", SCHEMA, SPECS["keyed"])
    with pytest.MonkeyPatch.context() as patch:  # a cycle that fails is voided
        patch.setattr(site.catalog.get("keyed"), "apply_operations", lambda _: 1 / 0)
        with pytest.raises(BarrageError):
            site.commit("a", 2, {"keyed": (None, [1])})
    site.durability.close()
    return root


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places in a JSON value."""
    yield path
    if isinstance(value, dict):
        for name in value:
            yield from paths(value[name], (*path, name))
    elif isinstance(value, list):
        for number in range(len(value)):
            yield from paths(value[number], (*path, number))


def forged(found: Any) -> Iterator[str]:
    """The JSON text, with another value in each place, and with each member left out."""
    yield NESTED
    for path in paths(found):
        for value in HOSTILE:
            if not path:
                yield json.dumps(value)
                continue
            changed = copy.deepcopy(found)
            place = changed
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = value
            yield json.dumps(changed)
        if path:
            changed = copy.deepcopy(found)
            place = changed
            for step in path[:-1]:
                place = place[step]
            del place[path[-1]]
            yield json.dumps(changed)


def write(folder: Directory, name: str, content: bytes) -> None:
    folder.remove(name)
    folder.create(name).write([content])


def with_checksum(text: bytes) -> bytes:
    return xxhash.xxh3_64_hexdigest(text).encode() + b"\n" + text


def starts(whole: SimulatedFolder, change: Callable[[SimulatedFolder], object]) -> bool:
    """Whether a changed directory is served; JournalError is the one error."""
    root = copy.deepcopy(whole)
    change(root)
    try:
        durability = Durability(root, UpdateGraph(), Fsync.OS)
    except JournalError as error:
        assert str(error)
        return False
    for table in durability.recovered.tables.values():
        table.to_arrow().validate(full=True)
    durability.close()
    return True


@pytest.fixture(params=[19, pytest.param(1, marks=pytest.mark.slow)])
def every(request: pytest.FixtureRequest) -> int:
    """Of how many texts one is tried."""
    found: int = request.param
    return found


def refused(whole: SimulatedFolder, found: Any, every: int, write: Callable[[SimulatedFolder, bytes], object]) -> float:
    """Which part of the texts stops the start."""
    texts = list(islice(forged(found), 0, None, every))
    results = [starts(whole, lambda root, text=text: write(root, text.encode())) for text in texts]  # type: ignore[misc]
    return results.count(False) / len(results)


def test_the_directory_starts(whole: SimulatedFolder) -> None:
    assert starts(whole, lambda root: None)


def test_a_forged_identity(whole: SimulatedFolder, every: int) -> None:
    found = json.loads(bytes(whole.read(IDENTITY)))
    assert refused(whole, found, every, lambda root, text: write(root, IDENTITY, text)) > 0.3


def test_a_forged_lineage_is_none(whole: SimulatedFolder, every: int) -> None:
    found = json.loads(bytes(whole.read(LINEAGE)).partition(b"\n")[2])
    assert not refused(whole, found, every, lambda root, text: write(root, LINEAGE, with_checksum(text)))


def test_a_forged_manifest(whole: SimulatedFolder, every: int) -> None:
    (name,) = whole.folder("state").names()
    text = bytes(whole.folder("state").folder(name).read("manifest.json")).partition(b"\n")[2]

    def change(root: SimulatedFolder, text: bytes) -> None:
        write(root.folder("state").folder(name), "manifest.json", with_checksum(text))

    assert refused(whole, json.loads(text), every, change) > 0.3


@pytest.mark.parametrize("kind", list(RecordType))
def test_a_forged_record(whole: SimulatedFolder, every: int, kind: RecordType) -> None:
    folder = whole.folder("journal")
    (segment,) = segment_names(folder)
    records = list(read_records(folder.read(segment)))
    parts = []
    for number, record in enumerate(records):
        if record.type != kind:
            continue
        body = bytes(record.body)
        start = 0 if kind == RecordType.SEGMENT else _LENGTH.size
        end = len(body) if kind == RecordType.SEGMENT else start + _LENGTH.unpack_from(body)[0]

        def change(
            root: SimulatedFolder, text: bytes, number: int = number, rest: bytes = body[end:], start: int = start
        ) -> None:
            text += b" " * (-(start + len(text)) % 8)
            head = _LENGTH.pack(len(text)) if start else b""
            bodies = [bytes(one.body) for one in records]
            bodies[number] = head + text + rest
            encoded = [
                encode_record(RecordType(one.type), one.number, [made], 0)[0]
                for one, made in zip(records, bodies, strict=True)
            ]
            write(root.folder("journal"), segment, b"".join(bytes(part) for record in encoded for part in record))

        parts.append(refused(whole, json.loads(body[start:end]), every, change))
    assert max(parts) > 0.3

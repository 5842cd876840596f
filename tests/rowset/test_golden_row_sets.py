"""Every row set and shift that a Deephaven server sent: read as the manifest says, and written as the same bytes."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barrage_server.rowset import (
    RowSet,
    RowSetShiftData,
    decode_bit_set,
    decode_row_set,
    decode_shift_data,
    encode_bit_set,
    encode_row_set,
    encode_shift_data,
)

GOLDEN = Path(__file__).parent.parent / "golden"
ROW_SETS = {3: "effective_viewport", 6: "added_rows", 7: "removed_rows", 9: "added_rows_included"}
UPDATE = 6
REQUESTS = (5, 7)


class Table:
    """The least that reads a flatbuffer table: enough for these tests, and independent of the code that they test."""

    def __init__(self, data: bytes, place: int | None = None) -> None:
        self.data = data
        self.place = struct.unpack_from("<I", data)[0] if place is None else place
        self.slots = self.place - struct.unpack_from("<i", data, self.place)[0]

    def _field(self, slot: int) -> int | None:
        if 4 + 2 * slot >= struct.unpack_from("<H", self.data, self.slots)[0]:
            return None
        offset = struct.unpack_from("<H", self.data, self.slots + 4 + 2 * slot)[0]
        return self.place + offset if offset else None

    def byte(self, slot: int) -> int:
        field = self._field(slot)
        return 0 if field is None else self.data[field]

    def _vector(self, slot: int) -> tuple[int, int] | None:
        field = self._field(slot)
        if field is None:
            return None
        start = field + struct.unpack_from("<I", self.data, field)[0]
        return start + 4, struct.unpack_from("<I", self.data, start)[0]

    def bytes(self, slot: int) -> bytes | None:
        vector = self._vector(slot)
        return None if vector is None else self.data[vector[0] : vector[0] + vector[1]]

    def tables(self, slot: int) -> list[Table] | None:
        vector = self._vector(slot)
        if vector is None:
            return None
        places = [vector[0] + 4 * index for index in range(vector[1])]
        return [Table(self.data, place + struct.unpack_from("<I", self.data, place)[0]) for place in places]


def varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[place] & 0x7F) << shift
        shift += 7
        place += 1
        if data[place - 1] < 0x80:
            return value, place


def app_metadata(flight_data: bytes) -> bytes | None:
    """Give field 3 of a FlightData message."""
    place = 0
    while place < len(flight_data):
        tag, place = varint(flight_data, place)
        assert tag & 7 == 2
        length, place = varint(flight_data, place)
        if tag >> 3 == 3:
            return flight_data[place : place + length]
        place += length
    return None


def messages() -> Iterator[tuple[str, dict[str, Any], int, Table]]:
    """Give ``(name, manifest entry, message type, payload)`` of every Barrage message of all scenarios."""
    for manifest in sorted(GOLDEN.glob("*/manifest.json")):
        for entry in json.loads(manifest.read_text())["messages"]:
            if "pb_fields" not in entry or 3 not in entry["pb_fields"]:
                continue
            metadata = app_metadata((manifest.parent / entry["file"]).read_bytes())
            assert metadata is not None
            wrapper = Table(metadata)
            payload = wrapper.bytes(2)
            if payload:
                yield f"{manifest.parent.name}/{entry['file']}", entry, wrapper.byte(1), Table(payload)


ALL = list(messages())
UPDATES = [(name, entry["update"], payload) for name, entry, kind, payload in ALL if kind == UPDATE]


def rows_of(pairs: list[list[int]]) -> RowSet:
    return RowSet.from_ranges([first for first, _ in pairs], [last for _, last in pairs])


def test_the_vectors_are_there() -> None:
    assert len(UPDATES) > 100
    assert any(update["shift_data"] for _, update, _ in UPDATES)


@pytest.mark.parametrize(("update", "payload"), [(u, p) for _, u, p in UPDATES], ids=[name for name, _, _ in UPDATES])
def test_updates_of_a_real_server(update: dict[str, Any], payload: Table) -> None:
    for slot, field in ROW_SETS.items():
        data = payload.bytes(slot)
        assert (data is None) is (update[field] is None)
        if data is not None:
            rows = decode_row_set(data)
            assert rows == rows_of(update[field])
            assert encode_row_set(rows) == data
    data = payload.bytes(8)
    if data is not None:
        shifts = decode_shift_data(data)
        # The manifest gives start, end and destination of each.
        expected = [(start, end, destination - start) for start, end, destination in update["shift_data"]]
        assert list(shifts) == expected
        assert shifts == RowSetShiftData.from_arrays(*([shift[part] for shift in expected] for part in range(3)))
        assert encode_shift_data(shifts) == data
    nodes = payload.tables(10)
    if nodes is not None:
        assert len(nodes) == len(update["mods"])
        for node, expected_rows in zip(nodes, update["mods"], strict=True):
            data = node.bytes(0)
            assert data is not None
            rows = decode_row_set(data)
            assert rows == rows_of(expected_rows)
            assert encode_row_set(rows) == data
    data = payload.bytes(5)
    if data is not None:
        assert data.hex() == update["effective_column_set"]
        assert encode_bit_set(decode_bit_set(data)) == data


VIEWPORTS = [data for _, _, kind, payload in ALL if kind in REQUESTS and (data := payload.bytes(2)) is not None]


@pytest.mark.parametrize("data", sorted(set(VIEWPORTS)), ids=bytes.hex)
def test_viewports_of_requests(data: bytes) -> None:
    """They were written with OFFSET commands only, which is legal; here the same sets are written as Java would."""
    rows = decode_row_set(data)
    assert decode_row_set(encode_row_set(rows)) == rows

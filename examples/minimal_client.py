"""Follow a window of a table with pyarrow and flatbuffers alone: a client written from docs/protocol.md.

python examples/minimal_client.py grpc://localhost:8815 quotes             # rows 0 to 9, ten updates
python examples/minimal_client.py grpc://localhost:8815 quotes 100 120 --updates 3 --flattened --token secret

Each part names the section of docs/protocol.md that it follows.
"""

from __future__ import annotations

import argparse
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import flatbuffers
import pyarrow as pa
import pyarrow.flight as flight
from flatbuffers import number_types
from flatbuffers.table import Table

MAGIC = 0x6E687064
SUBSCRIPTION_REQUEST, UPDATE_METADATA = 5, 6

Ranges = list[tuple[int, int]]  # a row set: first and last key of each range, increasing


# "Row sets": a stream of commands.


def encode_row_set(ranges: Ranges) -> bytes:
    """Every value as an OFFSET of eight bytes: longer than necessary, and legal."""
    out, key = b"", 0
    for first, last in ranges:
        out += b"\x0b" + struct.pack("<q", first - key)
        if last > first:
            out += b"\x0b" + struct.pack("<q", first - last)
        key = last
    return out + b"\x20"


def read_row_set(data: bytes, place: int = 0) -> tuple[Ranges, int]:
    """The ranges of the row set that begins at ``place``, and where it ends."""
    ranges: Ranges = []
    key = 0
    while data[place] != 0x20:  # END
        kind, width = data[place] & 0xF8, {4: 1, 1: 2, 2: 4, 3: 8}[data[place] & 0x07]
        value = int.from_bytes(data[place + 1 : place + 1 + width], "little", signed=True)
        place += 1 + width
        if kind == 0x08:  # OFFSET
            values = [value]
        else:  # SHORT_ARRAY or BYTE_ARRAY: the value was a count
            element = {0x10: 2, 0x18: 1}[kind]
            end = place + value * element
            values = [
                int.from_bytes(data[at : at + element], "little", signed=True) for at in range(place, end, element)
            ]
            place = end
        for step in values:
            key += abs(step)
            if step < 0:
                ranges[-1] = (ranges[-1][0], key)
            else:
                ranges.append((key, key))
    return ranges, place + 1


def keys_of(ranges: Ranges) -> list[int]:
    return [key for first, last in ranges for key in range(first, last + 1)]


def size_of(ranges: Ranges) -> int:
    return sum(last - first + 1 for first, last in ranges)


# "Shift data": three row sets, whose n-th numbers belong together.


def read_shifts(data: bytes) -> list[tuple[int, int, int]]:
    """First key, last key and delta of each shift."""
    starts, place = read_row_set(data)
    ends, place = read_row_set(data, place)
    destinations, _ = read_row_set(data, place)
    triples = zip(keys_of(starts), keys_of(ends), keys_of(destinations), strict=True)
    return [(start, end, destination - start) for start, end, destination in triples]


# What a viewport needs of row sets.


def without(ranges: Ranges, removed: Ranges) -> Ranges:
    for low, high in removed:
        ranges = [
            piece
            for first, last in ranges
            for piece in ((first, min(last, low - 1)), (max(first, high + 1), last))
            if piece[0] <= piece[1]
        ]
    return ranges


def with_(ranges: Ranges, added: Ranges) -> Ranges:
    joined: Ranges = []
    for first, last in sorted(without(ranges, added) + added):
        if joined and joined[-1][1] == first - 1:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined


def between(ranges: Ranges, low: int, high: int) -> Ranges:
    return [(max(first, low), min(last, high)) for first, last in ranges if first <= high and last >= low]


def at_positions(ranges: Ranges, positions: Ranges, *, from_end: bool) -> list[int]:
    """The keys at positions, increasing; positions beyond the end have none."""
    found: list[int] = []
    size, before = size_of(ranges), 0
    wanted = [(size - 1 - last, size - 1 - first) if from_end else (first, last) for first, last in positions]
    for first, last in ranges:
        for low, high in wanted:
            start, stop = max(low - before, 0), min(high - before, last - first)
            found += range(first + start, first + stop + 1)
        before += last - first + 1
    return sorted(found)


# "The envelope" and "Fields": flatbuffers by the numbers of their slots.


def build_request(ticket: bytes, viewport: Ranges, *, reverse: bool, interval_ms: int) -> bytes:
    builder = flatbuffers.Builder(256)
    ticket_at, viewport_at = builder.CreateByteVector(ticket), builder.CreateByteVector(encode_row_set(viewport))
    builder.StartObject(7)  # BarrageSubscriptionOptions
    builder.PrependInt32Slot(2, interval_ms, 0)  # min_update_interval_ms
    builder.PrependBoolSlot(5, True, False)  # columns_as_list
    options_at = builder.EndObject()
    builder.StartObject(6)  # BarrageSubscriptionRequest
    builder.PrependUOffsetTRelativeSlot(0, ticket_at, 0)
    builder.PrependUOffsetTRelativeSlot(2, viewport_at, 0)
    builder.PrependUOffsetTRelativeSlot(3, options_at, 0)
    builder.PrependBoolSlot(4, reverse, False)  # reverse_viewport
    builder.Finish(builder.EndObject())
    payload = bytes(builder.Output())
    builder = flatbuffers.Builder(256)
    payload_at = builder.CreateByteVector(payload)
    builder.StartObject(3)  # BarrageMessageWrapper
    builder.PrependUint32Slot(0, MAGIC, 0)
    builder.PrependInt8Slot(1, SUBSCRIPTION_REQUEST, 0)
    builder.PrependUOffsetTRelativeSlot(2, payload_at, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())


class Fields:
    """The fields of one flatbuffer table, by slot."""

    def __init__(self, data: bytes, position: int | None = None) -> None:
        self._data = data
        self._table = Table(data, struct.unpack_from("<I", data)[0] if position is None else position)

    def number(self, slot: int, kind: Any) -> int:
        """A number; 0 where the field is absent."""
        at = self._table.Offset(4 + 2 * slot)
        return int(self._table.Get(kind, self._table.Pos + at)) if at else 0

    def bytes(self, slot: int) -> bytes | None:
        """A vector of bytes; None where the field is absent."""
        at = self._table.Offset(4 + 2 * slot)
        if not at:
            return None
        start = self._table.Vector(at)
        return self._data[start : start + self._table.VectorLen(at)]

    def tables(self, slot: int) -> list[Fields]:
        """A vector of tables."""
        at = self._table.Offset(4 + 2 * slot)
        if not at:
            return []
        start = self._table.Vector(at)
        return [
            Fields(self._data, self._table.Indirect(start + 4 * number)) for number in range(self._table.VectorLen(at))
        ]

    def row_set(self, slot: int) -> Ranges | None:
        """A row set; None where the field is absent."""
        data = self.bytes(slot)
        return None if data is None else read_row_set(data)[0]


class Update:
    """BarrageUpdateMetadata, slot by slot."""

    def __init__(self, app_metadata: bytes) -> None:
        wrapper = Fields(app_metadata)
        assert wrapper.number(0, number_types.Uint32Flags) == MAGIC, "not a Barrage message"
        assert wrapper.number(1, number_types.Int8Flags) == UPDATE_METADATA, "not an update"
        fields = Fields(wrapper.bytes(2) or b"")
        self.step = fields.number(1, number_types.Int64Flags)  # last_seq
        self.is_snapshot = bool(fields.number(2, number_types.BoolFlags))
        self.viewport = fields.row_set(3)
        self.from_end = bool(fields.number(4, number_types.BoolFlags))
        self.added = fields.row_set(6) or []
        self.removed = fields.row_set(7) or []
        self.shifts = read_shifts(fields.bytes(8) or b"\x20\x20\x20")
        included = fields.row_set(9)
        self.included = self.added if included is None else included
        self.modified = [node.row_set(0) or [] for node in fields.tables(10)]
        self.table_size = fields.number(11, number_types.Int64Flags)


# "DoExchange": one stream, with one window of one table.


class Window:
    """The rows at some positions of a table, which follow every change.

    Args:
        uri: the server.
        table: the table's name.
        start: the first position.
        stop: the position after the last.
        reverse: whether positions count from the end of the table.
        flattened: whether to use the flattened dialect.
        token: the server's token, if any.
        interval_ms: milliseconds between two updates.

    Attributes:
        names: the columns.
        table_size: rows of the whole table.
        step: the server's step up to which the window is complete.
    """

    def __init__(
        self,
        uri: str,
        table: str,
        start: int,
        stop: int,
        *,
        reverse: bool = False,
        flattened: bool = False,
        token: str | None = None,
        interval_ms: int = 0,
    ) -> None:
        self._ticket = b"s/" + table.encode()  # "Names"
        self._flattened = flattened
        self._interval = interval_ms
        self._whole: Ranges = []  # keys of the whole table; in the key-space dialect only
        self._viewport: Ranges = []
        self._from_end = False
        self._rows: dict[int, list[Any]] = {}  # by row key, or by position in the window where it is flattened
        self.table_size = 0
        self.step = -1
        headers = [(b"barrage-viewport", b"flattened" if flattened else b"key-space")]
        if token is not None:
            headers.append((b"authorization", b"Bearer " + token.encode()))
        # "Slow readers": most unread bytes of a stream in gRPC; more would be stale when read.
        window = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 16_384)]
        self._client = flight.FlightClient(uri, generic_options=window)
        descriptor = flight.FlightDescriptor.for_command(b"dphn")
        self._writer, self._reader = self._client.do_exchange(descriptor, flight.FlightCallOptions(headers=headers))
        self.move(start, stop, reverse=reverse)
        self.names = self._reader.schema.names
        self._batches = self._read()

    def move(self, start: int, stop: int, *, reverse: bool = False) -> None:
        """Request other rows; the answer is one of the next updates, with ``is_snapshot``."""
        viewport = [(start, stop - 1)] if stop > start else []
        request = build_request(self._ticket, viewport, reverse=reverse, interval_ms=self._interval)
        self._writer.write_metadata(request)

    def rows(self) -> list[list[Any]]:
        """The rows in view, in order: one list of values each, in the order of ``names``."""
        return [self._rows[key] for key in sorted(self._rows)]

    def next_update(self) -> Update:
        """Wait for an update, and apply it."""
        columns, metadata = next(self._batches)
        assert metadata is not None, "an update begins with its metadata"
        update = Update(metadata)
        added, columns = self._collect(size_of(update.included), columns)
        modified, _ = self._collect(max(map(size_of, update.modified), default=0), columns)
        (self._apply_flattened if self._flattened else self._apply_key_space)(update, added, modified)
        self.table_size, self.step = update.table_size, update.step
        return update

    def close(self) -> None:
        """End the stream."""
        self._reader.cancel()
        with suppress(pa.ArrowException):  # the expected error: the stream was cancelled
            self._writer.close()
        self._client.close()

    # "One update is one message with metadata, and then batches without".

    def _read(self) -> Iterator[tuple[list[list[Any]] | None, bytes | None]]:
        while True:
            chunk = self._reader.read_chunk()
            metadata = None if chunk.app_metadata is None else chunk.app_metadata.to_pybytes()
            if metadata is not None and metadata.startswith(b"barrage-end:"):  # "How a stream ends"
                raise RuntimeError(metadata.removeprefix(b"barrage-end:").decode())
            if chunk.data is not None:
                lists = [column.to_pylist() for column in chunk.data.columns]
                yield [values[0] if values else [] for values in lists], metadata  # "Columns as lists"

    def _collect(self, count: int, columns: list[list[Any]] | None) -> tuple[list[list[Any]], list[list[Any]] | None]:
        """``count`` rows from the present batch and later ones; returns a batch that is not used up."""
        found: list[list[Any]] = [[] for _ in self.names]
        while count > 0:
            if columns is None:
                columns, _ = next(self._batches)
            assert columns is not None
            count -= max(map(len, columns))
            for values, more in zip(found, columns, strict=True):
                values += more
            columns = None
        return found, columns

    # "Applying an update": removed, shifted, added, modified.

    def _apply_key_space(self, update: Update, added: list[list[Any]], modified: list[list[Any]]) -> None:
        if update.is_snapshot:
            self._viewport, self._from_end = update.viewport or [], update.from_end
        self._whole = without(self._whole, update.removed)
        self._rows = {key: values for key, values in self._rows.items() if not holds(update.removed, key)}
        pieces = [between(self._whole, start, end) for start, end, _ in update.shifts]
        self._whole = without(self._whole, [(start, end) for start, end, _ in update.shifts])
        for (_, _, delta), piece in zip(update.shifts, pieces, strict=True):
            self._whole = with_(self._whole, [(first + delta, last + delta) for first, last in piece])
        self._rows = {key + delta_of(key, update.shifts): values for key, values in self._rows.items()}
        self._whole = with_(self._whole, update.added)
        view = set(at_positions(self._whole, self._viewport, from_end=self._from_end))
        self._rows = {key: values for key, values in self._rows.items() if key in view}
        for number, key in enumerate(keys_of(update.included)):
            if key in view:
                self._rows[key] = [column[number] for column in added]
        for column, ranges in enumerate(update.modified):
            for key, value in zip(keys_of(ranges), modified[column], strict=True):
                if key in self._rows:
                    self._rows[key][column] = value

    def _apply_flattened(self, update: Update, added: list[list[Any]], modified: list[list[Any]]) -> None:
        removed, came = set(keys_of(update.removed)), keys_of(update.added)
        stayed = iter([values for position, values in sorted(self._rows.items()) if position not in removed])
        count = len(self._rows) - len(removed) + len(came)
        new = {position: [column[number] for column in added] for number, position in enumerate(came)}
        self._rows = {position: new[position] if position in new else next(stayed) for position in range(count)}
        for column, ranges in enumerate(update.modified):
            for position, value in zip(keys_of(ranges), modified[column], strict=True):
                self._rows[position][column] = value


def holds(ranges: Ranges, key: int) -> bool:
    return any(first <= key <= last for first, last in ranges)


def delta_of(key: int, shifts: list[tuple[int, int, int]]) -> int:
    return next((delta for start, end, delta in shifts if start <= key <= end), 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("uri", help="such as grpc://localhost:8815")
    parser.add_argument("table")
    parser.add_argument("start", type=int, nargs="?", default=0)
    parser.add_argument("stop", type=int, nargs="?", default=10)
    parser.add_argument("--updates", type=int, default=10, help="how many to print")
    parser.add_argument("--reverse", action="store_true", help="count positions from the end")
    parser.add_argument("--flattened", action="store_true", help="the other dialect")
    parser.add_argument("--token", default=os.environ.get("BARRAGE_TOKEN"))
    given = parser.parse_args()
    window = Window(
        given.uri,
        given.table,
        given.start,
        given.stop,
        reverse=given.reverse,
        flattened=given.flattened,
        token=given.token,
    )
    try:
        for _ in range(given.updates):
            window.next_update()
            print(f"\n{len(window.rows())} of {window.table_size} rows: {', '.join(window.names)}")
            for values in window.rows():
                print("  ", *values)
    finally:
        window.close()


if __name__ == "__main__":
    main()

"""Streams of web pages, recorded as ``docs/protocol.md`` describes their frames, and what a page must see then."""

from __future__ import annotations

import base64
import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa

from barrage_server.rowset import RowSet
from barrage_server.subscription import Dialect, Subscription, TableFeed, Window
from barrage_server.wire.batches import LengthMode
from barrage_server.wire.browser_types import form_of
from barrage_server.wire.families import ClientFamily
from barrage_server.wire.metadata import SubscriptionOptions, SubscriptionRequest

SCHEMA_FRAME, UPDATE_FRAME, FURTHER_FRAME = 0, 1, 2
LIMITS = {"rows": 10_000, "cells": 100_000}


def frame(kind: int, metadata: bytes, message: bytes, stream: int = 1) -> bytes:
    head = struct.pack("<IB3xII", stream, kind, len(metadata), 0xFFFFFFFF)
    return head + metadata + bytes(-len(metadata) % 8) + message


def tagged(value: Any, data_type: pa.DataType) -> Any:
    """A value with its kind, as ``web/tests/programs/replay.ts`` writes it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return f"text {value}"
    if pa.types.is_floating(data_type):
        return "float nan" if math.isnan(value) else f"float {struct.pack('>d', float(value)).hex()}"
    return f"int {value}"


def values_of(array: pa.Array) -> list[Any]:
    if pa.types.is_float16(array.type):
        array = array.cast(pa.float32())
    return [tagged(value, array.type) for value in array.to_pylist()]


def columns_of(schema: pa.Schema) -> list[dict[str, str]]:
    """As the message ``opened`` has them."""
    return [{"name": field.name, "type": str(field.type), **form_of(field.type)} for field in schema]


class Recording:
    """One stream of a page: its frames so far, and what the page must see after some of them."""

    def __init__(self, feed: TableFeed, window: Window, options: SubscriptionOptions) -> None:
        self.feed = feed
        self.window = window
        self._options = options
        self._now = 100.0
        self.subscription = Subscription(
            feed, self._request(window), dialect=Dialect.FLATTENED, lengths=LengthMode.RAGGED
        )
        self.frames = [frame(SCHEMA_FRAME, b"", self.subscription.wire_schema.serialize().to_pybytes())]
        self.looks: list[int] = []
        self.expected: list[Any] = []

    def look_at(self, window: Window) -> None:
        self.window = window
        self.subscription.change(self._request(window))

    def serve(self) -> None:
        """Record what is due; the page then sees the table as it is now."""
        self._now += 1.0
        messages = self.subscription.poll(self._now).messages
        for message in messages:
            kind = UPDATE_FRAME
            for metadata, batch in message.encapsulated():
                self.frames.append(frame(kind, metadata or b"", batch))
                kind = FURTHER_FRAME
        if messages:
            self.looks.append(len(self.frames) - 1)
            self.expected.append(self._view())

    def case(self) -> dict[str, Any]:
        """For ``replay.ts``."""
        return {
            "columns": columns_of(self.feed.table.schema),
            "limits": LIMITS,
            "frames": [base64.b64encode(data).decode() for data in self.frames],
            "looks": self.looks,
        }

    def _request(self, window: Window) -> SubscriptionRequest:
        return SubscriptionRequest(b"s/t", window.columns, window.positions, self._options, window.reverse)

    def _view(self) -> dict[str, Any]:
        """What is in view, read from the table itself."""
        version, view = self.feed.table.version, self.feed.view
        positions = np.arange(version.size)
        asked = self.window.positions or RowSet.empty()
        wanted = asked.restrict(0, version.size - 1).keys() if version.size else positions
        shown = positions[::-1][wanted][::-1] if self.window.reverse else positions[wanted]
        keys = version.row_set.subset(RowSet.from_keys(shown))
        columns = self.window.columns
        arrays = version.read(keys, columns)
        cells = [values_of(view.convert(number, array)) for number, array in zip(columns, arrays, strict=True)]
        return {
            "size": version.size,
            "first": int(shown[0]) if shown.size else self._empty_first(version.size),
            "columns": list(columns),
            "rows": [list(row) for row in zip(*cells, strict=True)] if columns else [[]] * shown.size,
        }

    def _empty_first(self, size: int) -> int:
        """Where a view begins that has no rows: at its place, or at the table's end or beginning before it."""
        positions = self.window.positions
        if positions is None or not positions:
            return size if self.window.reverse else 0
        return 0 if self.window.reverse else min(positions.first_key, size)


def feed_of(table: Any) -> TableFeed:
    return TableFeed(table, family=ClientFamily.BROWSER)

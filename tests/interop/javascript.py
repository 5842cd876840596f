"""Deephaven's JavaScript API in Node, from the test's side."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyarrow import types

from barrage_server import Server
from tests.waiting import until

from .environments import FOLDER, ROOT, missing, node, python_of
from .peer import CALL_SECONDS, Peer

__all__ = [
    "ANONYMOUS",
    "Cells",
    "JavaScript",
    "Page",
    "Subscription",
    "Table",
    "View",
    "extract_api",
    "nothing_left",
    "shown",
]

ANONYMOUS: Final[Mapping[str, str]] = {"type": "anonymous"}
Cells = dict[str, list[Any]]
"""What a page shows: the cells of each column, as ``client.mjs`` says them."""

_SCRIPT: Final = ROOT / "tests" / "interop" / "peers" / "javascript" / "client.mjs"
_RESOURCES: Final = "META-INF/resources/jsapi/"
_NANOSECONDS: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def extract_api(folder: Path) -> Path:
    """Put the API, as the Deephaven server of the environment ``deephaven`` serves it, into ``folder``; that."""
    python_of("deephaven")
    archive = next((FOLDER / "deephaven").rglob("deephaven-web-*.jar"), None)
    if archive is None:
        missing("the Deephaven server that is installed has no JavaScript API: remove .interop, and run make interop")
    (folder / "jsapi").mkdir()
    with zipfile.ZipFile(archive) as files:
        for name in ("dh-core.js", "dh-internal.js"):
            (folder / "jsapi" / name).write_bytes(files.read(_RESOURCES + name))
    return folder


def nothing_left(server: Server) -> bool:
    """Whether no page, and nothing of one, is left in a server."""
    left = server.statistics()
    return not (left.sessions or left.exports or left.subscriptions or left.uploads or left.downloads)


class JavaScript:
    """One process of Node.

    Args:
        api: what :func:`extract_api` gave.
        storage: a folder of its own.
        environment: variables for Node.
    """

    def __init__(self, api: Path, storage: Path, **environment: str) -> None:
        command, modules = node()
        settings = {"modules": str(modules), "api": str(api), "storage": str(storage)}
        self.peer = Peer(
            [command, str(_SCRIPT), json.dumps(settings)], name="javascript", environment=environment, timeout=60.0
        )

    def connect(self, url: str, login: Mapping[str, str] = ANONYMOUS, options: Mapping[str, Any] | None = None) -> Page:
        """Log in at a server."""
        return Page(self.peer, self.peer.call("connect", url=url, options=options, **login))

    def settings_of(self, url: str) -> dict[str, str]:
        """What a server tells before log-in."""
        found: dict[str, str] = self.peer.call("settings", url=url)
        return found

    def faults(self) -> list[str]:
        """What went wrong in the API where no caller was told, since this was asked last."""
        found: list[str] = self.peer.call("faults")
        return found

    def close(self) -> None:
        """End the process."""
        self.peer.close()


@dataclass(frozen=True)
class Thing:
    """Something that the API has given, by its number there."""

    peer: Peer
    number: int

    def event(self, event: str, timeout: float = CALL_SECONDS) -> dict[str, Any]:
        """The next event of that name of this thing."""
        return self.peer.event(f"{event}:{self.number}", timeout)

    def close(self) -> None:
        """Close it."""
        self.peer.call("close", id=self.number)


class Page(Thing):
    """A connection of the API: what one browser page has."""

    def settings(self) -> dict[str, str]:
        """What the server tells after log-in."""
        found: dict[str, str] = self.peer.call("settings", connection=self.number)
        return found

    def watch(self) -> None:
        """Have the page told of tables that come and go; see :meth:`fields`."""
        self.peer.call("watch", connection=self.number)

    def fields(self, timeout: float = CALL_SECONDS) -> dict[str, list[str]]:
        """The names of tables that have come, changed and gone, next."""
        event = self.event("fields", timeout)
        assert all(kind == "Table" for change in ("created", "updated", "removed") for _, kind in event[change])
        return {change: sorted(name for name, _ in event[change]) for change in ("created", "updated", "removed")}

    def open(self, name: str) -> Table:
        """A table."""
        found = self.peer.call("open", connection=self.number, name=name)
        columns = [(column, kind) for column, kind in found.pop("columns")]
        return Table(self.peer, columns=columns, **found)

    def disconnect(self) -> None:
        """Hang up."""
        self.peer.call("disconnect", connection=self.number)

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()


@dataclass(frozen=True)
class Table(Thing):
    """A table in a page."""

    columns: list[tuple[str, str]]
    size: int
    refreshing: bool
    blink: bool

    def look(
        self, first: int, last: int, columns: Sequence[str] | None = None, interval: int = 10, *, options: bool = False
    ) -> View:
        """A viewport, asked for in the newer way of the API with ``options``."""
        asked = {"first": first, "last": last, "columns": columns, "interval": interval, "options": options}
        return View(self.peer, self.peer.call("viewport", table=self.number, **asked), self.number, options)

    def subscribe(
        self, columns: Sequence[str] | None = None, interval: int = 10, *, options: bool = False
    ) -> Subscription:
        """All rows, with whatever happens to them; asked for in the newer way of the API with ``options``."""
        asked = {"columns": columns, "interval": interval, "options": options}
        return Subscription(self.peer, self.peer.call("subscribe", table=self.number, **asked))

    def sum(self, column: str, interval: int = 10) -> Thing:
        """All of a large table; it tells the events ``sum``, with its ``rows``, and the ``sum`` of one column."""
        return Thing(self.peer, self.peer.call("sum", table=self.number, column=column, interval=interval))

    def snapshot(self, first: int, last: int, columns: Sequence[str] | None = None) -> Cells:
        """What is in some rows now."""
        cells: Cells = self.peer.call("snapshot", table=self.number, first=first, last=last, columns=columns)
        return cells


@dataclass(frozen=True)
class View(Thing):
    """A viewport."""

    table: int
    options: bool

    def move(self, first: int, last: int, columns: Sequence[str] | None = None) -> None:
        """Look elsewhere."""
        asked = {"first": first, "last": last, "columns": columns, "options": self.options}
        self.peer.call("move", table=self.table, viewport=self.number, **asked)

    def until(self, expected: Cells, *, size: int, offset: int = 0, timeout: float = CALL_SECONDS) -> None:
        """Wait until it shows just that, of a table of that size.

        In the newer way of the API, a viewport says nothing of sizes; the table learns them aside.
        """
        wanted = {"offset": offset, "cells": expected, **({} if self.options else {"size": size})}
        _until(lambda: self.event("viewport", timeout), lambda shown: shown.items() >= wanted.items(), wanted)
        until(lambda: self.peer.call("size", table=self.table) == size, timeout)


class Subscription(Thing):
    """A subscription to all rows."""

    def next(self, timeout: float = CALL_SECONDS) -> dict[str, Any]:
        """The next update: keys added, removed and modified, those that there are after it, and all cells by them."""
        return self.event("updated", timeout)

    def until(self, expected: Cells, timeout: float = CALL_SECONDS) -> list[dict[str, Any]]:
        """Wait until it shows just that; the updates that led there."""
        return _until(lambda: self.next(timeout), lambda update: update["cells"] == expected, expected)


def _until(
    following: Callable[[], dict[str, Any]], is_it: Callable[[dict[str, Any]], bool], wanted: object
) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = []
    while not seen or not is_it(seen[-1]):
        try:
            seen.append(following())
        except AssertionError as error:
            last = seen[-1] if seen else None
            pytest.fail(f"wanted\n{wanted}\nand saw last\n{last}\nafter {len(seen)}: {error}", pytrace=False)
    return seen


def shown(table: pa.Table) -> Cells:
    """The cells that a page shows of columns of ``table``, where a column arrives as it is (docs/types.md)."""
    return {name: [_shown(value, column.type) for value in _values(column)] for name, column in _columns(table)}


def _columns(table: pa.Table) -> Iterator[tuple[str, pa.ChunkedArray]]:
    yield from zip(table.schema.names, table.columns, strict=True)


def _values(column: pa.ChunkedArray) -> list[Any]:
    # what Python cannot say exactly, or reads with pandas, is left as numbers
    if types.is_timestamp(column.type) or types.is_time64(column.type):
        column = column.cast(pa.int64())
    elif types.is_time32(column.type):
        column = column.cast(pa.int32())
    values: list[Any] = column.to_pylist()
    return values


def _shown(value: Any, data_type: pa.DataType) -> Any:
    if value is None:
        return None
    if types.is_list(data_type) or types.is_large_list(data_type) or types.is_fixed_size_list(data_type):
        return [_shown(element, data_type.value_type) for element in value]
    if types.is_time(data_type):
        return {"text": _clock(value * _NANOSECONDS[data_type.unit])}
    if types.is_timestamp(data_type):
        return {"text": str(value * _NANOSECONDS[data_type.unit])}
    if types.is_int64(data_type) or types.is_uint32(data_type) or types.is_uint64(data_type):
        return {"text": str(value)}
    if types.is_date(data_type) or types.is_decimal(data_type):
        return {"text": str(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}
    if isinstance(value, float) and value == 0 and math.copysign(1, value) < 0:
        return {"number": "-0"}
    return value


def _clock(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:09}"

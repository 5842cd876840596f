"""Deephaven's Python clients, the plain one and the ticking one, which do what the test says.

The test runs statements in this script's globals, where the names of both packages are, as a user would type them.
A table that is collected calls its server. Collected in the midst of a gRPC call, or on gRPC's own thread, that call
waits for the one that it interrupts, so garbage is collected between calls only.
"""

from __future__ import annotations

import base64
import gc
import re
import sys
import threading  # noqa: F401  (for the statements of tests)
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import pyarrow as pa
from pydeephaven import Session, Table  # noqa: F401  (for the statements of tests)
from pydeephaven.ticket import ScopeTicket, SharedTicket  # noqa: F401
from pydeephaven_ticking.table_listener import TableListenerHandle, TableUpdate, listen

from .arrow_text import from_text, to_text
from .loop import Loop

loop = Loop()
_scope = vars(sys.modules["__main__"])
_handles: dict[str, TableListenerHandle] = {}


@loop.function
def execute(code: str) -> None:
    """Run statements."""
    exec(compile(code, "<test>", "exec"), _scope)


@loop.function
def evaluate(expression: str) -> Any:
    """The value of an expression, as far as JSON can say it."""
    return eval(expression, _scope)


@loop.function
def give(name: str, table: str) -> None:
    """Put an Arrow table into a global variable."""
    _scope[name] = from_text(table)


@loop.function
def fetch(expression: str) -> str:
    """The Arrow table, or the empty one with the schema, that an expression gives."""
    value = eval(expression, _scope)
    return to_text(value.empty_table() if isinstance(value, pa.Schema) else value)


@loop.function
def forget(*_names: str) -> None:
    """Delete what statements have left behind."""
    for name in set(_scope) - _own:
        del _scope[name]
    gc.collect()


@loop.function
def start(name: str, table: str) -> None:
    """Listen to the table that an expression gives. What is heard are events called ``name``."""
    opened = eval(table, _scope)
    arrived: list[bytes] = []
    handle = listen(
        opened,
        lambda update: loop.say(name, update=_described(update, arrived)),
        lambda error: loop.say(name, error=type(error).__name__, text=str(error)),
    )
    flight = opened.session.flight_service
    exchange = flight.do_exchange

    def recorded() -> tuple[Any, Any]:
        """The exchange, of which the metadata is kept: the client itself does not tell which cycles it has seen."""
        writer, reader = exchange()
        return writer, _Recorder(reader, arrived)

    flight.do_exchange = recorded
    try:
        handle.start()
    finally:
        del flight.do_exchange
    _handles[name] = handle


@loop.function
def stop(name: str) -> None:
    """Listen no more."""
    handle = _handles.pop(name)
    handle.stop()
    assert not handle._thread.is_alive()


class _Recorder:
    """A stream that keeps the metadata of what is read from it."""

    def __init__(self, reader: Any, arrived: list[bytes]) -> None:
        self._reader = reader
        self._arrived = arrived

    def read_chunk(self) -> Any:
        chunk = self._reader.read_chunk()
        if chunk.app_metadata is not None:
            self._arrived.append(chunk.app_metadata.to_pybytes())
        return chunk

    def cancel(self) -> None:
        self._reader.cancel()


def _described(update: TableUpdate, arrived: list[bytes]) -> dict[str, Any]:
    """An update as the client sees it: positions of rows, and their cells."""
    inner = update.update
    names = list(inner.current.schema.names)
    modified = [
        {
            "rows": _positions(inner.after_modifies, rows),
            "before": _cells(inner.before_modifies, rows, [name]),
            "cells": _cells(inner.after_modifies, rows, [name]),
        }
        for name, rows in zip(names, inner.modified_rows, strict=False)
    ]
    return {
        "metadata": [base64.b64encode(arrived.pop(0)).decode() for _ in range(len(arrived))],
        "removed": {
            "rows": _positions(inner.before_removes, inner.removed_rows),
            "cells": _cells(inner.before_removes, inner.removed_rows, names),
        },
        "added": {
            "rows": _positions(inner.after_adds, inner.added_rows),
            "cells": _cells(inner.after_adds, inner.added_rows, names),
        },
        "modified": modified,
        "current": _cells(inner.current, inner.current.get_row_sequence(), names),
    }


def _positions(table: Any, rows: Any) -> list[int]:
    """Positions of ``rows``. The client shows them in a printed table only."""
    return [] if rows.empty else [int(found) for found, _ in _printed(table, rows)]


def _cells(table: Any, rows: Any, names: Sequence[str]) -> str | None:
    """Cells of ``rows``, none if there are none: the client cannot read no rows, nor lists without elements.

    Of columns of lists this is what the client prints.
    """
    if rows.empty:
        return None
    columns = {}
    for name in names:
        source = table.get_column_by_name(name, True)
        if pa.types.is_list(table.schema.pa_types[table.schema.names.index(name)]):
            number = table.schema.names.index(name)
            columns[name] = pa.array([cells.split("\t")[number] for _, cells in _printed(table, rows)])
        else:
            columns[name] = source.get_chunk(rows)
    return to_text(pa.table(columns))


def _printed(table: Any, rows: Any) -> list[tuple[str, str]]:
    """Position and cells of each row, as the client prints them."""
    return re.findall(r"^\[(\d+)\] \t(.*)$", table.to_string(False, True, rows), re.MULTILINE)


_own = set(_scope)

if __name__ == "__main__":
    _own = set(_scope)
    gc.disable()
    loop.run(pydeephaven=version("pydeephaven"), ticking=version("pydeephaven-ticking"))

"""A listener of pydeephaven-ticking, each of whose updates must say what the engine knows to have happened."""

from __future__ import annotations

import base64
from typing import Any, Self

import pyarrow as pa

from barrage_server.engine import Table, TableUpdate, TableVersion
from barrage_server.engine.update import coalesce_nodes
from barrage_server.rowset import RowSet
from barrage_server.wire.metadata import UpdateMetadata, decode_message

from .peers.arrow_text import from_text
from .python_client import Pydeephaven

__all__ = ["Listener"]

EVENT_SECONDS = 20.0


class Listener:
    """Listens to a table of the server, in the client's process, and compares what is heard there.

    Args:
        client: a client with a ``session``.
        table: a table of the server that the client is connected to.
        name: what the listener is called; several of one client differ.
        opened: the expression that opens the table.
    """

    def __init__(self, client: Pydeephaven, table: Table, name: str = "listener", opened: str = "") -> None:
        self.table = table
        self.client = client
        self.name = name
        self.updates = 0
        self.coalesced = 0
        self.rows: dict[str, int] = {"added": 0, "removed": 0, "modified": 0, "moved": 0}
        self._versions: dict[int, TableVersion] = {table.version.step: table.version}
        self._forget = table.add_listener(self._keep)
        self._seen: TableVersion | None = None
        self._closed = False
        client.peer.call("start", name=name, table=opened or f"session.open_table({table.name!r})")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Listen no more. May be called repeatedly."""
        if not self._closed:
            self._closed = True
            self._forget()
            self.client.peer.call("stop", name=self.name)

    @property
    def seen(self) -> TableVersion:
        """The version that the client has now."""
        assert self._seen is not None
        return self._seen

    def catch_up(self) -> None:
        """Take updates until the client has the present version."""
        while self._seen is None or self._seen.step < self.table.version.step:
            self.take()

    def error(self) -> str:
        """What the listener is told of the end of its stream; updates that come before are checked."""
        while True:
            event = self.client.peer.event(self.name, EVENT_SECONDS)
            if "error" in event:
                return f"{event['error']}: {event['text']}"
            self._check(event["update"])

    def take(self) -> None:
        """Take one update, and compare it."""
        event = self.client.peer.event(self.name, EVENT_SECONDS)
        assert "update" in event, event
        self._check(event["update"])

    def _keep(self, _update: TableUpdate, _before: TableVersion, after: TableVersion) -> None:
        self._versions[after.step] = after

    def _check(self, heard: dict[str, Any]) -> None:
        messages = [decode_message(base64.b64decode(text)) for text in heard["metadata"]]
        said = [message for message in messages if isinstance(message, UpdateMetadata)]
        after = self._versions[said[-1].last_seq]
        if self._seen is None:
            assert all(message.is_snapshot for message in said)
            _check_snapshot(heard, after)
        else:
            assert not said[0].is_snapshot
            assert said[0].first_seq == self._seen.step + 1
            update = coalesce_nodes(self._seen.node, after.node)
            self._check_update(heard, update, self._seen, after)
            self.updates += 1
            self.coalesced += said[0].last_seq > said[0].first_seq
        _check_cells(heard["current"], after, after.row_set)
        self._seen = after

    def _check_update(
        self, heard: dict[str, Any], update: TableUpdate, before: TableVersion, after: TableVersion
    ) -> None:
        _check_rows(heard["removed"], "cells", update.removed, before)
        _check_rows(heard["added"], "cells", update.added, after)
        modified = heard["modified"]
        assert len(modified) in (0, len(update.modified))
        assert modified or not any(update.modified)
        for number, (found, rows) in enumerate(zip(modified, update.modified, strict=False)):
            _check_rows(found, "cells", rows, after, number)
            _check_cells(found["before"], before, update.shifted.unapply(rows) if update.shifted.size else rows, number)
        self.rows["added"] += update.added.size
        self.rows["removed"] += update.removed.size
        self.rows["modified"] += update.modified_rows.size
        self.rows["moved"] += update.shifted.size


def _check_snapshot(heard: dict[str, Any], version: TableVersion) -> None:
    assert not heard["removed"]["rows"]
    assert not any(found["rows"] for found in heard["modified"])
    _check_rows(heard["added"], "cells", version.row_set, version)


def _check_rows(
    found: dict[str, Any], cells: str, rows: RowSet, version: TableVersion, column: int | None = None
) -> None:
    """The client names rows by their positions in the version."""
    assert found["rows"] == version.row_set.invert(rows).keys().tolist()
    _check_cells(found[cells], version, rows, column)


def _check_cells(found: str | None, version: TableVersion, rows: RowSet, column: int | None = None) -> None:
    if found is None:
        assert not rows
        return
    shown = from_text(found)
    expected = version.to_table(None if column is None else [column], rows=rows)
    assert shown.schema.names == expected.schema.names
    for got, wanted in zip(shown.columns, expected.columns, strict=True):
        if pa.types.is_list(wanted.type):
            assert got.to_pylist() == [_printed(value) for value in wanted.to_pylist()]
        else:
            assert got.type == wanted.type
            assert got.to_pylist() == wanted.to_pylist()


def _printed(values: list[int | None] | None) -> str:
    """A list of numbers as the client prints it, to which a null is an empty list."""
    return f"[{','.join('null' if value is None else str(value) for value in values or ())}]"

"""The half of a client that changes tables on the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from barrage_server.arguments import choice, integer, optional_names, shown
from barrage_server.client.connection import Connection
from barrage_server.client.live import LiveTable
from barrage_server.client.names import checked_name
from barrage_server.client.publication import Publication
from barrage_server.client.upload import Uploadable, act
from barrage_server.engine import Table
from barrage_server.engine.schemas import SchemaLike, as_schema
from barrage_server.errors import InvalidRequestError
from barrage_server.wire.protocol import (
    CREATE_ACTION,
    DROP_ACTION,
    CommitRequest,
    CreateRequest,
    DropRequest,
    PublishMode,
    TableKind,
)
from barrage_server.wire.table_spec import TableSpec
from barrage_server.wire.target import check_target

__all__ = ["Publishing"]

_PUBLISHING: Final = "staging and committing rows"


class Publishing(Connection):
    """Publishes rows and tables that tick, makes tables and drops them."""

    def publish(
        self,
        name: str,
        data: Uploadable,
        *,
        key: Sequence[str] | str | None = None,
        mode: PublishMode | str | None = None,
        kind: TableKind | str | None = None,
        capacity: int | None = None,
    ) -> int:
        """Publish rows. They become visible all at once, in one cycle, or not at all.

        A table that does not exist is made: a keyed one when ``key`` is given, a ring when ``capacity`` is, else an
        append table.

        Args:
            name: the table on the server.
            data: a pyarrow table, batch or reader, a mapping of columns, or a data frame. Python values in a mapping
                take the types of the table's columns.
            key: key columns. In an existing table they must be its own.
            mode: ``append``, ``upsert``, ``replace`` or ``delete``; by default append, or upsert where there are keys.
            kind: kind of a new table.
            capacity: rows that a new ring keeps.

        Returns:
            The number of rows published.

        Raises:
            SchemaMismatchError, KeyMismatchError, UnsupportedTypeError: the rows do not fit; nothing is changed.
            InvalidRequestError: ``data`` is a table that ticks, which :meth:`publish_live` is for.
            UnsupportedOperationError: the server is Deephaven's, which takes no rows in this way.
            UnavailableError: the server is gone.
        """
        if isinstance(data, LiveTable | Table):
            raise InvalidRequestError("A table that ticks is published with publish_live(name, table).")
        return self._upload(name, data, key=key, mode=mode, kind=kind, capacity=capacity)

    def publish_live(self, name: str, table: Table | LiveTable, *, interval_ms: int = 10) -> Publication:
        """Keep a table on the server equal to one that ticks here, until the result is closed.

        Args:
            name: the table on the server.
            table: one of the engine, or a live table, of this or of another server.
            interval_ms: milliseconds between two updates at least.

        Raises:
            InvalidRequestError: ``table`` does not tick: rows are published with :meth:`publish`.
            UnsupportedOperationError: the server is Deephaven's, which takes no tables in this way.
            UnavailableError: the server is gone.
        """
        self._channel.need(_PUBLISHING)
        source = table.table if isinstance(table, LiveTable) else table
        if not isinstance(source, Table):
            raise InvalidRequestError(
                f"publish_live takes a live table or a table of the engine, not {shown(table)}; rows are published "
                "with publish(name, rows)."
            )
        integer(interval_ms, "interval_ms")
        publication = Publication(self._channel, name, source, interval_ms=interval_ms, timeout=self._timeout)
        self._own(publication)
        return publication

    def append(self, name: str, rows: Uploadable) -> int:
        """Add rows to a table; returns how many."""
        return self._upload(name, rows, mode=PublishMode.APPEND)

    def upsert(self, name: str, rows: Uploadable) -> int:
        """Insert rows into a keyed table, or overwrite those with the same key; the last of a key wins."""
        return self._upload(name, rows, mode=PublishMode.UPSERT)

    def delete(self, name: str, keys: Uploadable) -> int:
        """Delete rows of a keyed table: ``keys`` has its key columns."""
        return self._upload(name, keys, mode=PublishMode.DELETE)

    def replace(self, name: str, rows: Uploadable) -> int:
        """Make ``rows`` the whole content of a table; subscribers get only what differs."""
        return self._upload(name, rows, mode=PublishMode.REPLACE)

    def create_table(
        self,
        name: str,
        schema: SchemaLike,
        *,
        key: Sequence[str] | str | None = None,
        kind: TableKind | str | None = None,
        capacity: int | None = None,
    ) -> None:
        """Make an empty table; fine when there is one of the same kind, schema and keys.

        Args:
            name: the table on the server.
            schema: its columns: a pyarrow schema, or a mapping of names to types such as
                ``{"sym": "string", "price": "float64"}``.
            key: key columns, which make it a keyed table.
            kind: its kind; by default keyed with a key, a ring with a capacity, else append.
            capacity: rows that a ring keeps.

        Raises:
            AlreadyExistsError: there is another one of that name.
        """
        self._channel.need("making tables")
        spec = TableSpec.implied(
            choice(kind, TableKind, "kind"), optional_names(key, "key", single=True), _capacity(capacity)
        )
        request = CreateRequest(checked_name(name), as_schema(schema), spec.kind, spec.key, spec.capacity)
        act(self._channel, CREATE_ACTION, request.to_json())

    def drop(self, name: str) -> None:
        """Take a table off the server. Subscriptions to it end with an error."""
        self._channel.need("dropping tables")
        act(self._channel, DROP_ACTION, DropRequest(checked_name(name)).to_json())

    def _upload(
        self,
        name: str,
        data: Uploadable,
        *,
        key: Sequence[str] | str | None = None,
        mode: PublishMode | str | None = None,
        kind: TableKind | str | None = None,
        capacity: int | None = None,
    ) -> int:
        self._channel.need(_PUBLISHING)
        keys = optional_names(key, "key", single=True) if key is not None and key != () else None
        wanted, named, rows = choice(mode, PublishMode, "mode"), choice(kind, TableKind, "kind"), _capacity(capacity)
        check_target(named, keys, rows, wanted, is_new=False)
        chosen = wanted or (PublishMode.UPSERT if keys else PublishMode.APPEND)
        target = CommitRequest("", checked_name(name), 0, mode=chosen, key=keys, kind=named, capacity=rows)
        return self._uploader.publish(target, data)


def _capacity(capacity: int | None) -> int | None:
    return None if capacity is None else integer(capacity, "capacity", least=1)

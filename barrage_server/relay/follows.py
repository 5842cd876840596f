"""The followed tables of one server."""

from __future__ import annotations

import secrets
import threading
from typing import TYPE_CHECKING

from barrage_server.errors import UnavailableError
from barrage_server.relay.attributes import route_entry
from barrage_server.relay.table_catalog import TableCatalog

if TYPE_CHECKING:
    from barrage_server.relay.followed_table import FollowedTable
    from barrage_server.relay.source import Source

__all__ = ["Follows"]


class Follows:
    """The followed tables by name. Methods may be called from any thread.

    Args:
        catalog: serves the tables.
    """

    def __init__(self, catalog: TableCatalog) -> None:
        self._catalog = catalog
        self._identity = secrets.token_hex(8)  # of this server, in the routes of tables
        self._lock = threading.Lock()
        self._open: dict[str, FollowedTable] = {}
        self._closing = False

    def all(self) -> tuple[FollowedTable, ...]:
        """All followed tables, in the order of their names."""
        with self._lock:
            return tuple(self._open[name] for name in sorted(self._open))

    def find(self, name: str) -> FollowedTable | None:
        """The followed table of that name; None without one."""
        with self._lock:
            return self._open.get(name)

    def begin(self, name: str, source: Source, *, max_delay: float, wait: float | None) -> FollowedTable:
        """Follow ``source`` as ``name``.

        Args:
            name: the table's name here.
            source: the upstream table.
            max_delay: longest delay between two attempts to reach the upstream, in seconds.
            wait: seconds to wait for the first content; None returns at once.

        Raises:
            AlreadyExistsError: there is a table of that name.
            UnavailableError: the server is shutting down.
            BarrageError: the reason why the first content is not served.
        """
        followed = self._add(name, source, max_delay)
        try:
            followed.start()
            if wait is not None:
                followed.wait_first(wait)
        except BaseException:
            followed.close()
            raise
        return followed

    def close(self) -> None:
        """Stop following.

        The tables stay, so that subscribers are told of the server's end and not of a drop.
        """
        with self._lock:
            self._closing = True
            still_open = tuple(self._open.values())
            self._open.clear()
        for followed in still_open:
            followed.stop()
        for followed in still_open:
            followed.join()

    def _add(self, name: str, source: Source, max_delay: float) -> FollowedTable:
        from barrage_server.relay.followed_table import FollowedTable  # loads the client, which a server may never need

        with self._lock:
            if self._closing:
                raise UnavailableError("The server is shutting down.")
            give_back = self._catalog.reserve(
                name,
                f"Table '{name}' follows a table of another server, and only that server changes it; use another name.",
            )

            def ended(followed: FollowedTable) -> None:
                with self._lock:
                    if self._open.get(name) is followed:
                        del self._open[name]
                        give_back()

            route = route_entry(self._identity, name)
            followed = FollowedTable(self._catalog, name, source, route=route, max_delay=max_delay, ended=ended)
            self._open[name] = followed
            return followed

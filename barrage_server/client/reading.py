"""Reading a table of the server: its content once, or every change from now on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from barrage_server.arguments import callback, integer, optional_names, seconds, shown
from barrage_server.client.content import Content
from barrage_server.client.interruptible import run_interruptible
from barrage_server.client.live import LiveTable
from barrage_server.client.names import FlightAddress
from barrage_server.client.server_kind import ServerKind
from barrage_server.client.session import Session
from barrage_server.client.snapshot import take_snapshot
from barrage_server.client.subscription_worker import SubscriptionWorker
from barrage_server.client.update import Update
from barrage_server.client.view import View
from barrage_server.client.window import Viewport, positions_of
from barrage_server.engine import ReplicaTable
from barrage_server.errors import InvalidRequestError, UnsupportedOperationError
from barrage_server.subscription import Dialect
from barrage_server.wire.metadata import SubscriptionOptions

__all__ = ["follow", "read_once"]


def read_once(
    session: Session, address: FlightAddress, columns: Sequence[str] | None, viewport: Viewport, *, reverse: bool
) -> pa.Table:
    """Read the present content of a table; see :meth:`Client.snapshot`."""
    view = View(positions_of(viewport), bool(reverse), optional_names(columns, "columns"))
    return session.channel.logged_in(
        lambda: run_interruptible(
            lambda progress: take_snapshot(session.channel, address, view, progress),
            timeout=session.timeout,
            what=f"snapshot of '{address.name}'",
        )
    )


def follow(
    session: Session,
    address: FlightAddress,
    columns: Sequence[str] | None,
    viewport: Viewport,
    *,
    reverse: bool,
    interval_ms: int,
    dialect: Dialect | str | None,
    timeout: float | None,
    onto: ReplicaTable | None,
    on_update: Callable[[Update], object] | None,
) -> LiveTable:
    """Follow a table; see :meth:`Client.subscribe`."""
    integer(interval_ms, "interval_ms", most=(1 << 31) - 1)
    if timeout is not None:
        seconds(timeout, "timeout")
    if on_update is not None:
        callback(on_update, "on_update")
    if onto is not None and not isinstance(onto, ReplicaTable):
        raise InvalidRequestError(f"onto is the table of a live table that has ended, not {shown(onto)}.")
    spoken = _dialect(session, dialect)
    view = View(positions_of(viewport), bool(reverse), optional_names(columns, "columns"))
    worker = SubscriptionWorker(
        session.channel,
        address,
        view,
        Content(session.graph if onto is None else onto.graph, address.name, onto),
        options=SubscriptionOptions(min_update_interval_ms=interval_ms, columns_as_list=True),
        dialect=spoken,
        retry=session.retry,
        on_update=on_update,
    )
    live = LiveTable(worker, session.timeout)
    session.own(live)
    worker.start()
    try:
        live.wait_for_content(session.timeout if timeout is None else timeout)
    except BaseException:
        live.close()
        raise
    return live


def _dialect(session: Session, dialect: Dialect | str | None) -> Dialect | None:
    try:
        wanted = None if dialect is None else Dialect(dialect)
    except ValueError:
        raise InvalidRequestError(f"dialect is 'key-space' or 'flattened', not {dialect!r}.") from None
    if wanted is Dialect.KEY_SPACE and session.channel.server_kind is ServerKind.DEEPHAVEN:
        raise UnsupportedOperationError("A Deephaven server writes viewports flattened; leave dialect out.")
    return wanted

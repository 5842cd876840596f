"""The state that subscribers of one table share: ticks, and equal messages."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from barrage_server.arguments import integer
from barrage_server.engine.table import Table
from barrage_server.engine.update import FoldedHistories, TableUpdate, UpdateNode
from barrage_server.engine.version import TableVersion
from barrage_server.public import public
from barrage_server.subscription.message import EncodedMessage, MessageEncoder
from barrage_server.subscription.moved_viewport import MovedMessage
from barrage_server.subscription.quiet_update import QuietMessage
from barrage_server.subscription.shared_rows import SharedRows
from barrage_server.subscription.viewport_group import GroupMessage, ViewportGroup
from barrage_server.subscription.window import Window, check_columns
from barrage_server.wire.families import ClientFamily, FamilyColumns, attributes_for
from barrage_server.wire.metadata import UpdateMetadata
from barrage_server.wire.schema import barrage_schema

# Least number of subscribers, and most changed rows for each, for which rows are read once for all.
_MANY_MEMBERS = 8
_ROWS_PER_MEMBER = 256
_MOST_RANGES = 64  # most ranges of a viewport with shared messages
# Seconds within which members arrive at a tick; later members send a later version.
_TICK_SECONDS = 1.0
_MOST_INTERVALS = 64  # most intervals with ticks
_ROUNDING = 1e-6  # error of a computed tick, in intervals
_KEPT = 8  # most updates with cached rows: subscribers lag by different numbers of cycles

__all__ = ["BuiltMessage", "Message", "SharedMessage", "SubscriberGroup", "SubscriptionLimits", "TableFeed"]


@public
@dataclass(frozen=True, slots=True)
class SubscriptionLimits:
    """Bounds of the cost of one subscription.

    Attributes:
        default_interval_ms: the update interval of subscribers without one, in milliseconds.
        min_interval_ms: the shortest update interval that is granted, in milliseconds.
        snapshot_part_cells: approximate number of cells in a part of a first snapshot.
        shared_rows: most rows of a message that is cached for several subscribers.

    """

    default_interval_ms: int = 100
    min_interval_ms: int = 1
    snapshot_part_cells: int = 1 << 23
    shared_rows: int = 1 << 18

    def __post_init__(self) -> None:
        for name, least in (
            ("default_interval_ms", 0),
            ("min_interval_ms", 0),
            ("snapshot_part_cells", 1),
            ("shared_rows", 0),
        ):
            integer(getattr(self, name), f"The limit subscriptions.{name}", least=least)


BuiltMessage: TypeAlias = EncodedMessage | GroupMessage | QuietMessage
"""An update, before it is shared."""


class SharedMessage:
    """A message that the first subscriber in need converts to batches, or to bytes."""

    __slots__ = ("_batches", "_data", "_encapsulated", "_lock", "_message")

    def __init__(self, message: BuiltMessage) -> None:
        self._message = message
        self._lock = threading.Lock()
        self._batches: list[tuple[pa.RecordBatch, bytes | None]] | None = None
        self._data: list[bytes] | None = None
        self._encapsulated: list[tuple[bytes | None, bytes]] | None = None

    @property
    def metadata(self) -> UpdateMetadata:
        """The decoded metadata of the message."""
        return self._message.metadata

    @property
    def row_count(self) -> int:
        """Number of rows with values."""
        return self._message.row_count

    @property
    def is_snapshot(self) -> bool:
        """Whether the message answers a request, and is no change of the table."""
        return self._message.is_snapshot

    def batches(self) -> Iterator[tuple[pa.RecordBatch, bytes | None]]:
        """Return the record batches with their ``app_metadata``."""
        with self._lock:
            if self._batches is None:
                self._batches = list(self._message.batches())
        return iter(self._batches)

    def flight_data(self) -> Iterator[bytes]:
        """Return serialized ``FlightData``, the same bytes for all subscribers."""
        with self._lock:
            if self._data is None:
                self._data = list(self._message.flight_data())
        return iter(self._data)

    def encapsulated(self) -> Iterator[tuple[bytes | None, bytes]]:
        """Return the messages to web pages, the same bytes for all subscribers."""
        with self._lock:
            if self._encapsulated is None:
                self._encapsulated = list(self._message.encapsulated())
        return iter(self._encapsulated)


Message: TypeAlias = EncodedMessage | GroupMessage | MovedMessage | QuietMessage | SharedMessage
"""A message to a subscriber, as record batches or as bytes."""


@dataclass(slots=True, eq=False)
class SubscriberGroup:
    """Subscribers of one table with equal messages.

    Their columns, viewport, dialect and options are equal.

    Attributes:
        key: equal for subscribers of this group.
        viewport_key: equal for groups of ``viewports``.
        viewports: groups that differ in their viewports only, with this one; None for none.
        seat: the member of ``viewports`` for this group, another one for each viewport.
        members: the number of subscribers.
        lock: guards ``latest``.
        latest: the span and the message that was built last.

    """

    key: Hashable
    viewport_key: Hashable = None
    viewports: ViewportGroup | None = None
    seat: object = field(default_factory=object)
    members: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    latest: tuple[Hashable, Message] | None = None

    def message(self, span: Hashable, build: Callable[[], BuiltMessage], limit: int) -> Message:
        """Return the message for a span of the history, built once for all members.

        Args:
            span: identifies the message among those of the group.
            build: builds the message.
            limit: most rows of a message that is cached.

        """
        if self.members < 2:
            return build()
        with self.lock:
            if self.latest is not None and self.latest[0] == span:
                return self.latest[1]
            message = build()
            shared = SharedMessage(message) if message.row_count <= limit else message
            self.latest = (span, shared)
            return shared


class _Tick(NamedTuple):
    """The latest tick of an interval: its time, and the version, unless dropped."""

    time: float
    version: TableVersion | None


class TableFeed:
    """A table as the subscribers of one client family see it.

    Subscribers with one update interval send at the same ticks, whole intervals apart, so that they share messages: the
    first subscriber at a tick fixes the version that all of them send. A subscriber that sends a change outside of a
    tick restarts the ticks, unless the last tick is less than an interval ago.

    Args:
        table: the table.
        limits: bounds of the cost of a subscription.
        family: the kind of the clients.
        columns: numbers, in the family's view, of the columns that these subscribers see; ``None`` for all.

    Attributes:
        table: the table.
        limits: bounds of the cost of a subscription.
        view: the columns of the table that these subscribers see, and their types. Requests and messages number
            columns as the view does.
        schema: the view's schema on the wire.

    """

    def __init__(
        self,
        table: Table,
        limits: SubscriptionLimits | None = None,
        family: ClientFamily = ClientFamily.ARROW,
        columns: tuple[int, ...] | None = None,
    ) -> None:
        self.table = table
        self.limits = limits or SubscriptionLimits()
        view = FamilyColumns.of(table.schema, family)
        self.view = view = view if columns is None else view.only(check_columns(columns, len(view.sources)))
        names, key_columns = table.schema.names, frozenset(table.key_columns)
        keys = [
            name for number, name in zip(view.sources, view.schema.names, strict=True) if names[number] in key_columns
        ]
        attributes = attributes_for(table.attributes, family)
        self.schema: pa.Schema = view.schema
        if family is not ClientFamily.BROWSER:  # a page gets the descriptions of columns separately
            self.schema = barrage_schema(view.schema, attributes=attributes, key_columns=keys)
        self._lock = threading.Lock()
        self._groups: dict[Hashable, SubscriberGroup] = {}
        self._viewport_groups: dict[Hashable, ViewportGroup] = {}
        self._ticks: dict[float, _Tick] = {}
        self._folds = FoldedHistories()
        self._folded_at = -math.inf  # the time of the pass over the subscribers that folds histories
        self._fold_lock = threading.Lock()  # folding takes long
        self._members = 0
        self._shared: dict[tuple[int, int], SharedRows] = {}  # by id() of the update, which the value has, and step

    def shared_rows(self, update: TableUpdate, version: TableVersion) -> SharedRows | None:
        """Read the rows of ``update`` as of ``version`` once for all subscribers.

        Returns:
            ``None`` when separate reads cost less, for few subscribers or many changed rows, and when rows were added,
            removed or shifted.

        """
        if update.added or update.removed or update.shifted.size:
            return None
        place = (id(update), version.step)
        with self._lock:
            shared = self._shared.get(place)
            if shared is not None:
                return shared
            rows = max((rows.size for rows in update.modified), default=0)
            if self._members < _MANY_MEMBERS or rows > min(_ROWS_PER_MEMBER * self._members, self.limits.shared_rows):
                return None
            if len(self._shared) >= _KEPT:
                oldest = min(self._shared, key=lambda kept: kept[1])
                if oldest[1] >= version.step:
                    return None
                del self._shared[oldest]
            shared = self._shared[place] = SharedRows(self.view, update, version)
            return shared

    def tick_at(self, interval: float, due: float, time: float) -> tuple[float, TableVersion]:
        """Return the time of a subscriber's tick, and the version to send.

        Args:
            interval: the subscriber's interval, in seconds.
            due: the time from which the subscriber may send.
            time: the time of the tick, if it is a new one.

        Returns:
            The latest tick and its version, if the subscriber is late for it; otherwise ``time`` and the present
            version.

        """
        slack = _ROUNDING * interval
        with self._lock:
            tick = self._ticks.get(interval)
            is_new = tick is None or time >= tick.time + interval - slack
            if tick is not None and tick.version is not None and not is_new and due <= tick.time + slack:
                return tick.time, tick.version
            version = self.table.version
            if is_new and self._members > 1:
                if tick is None and len(self._ticks) >= _MOST_INTERVALS:
                    del self._ticks[min(self._ticks, key=lambda known: self._ticks[known].time)]
                self._ticks[interval] = _Tick(time, version)
            return time, version

    def tick_after(self, interval: float, time: float) -> float:
        """Return the first tick of ``interval`` at ``time`` or later.

        It is ``time`` if there are no ticks yet.
        """
        tick = self._ticks.get(interval)
        if tick is None:
            return time
        return max(time, tick.time + math.ceil((time - tick.time) / interval - _ROUNDING) * interval)

    def fold(self, node: UpdateNode, now: float) -> tuple[UpdateNode, UpdateNode]:
        """Fold the history of a subscriber, shared by all that do so at ``now``.

        Args:
            node: the subscriber's point in the history.
            now: the time of a pass over the subscribers.

        Returns:
            The node in place of ``node``, and the node up to which its history is folded.

        """
        with self._fold_lock:
            if now != self._folded_at:
                self._folded_at = now
                self._folds.clear()
            return self._folds.fold(node, self.table.version.node)

    def tidy(self, now: float) -> None:
        """Drop the versions of past ticks, and what was kept to fold histories.

        Both keep the whole later history alive.
        """
        with self._fold_lock:
            self._folds.clear()
        with self._lock:
            for interval, tick in tuple(self._ticks.items()):
                if now - tick.time >= _TICK_SECONDS:
                    self._ticks[interval] = tick._replace(version=None)

    def join(self, window: Window, encoder: MessageEncoder) -> SubscriberGroup:
        """Join the group with equal messages."""
        positions = window.positions
        key = _group_key(window, encoder)
        with self._lock:
            self._members += 1
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = SubscriberGroup(key)
                # Columns of an update differ in their modified rows, so batches must be ragged or have lists.
                if positions is not None and window.is_run and encoder.carries_ragged:
                    group.viewport_key = (window.columns, window.reverse, encoder.key)
                    viewports = self._viewport_groups.get(group.viewport_key)
                    if viewports is None:
                        viewports = ViewportGroup(encoder, window.columns, reverse=window.reverse)
                        self._viewport_groups[group.viewport_key] = viewports
                    group.viewports = viewports
                    viewports.join(group.seat, positions)
            group.members += 1
            return group

    def move(
        self, group: SubscriberGroup, window: Window, encoder: MessageEncoder, *, only_moved: bool
    ) -> SubscriberGroup:
        """Leave ``group`` for the group of ``window``, and return that.

        ``only_moved``: both windows are one range of positions, of the same columns and direction.
        """
        if only_moved:
            key = _group_key(window, encoder)
            with self._lock:
                if group.members == 1 and key not in self._groups:  # the group moves as a whole
                    del self._groups[group.key]
                    self._groups[key] = group
                    group.key = key
                    group.latest = None  # of the viewport before, for members that have left
                    if group.viewports is not None and window.positions is not None:
                        group.viewports.leave(group.seat)
                        group.seat = object()
                        group.viewports.join(group.seat, window.positions)
                    return group
        joined = self.join(window, encoder)
        self.leave(group)  # after joining: what the last member leaves behind is not made anew
        return joined

    def leave(self, group: SubscriberGroup) -> None:
        """Leave the group; the last member drops what it cached."""
        with self._lock:
            group.members -= 1
            self._members -= 1
            if group.members < 2:
                group.latest = None
            if not group.members:
                del self._groups[group.key]
                if group.viewports is not None:
                    group.viewports.leave(group.seat)
                    if not group.viewports.size:
                        del self._viewport_groups[group.viewport_key]
            if self._members < 2:
                self._ticks.clear()
            if not self._groups:
                self._shared.clear()

    @property
    def subscriber_count(self) -> int:
        """Subscriptions that are open."""
        return self._members


def _group_key(window: Window, encoder: MessageEncoder) -> Hashable:
    """Return a key that is equal for subscribers with equal messages."""
    positions = window.positions
    if positions is not None and positions.range_count > _MOST_RANGES:
        return object()  # long viewports are expensive to compare, and rarely equal
    return (window.columns, positions, window.reverse, encoder.key)

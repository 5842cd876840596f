"""Messages to many viewports are slices of one change: each has the rows of its viewport."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from barrage_server.engine import KeyedTable, UpdateGraph
from barrage_server.rowset import RowSet, encode_range
from barrage_server.subscription import Dialect, TableFeed, Window
from barrage_server.subscription.viewport_group import GroupMessage
from barrage_server.wire.batches import MessageWriter
from barrage_server.wire.families import ClientFamily
from barrage_server.wire.metadata import SubscriptionOptions, UpdateMetadata
from barrage_server.wire.raw import decode_flight_data
from barrage_server.wire.wrapper import unwrap
from tests.subscription.follower import Follower, MessageFormat

ROWS, VIEW = 1000, 10
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("s", pa.string())])


class Stand:
    """A table, and viewports that lie side by side on it."""

    def __init__(self, dialect: Dialect = Dialect.KEY_SPACE, *, reverse: bool = False) -> None:
        self.table = KeyedTable(UpdateGraph(), "t", SCHEMA, ["k"])
        self.write(range(ROWS), 0)
        self.feed = TableFeed(self.table)
        options = SubscriptionOptions(min_update_interval_ms=1, columns_as_list=True)
        self.message_format = MessageFormat(ClientFamily.ARROW, dialect, False, options)
        self.followers = [self.follower(first, reverse=reverse) for first in range(0, ROWS, VIEW)]
        self.now = max(follower.settle(1.0) for follower in self.followers)

    def follower(self, first: int, *, reverse: bool = False) -> Follower:
        return Follower(
            self.feed, Window((0, 1, 2), RowSet.from_range(first, first + VIEW - 1), reverse), self.message_format
        )

    def write(self, keys: range, value: int) -> None:
        self.table.upsert({"k": list(keys), "v": [value] * len(keys), "s": [f"value {value}"] * len(keys)})

    def settle(self) -> None:
        for follower in self.followers:
            self.now = max(self.now, follower.settle(self.now))
        for follower in self.followers:
            follower.check()


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize("reverse", [False, True])
def test_every_subscriber_gets_the_rows_in_view(dialect: Dialect, reverse: bool) -> None:
    """``settle`` compares each subscriber's rows with the table."""
    stand = Stand(dialect, reverse=reverse)
    for step, keys in enumerate((range(0, ROWS, 7), range(3, 40), range(ROWS - 1, ROWS), range(ROWS))):
        stand.write(keys, step + 1)
        stand.settle()


def test_a_change_is_built_once_for_all_subscribers_at_the_same_step(monkeypatch: pytest.MonkeyPatch) -> None:
    stand = Stand()
    built = 0
    list_batch = MessageWriter.list_batch

    def counting(*arguments: Any) -> pa.RecordBatch:
        nonlocal built
        built += 1
        return list_batch(*arguments)

    monkeypatch.setattr(MessageWriter, "list_batch", counting)
    for step in range(3):
        stand.write(range(0, ROWS, VIEW), step + 1)
        stand.settle()
        assert built == step + 1


@pytest.mark.parametrize("dialect", list(Dialect))
def test_a_row_that_changes_in_several_columns_is_named_once(dialect: Dialect, monkeypatch: pytest.MonkeyPatch) -> None:
    """One column changes in a row of each viewport, the other one in that row, in another one, or in none."""
    stand = Stand(dialect)
    named = Counter[int]()

    def counting(first: int, last: int) -> bytes:
        named[first] += 1
        return encode_range(first, last)

    monkeypatch.setattr("barrage_server.subscription.viewport_change.encode_range", counting)
    rows = {first: first + (first // VIEW) % 3 for first in range(0, ROWS, 2 * VIEW)}
    changed = sorted({*range(0, ROWS, VIEW), *rows.values()})
    stand.table.upsert(
        {
            "k": changed,
            "v": [-1 if key % VIEW == 0 else 0 for key in changed],
            "s": ["other" if key in rows.values() else "value 0" for key in changed],
        }
    )
    stand.settle()
    assert max(named.values()) == 1 or dialect is Dialect.FLATTENED  # there rows are named by their place in a viewport
    assert sum(named.values()) <= len(changed)


def test_subscribers_that_join_leave_or_move_get_their_own_rows() -> None:
    """``settle`` compares each subscriber's rows with the table."""
    stand = Stand()
    for step in range(6):
        stand.write(range(step, ROWS, 3), step + 1)
        gone = stand.followers.pop(step)
        gone.subscription.close()
        stand.followers.append(stand.follower(5 * step))
        stand.settle()


def test_a_subscriber_that_is_behind_gets_everything_since() -> None:
    """Some take every change and some every third, so that spans of the history overlap."""
    stand = Stand()
    for step in range(9):
        stand.write(range(step, ROWS, 4), step + 1)
        for number, follower in enumerate(stand.followers):
            if step % 3 == number % 3 or number % 5 == 0:
                stand.now = max(stand.now, follower.settle(stand.now))
    stand.settle()


def test_subscribers_at_too_many_steps_are_served_separately() -> None:
    """What is kept is bounded, and is not made anew for each of them."""
    stand = Stand()
    for step in range(20):
        stand.write(range(step, ROWS, 4), step + 1)
        stand.now = max(stand.now, stand.followers[step].settle(stand.now))
    cut = Counter(
        type(message).__name__
        for follower in stand.followers
        for message in follower.subscription.poll(stand.now).messages
    )
    assert cut["GroupMessage"] > 0
    assert cut["EncodedMessage"] > 0
    stand.followers = [stand.follower(first) for first in range(0, ROWS, VIEW)]
    stand.settle()


def test_a_message_says_in_bytes_what_it_says_in_batches() -> None:
    stand = Stand()
    stand.write(range(0, ROWS, 3), 1)
    for follower in stand.followers:
        (message,) = follower.subscription.poll(stand.now + 10).messages
        assert isinstance(message, GroupMessage)
        ((batch, app_metadata),) = message.batches()
        assert app_metadata is not None
        (data,) = message.flight_data()
        assert decode_flight_data(data).app_metadata == app_metadata
        assert message.metadata.modified_rows == UpdateMetadata.decode_payload(unwrap(app_metadata)[1]).modified_rows
        assert message.row_count == max(len(column[0]) for column in batch.columns)

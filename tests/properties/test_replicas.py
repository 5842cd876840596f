"""After every quiet point each replica equals the table, whatever happened before, and however slow the wire was."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from barrage_server.engine import UpdateGraph
from barrage_server.rowset import RowSet
from barrage_server.subscription import Dialect, SubscriptionLimits, TableFeed, Window
from barrage_server.subscription.history import History, TableHistory
from barrage_server.wire.metadata import SubscriptionOptions
from tests.properties.sources import SCHEMA, SOURCES, Source
from tests.properties.subscribers import MessageFormat, Subscriber, reversed_manner

seeds = st.integers(0, 2**32 - 1)
dialects = st.sampled_from(list(Dialect))
columns = st.sets(st.integers(0, len(SCHEMA) - 1), min_size=1).map(lambda numbers: tuple(sorted(numbers)))
positions = st.one_of(
    st.builds(lambda first, size: RowSet.from_range(first, first + size - 1), st.integers(0, 14), st.integers(0, 9)),
    st.sets(st.integers(0, 25), max_size=8).map(lambda found: RowSet.from_keys(sorted(found))),
    st.just(RowSet.from_range(1000, 1005)),
    st.just(RowSet.from_range(0, 1 << 40)),
)
windows = st.one_of(
    st.builds(Window, columns, st.none(), st.just(False)),
    st.builds(Window, columns, positions, st.booleans()),
    st.builds(Window, st.just(tuple(range(len(SCHEMA)))), positions, st.booleans()),
)
options = st.builds(
    SubscriptionOptions,
    use_deephaven_nulls=st.booleans(),
    min_update_interval_ms=st.sampled_from([1, 100, 700]),
    batch_size=st.sampled_from([0, -1, 1, 3]),
    columns_as_list=st.booleans(),
)
manners = st.builds(MessageFormat, dialects, options)


class Replicas(RuleBasedStateMachine):
    """One table, up to five subscribers, and a clock."""

    source: Source
    feed: TableFeed
    subscribers: list[Subscriber]
    now: float
    history: History
    retained: TableHistory

    @initialize(
        kind=st.sampled_from(SOURCES),
        part_cells=st.sampled_from([1 << 20, 9, 1]),
        first=st.lists(st.tuples(windows, manners), min_size=1, max_size=3),
        retained=st.sampled_from([1 << 20, 1 << 20, 3000]),
        seed=seeds,
    )
    def start(
        self,
        kind: type[Source],
        part_cells: int,
        first: list[tuple[Window, MessageFormat]],
        retained: int,
        seed: int,
    ) -> None:
        self.source = kind(UpdateGraph())
        chance = random.Random(seed)
        for _ in range(chance.choice([4, 4, 0])):
            self.source.change(chance)
        self.feed = TableFeed(self.source.table, SubscriptionLimits(snapshot_part_cells=part_cells))
        self.subscribers = [Subscriber(self.feed, window, message_format) for window, message_format in first]
        self.now = 100.0
        self.history = History(300.0, retained)
        self.retained = self.history.join(self.source.table, self.now)

    @precondition(lambda self: len(self.subscribers) < 5)
    @rule(window=windows, message_format=manners, both=st.booleans())
    def subscribe(self, window: Window, message_format: MessageFormat, both: bool) -> None:
        self.subscribers.append(Subscriber(self.feed, window, message_format))
        if both and len(self.subscribers) < 5:
            self.subscribers.append(Subscriber(self.feed, window, reversed_manner(message_format)))

    @rule(seed=seeds, times=st.sampled_from([1, 1, 1, 2, 6]))
    def change(self, seed: int, times: int) -> None:
        chance = random.Random(seed)
        for _ in range(times):
            self.source.change(chance)

    @rule(seed=seeds)
    def change_several_times_in_one_cycle(self, seed: int) -> None:
        chance = random.Random(seed)
        with self.source.table.graph.cycle():
            for _ in range(chance.choice([2, 3])):
                self.source.change(chance)

    @rule(seconds=st.sampled_from([0.0, 0.001, 0.05, 0.3, 5.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.subscribers)
    @rule(data=st.data())
    def serve(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.subscribers)).link.serve(self.now)

    @precondition(lambda self: self.subscribers)
    @rule(data=st.data(), count=st.sampled_from([1, 1, 3]))
    def receive(self, data: st.DataObject, count: int) -> None:
        subscriber = data.draw(st.sampled_from(self.subscribers))
        for _ in range(count):
            subscriber.receive()

    @precondition(lambda self: self.subscribers)
    @rule(data=st.data())
    def take_update(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.subscribers)).take()

    @precondition(lambda self: self.subscribers)
    @rule(data=st.data(), window=windows)
    def look_elsewhere(self, data: st.DataObject, window: Window) -> None:
        data.draw(st.sampled_from(self.subscribers)).look_at(window)

    @precondition(lambda self: self.subscribers)
    @rule(data=st.data(), by=st.integers(-3, 3), reverse=st.booleans())
    def scroll(self, data: st.DataObject, by: int, reverse: bool) -> None:
        subscriber = data.draw(st.sampled_from(self.subscribers))
        window = subscriber.window
        if window.positions is not None and window.positions and window.positions.first_key + by >= 0:
            subscriber.look_at(Window(window.columns, window.positions.shift(by), reverse))

    @precondition(lambda self: self.subscribers)
    @rule(data=st.data(), other=columns)
    def look_at_columns(self, data: st.DataObject, other: tuple[int, ...]) -> None:
        subscriber = data.draw(st.sampled_from(self.subscribers))
        window = subscriber.window
        subscriber.look_at(Window(other, window.positions, window.reverse))

    @precondition(lambda self: self.subscribers)
    @rule(data=st.data())
    def fall_behind(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.subscribers)).link.subscription.tidy(math.inf)

    @precondition(lambda self: self.subscribers)
    @rule(data=st.data())
    def lose_connection(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.subscribers)).lose_connection()

    @precondition(lambda self: self.subscribers)
    @rule(data=st.data())
    def come_back(self, data: st.DataObject) -> None:
        subscriber = data.draw(st.sampled_from(self.subscribers))
        subscriber.come_back(lambda step: self.history.since(self.retained, step, self.now))

    @rule()
    def tidy(self) -> None:
        self.history.tidy(self.now)

    @precondition(lambda self: self.subscribers)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        subscriber = data.draw(st.sampled_from(self.subscribers))
        self.subscribers.remove(subscriber)
        subscriber.link.subscription.close()

    @rule(seed=seeds)
    def follow_closely(self, seed: int) -> None:
        """Changes that are served at once, received late, and read later still."""
        chance = random.Random(seed)
        for _ in range(4):
            self.source.change(chance)
            self.now += chance.choice([0.0, 1.0])
            for subscriber in self.subscribers:
                for turn in chance.choices(["serve", "receive", "take"], k=3):
                    if turn == "serve":
                        subscriber.link.serve(self.now)
                    elif turn == "receive":
                        subscriber.receive()
                    else:
                        subscriber.take()

    @rule()
    def quiet(self) -> None:
        self._settle()

    @invariant()
    def the_table_is_what_its_model_says(self) -> None:
        self.source.check()

    def teardown(self) -> None:
        if hasattr(self, "subscribers"):
            self._settle()

    def _settle(self) -> None:
        for subscriber in self.subscribers:
            self.now = max(self.now, subscriber.settle(self.now))
        for subscriber in self.subscribers:
            subscriber.check()
            subscriber.take()
            subscriber.check()


TestReplicas = pytest.mark.timeout(400)(Replicas.TestCase)
TestReplicas.settings = settings(stateful_step_count=50)

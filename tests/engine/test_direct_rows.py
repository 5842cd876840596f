"""Integer keys that lie close together, against a dict: what the array covers, what the hash table has, and the way
between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.engine import direct_rows, key_index
from barrage_server.engine.direct_rows import DirectRows
from barrage_server.engine.key_index import KeyIndex
from barrage_server.engine.key_values import KeyValues, is_integer_like
from barrage_server.engine.plan import Int64Array
from tests.engine.samples import SAMPLES

LOWEST, HIGHEST = -(2**63), 2**63 - 1


@pytest.fixture
def _small_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_rows, "_SMALL", 4)
    monkeypatch.setattr(key_index, "_GIVEN_UP", 2)
    monkeypatch.setattr(key_index, "_MIN_GIVEN_UP", 1)


class Model:
    """An index over one column of integers that may be null, and a dict that says the same."""

    def __init__(self, data_type: pa.DataType | None = None) -> None:
        self.type = data_type or pa.int64()
        self.stored: dict[int, int | None] = {}  # by row key
        self.known: dict[int | None, int] = {}  # by key
        self.next_row = 0
        self.index = KeyIndex([self.type], self.read_keys)

    def array(self, keys: Any) -> pa.Array:
        width = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[self.type.bit_width]
        return pa.array(keys, self.type if pa.types.is_integer(self.type) else width).cast(self.type)

    def read_keys(self, rows: Int64Array) -> list[pa.Array]:
        return [self.array([self.stored[row] for row in rows.tolist()])]

    def insert(self, keys: list[int | None]) -> None:
        keys = [key for key in dict.fromkeys(keys) if key not in self.known]
        rows = list(range(self.next_row, self.next_row + len(keys)))
        self.next_row += len(keys)
        self.stored.update(zip(rows, keys, strict=True))
        self.index.insert(KeyValues([self.array(keys)]), np.array(rows, np.int64))
        self.known.update(zip(keys, rows, strict=True))

    def remove(self, keys: list[int | None]) -> None:
        rows = [self.known.pop(key) for key in dict.fromkeys(keys) if key in self.known]
        self.index.remove(np.array(rows, np.int64))

    def check(self, *others: int | None) -> None:
        assert len(self.index) == len(self.known)
        keys: set[int | None] = {*self.known, *self.stored.values(), *others, None}
        keys |= {key + 1 for key in keys if key is not None and key < HIGHEST and self.type == pa.int64()}
        asked = list(keys)
        found = self.index.lookup(KeyValues([self.array(asked)])).tolist()
        assert found == [self.known.get(key, -1) for key in asked]

    @property
    def direct(self) -> DirectRows:
        assert self.index.direct is not None
        return self.index.direct


runs = st.builds(
    lambda first, size, step: list(range(first, first + size * step, step)),
    st.sampled_from([0, 5, 17, 40, -30, LOWEST, LOWEST + 9, HIGHEST - 200, 1 << 40]),
    st.integers(0, 40),
    st.sampled_from([1, 1, 1, 2, 5]),
)
scattered = st.lists(st.none() | st.integers(-20, 120) | st.sampled_from([LOWEST, HIGHEST, 1 << 40]), max_size=20)
steps = st.lists(st.tuples(st.sampled_from(["insert", "insert", "remove"]), runs | scattered), max_size=15)


@pytest.mark.usefixtures("_small_numbers")
class TestModel:
    @given(steps)
    def test_keys_are_found_until_they_are_removed(self, steps: list[tuple[str, list[int | None]]]) -> None:
        model = Model()
        for name, keys in steps:
            getattr(model, name)(keys)
            model.check(*keys)


@pytest.fixture
def model() -> Iterator[Model]:
    made = Model()
    yield made
    made.check()


def test_keys_one_after_the_other_take_four_bytes(model: Model) -> None:
    for first in range(0, 20_000, 100):
        model.insert(list(range(first, first + 100)))
    assert model.direct.count == 20_000
    assert model.index.nbytes <= 4 * 20_000 + 3000


def test_keys_in_any_order_within_a_batch(model: Model) -> None:
    chance = np.random.default_rng(3)
    for first in range(-5000, 5000, 1000):
        model.insert((chance.permutation(1000) + first).tolist())
    assert model.direct.count == 10_000


def test_one_key_far_away_does_not_matter(model: Model) -> None:
    model.insert([*range(1000), 1 << 60])
    model.insert([*range(1000, 2000), LOWEST, None])
    assert model.direct.count == 2000
    assert len(model.index) == 2003


def test_keys_too_far_apart_are_hashed(model: Model) -> None:
    model.insert(list(range(0, 1 << 40, 1 << 30)))
    model.insert(list(range(7, 30_000, 10)))
    assert model.direct.count < 10
    assert model.index.nbytes < 100_000


def test_keys_that_come_to_lie_within_the_range_move_there(model: Model) -> None:
    model.insert([0, 1, 2, 500, 701, 15_000])
    assert model.direct.count == 3
    model.insert(list(range(3, 1000, 1)))
    assert (model.direct.first, model.direct.end) == (0, 1000)
    assert model.direct.count == 1000


def test_a_window_that_moves_on_keeps_its_size(model: Model) -> None:
    """Old keys go, new ones come at the end: as with the orders of the day."""
    for first in range(0, 300_000, 1000):
        model.insert(list(range(first, first + 1000)))
        model.remove(list(range(first - 10_000, first - 9000)))
        assert model.index.nbytes < 4 * 3 * 12_000
        model.stored = {row: key for row, key in model.stored.items() if key is not None and key >= first - 10_000}
    assert model.direct.count == 10_000


def test_a_range_that_was_thinned_out_is_given_up(model: Model) -> None:
    """Bit by bit: each removal moves only some of what is left to the hash table."""
    model.insert(list(range(50_000)))
    chance = np.random.default_rng(1)
    order = chance.permutation(50_000).tolist()
    most = 0
    while len(order) > 500:
        before = model.direct.count
        model.remove([order.pop() for _ in range(100)])
        most = max(most, before - model.direct.count - 100)
    assert 0 < most < 3000
    assert model.index.nbytes < 20_000


def test_a_range_begins_anew_when_it_is_empty(model: Model) -> None:
    model.insert(list(range(1000)))
    model.remove(list(range(1000)))
    model.insert(list(range(1 << 50, (1 << 50) + 1000)))
    assert model.direct.count == 1000


def test_row_keys_beyond_32_bits(model: Model) -> None:
    model.insert(list(range(10)))
    model.next_row = 2**32 - 5
    model.insert(list(range(10, 20)))
    assert model.direct.count == 20


@pytest.mark.parametrize("data_type", [pa.int16(), pa.uint32(), pa.date32(), pa.timestamp("s"), pa.time32("s")])
def test_integers_of_every_kind(data_type: pa.DataType) -> None:
    model = Model(data_type)
    model.insert([*range(100, 200), None, 7])
    model.insert([*range(200, 300), 9])
    model.remove([150, 7, None])
    model.check()
    assert model.direct.count == 200


def test_which_types_are_integers() -> None:
    """Those whose cells, taken as integers, are in the order of the values and lie as close as these."""
    integers = {name for name, sample in SAMPLES.items() if is_integer_like(sample.type)}
    numbers = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)} - {"uint64"}
    times = {"date32", "date64", "time32", "time64", "timestamp[s]", "timestamp[us, tz]", "duration"}
    assert integers == numbers | times


def test_unsigned_keys_above_the_middle(model: Model) -> None:
    """Cells are signed: such keys lie at the other end, which changes nothing."""
    unsigned = Model(pa.uint32())
    unsigned.insert(list(range(2**31 - 500, 2**31 + 500)))
    unsigned.insert(list(range(2**32 - 100, 2**32)))
    unsigned.check()

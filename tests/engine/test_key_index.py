"""The key index against a dict."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.engine.key_index import KeyIndex
from barrage_server.engine.key_values import KeyValues
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.slots import HashArray
from barrage_server.errors import LimitError, UnsupportedTypeError
from tests.engine.samples import KEYS, SAMPLES, pick, shown

Hasher = Callable[[KeyValues], HashArray]
hash_keys = KeyValues.hash


def three_hashes(keys: KeyValues) -> HashArray:
    """Three values for the home and for the fingerprint: collisions are the rule."""
    return keys.hash() % np.uint64(3) * np.uint64(0x55555555_00000001)


def one_hash(keys: KeyValues) -> HashArray:
    """Everything collides."""
    return np.zeros(keys.count, np.uint64)


HASHERS: list[Hasher] = [hash_keys, three_hashes, one_hash]


def key_of(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Equal for equal keys: there is one zero."""
    return tuple(text.replace("-0.0", "0.0") for text in texts)


class Model:
    """An index, the rows that it indexes, and a dict that says the same."""

    def __init__(self, names: list[str], hasher: Hasher, first_row: int = 0) -> None:
        self.samples = [SAMPLES[name] for name in names]
        self.index = KeyIndex([sample.type for sample in self.samples], self.read_keys, hasher=hasher)
        self.rows: dict[int, tuple[int, ...]] = {}
        self.known: dict[tuple[str, ...], int] = {}
        self.next_row = first_row

    def read_keys(self, rows: Int64Array) -> list[pa.Array]:
        return self.columns([self.rows[row] for row in rows.tolist()])

    def columns(self, keys: list[tuple[int, ...]]) -> list[pa.Array]:
        return [
            pick(sample, [key[number] for key in keys], padding=number + 2)
            for number, sample in enumerate(self.samples)
        ]

    def keys(self, columns: list[pa.Array]) -> list[tuple[str, ...]]:
        return [key_of(texts) for texts in zip(*map(shown, columns), strict=True)]

    def check(self, drawn: list[tuple[int, ...]]) -> None:
        columns = self.columns(drawn)
        expected = [self.known.get(key, -1) for key in self.keys(columns)]
        found = self.index.lookup(KeyValues(columns))
        assert found.dtype == np.int64
        assert found.tolist() == expected
        assert len(self.index) == len(self.known)

    def upsert(self, drawn: list[tuple[int, ...]]) -> None:
        keys = self.keys(self.columns(drawn))
        last = self.index.deduplicate(KeyValues(self.columns(drawn))).tolist()
        assert last == sorted({key: position for position, key in enumerate(keys)}.values())
        found = self.index.lookup(KeyValues(self.columns([drawn[position] for position in last])))
        new = [position for position, row in zip(last, found.tolist(), strict=True) if row < 0]
        rows = np.arange(self.next_row, self.next_row + len(new), dtype=np.int64)[::-1]
        self.next_row += len(new)
        self.index.insert(KeyValues(self.columns([drawn[position] for position in new])), rows)
        for position, row in zip(new, rows.tolist(), strict=True):
            self.rows[row] = drawn[position]
            self.known[keys[position]] = row

    def delete(self, drawn: list[tuple[int, ...]]) -> None:
        keys = set(self.keys(self.columns(drawn))) & set(self.known)
        rows = np.array(sorted(self.known.pop(key) for key in keys), np.int64)
        self.index.remove(rows)


batches = st.lists(
    st.tuples(st.booleans(), st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=15)), max_size=8
)


@pytest.mark.parametrize("hasher", HASHERS)
@given(st.lists(st.sampled_from(KEYS), min_size=1, max_size=2), st.sampled_from([0, 2**32 - 3]), batches)
def test_keys_are_found_until_they_are_removed(
    hasher: Hasher, names: list[str], first_row: int, steps: list[tuple[bool, list[tuple[int, ...]]]]
) -> None:
    model = Model(names, hasher, first_row)
    for adding, drawn in steps:
        model.upsert(drawn) if adding else model.delete(drawn)
        model.check([(first, second) for first in range(7) for second in range(7)])


@pytest.mark.parametrize("name", KEYS)
def test_every_key_type_can_be_a_key(name: str) -> None:
    model = Model([name], hash_keys)
    everything: list[tuple[int, ...]] = [(number,) for number in range(len(SAMPLES[name]))]
    model.upsert(everything)
    model.check(everything)


def keys_of(values: Any) -> KeyValues:
    return KeyValues([pa.array(values, pa.int64())])


class Integers:
    """An index over one column of integers, kept in an array."""

    def __init__(self, stored: Int64Array, hasher: Hasher = hash_keys) -> None:
        self.stored = stored
        self.index = KeyIndex([pa.int64()], lambda rows: [pa.array(self.stored[rows])], hasher=hasher)

    def insert(self, first: int, last: int) -> None:
        self.index.insert(keys_of(self.stored[first : last + 1]), np.arange(first, last + 1))


def test_the_table_grows_and_stays_small() -> None:
    keys = np.random.default_rng(3).permutation(100_000).astype(np.int64) * 1024
    table = Integers(keys)
    for first in range(0, len(keys), 7000):
        table.insert(first, min(first + 7000, len(keys)) - 1)
    assert len(table.index) == len(keys)
    assert table.index.lookup(keys_of(keys)).tolist() == list(range(len(keys)))
    assert (table.index.lookup(keys_of(keys + 1)) == -1).all()
    assert table.index.nbytes <= 11 * len(keys)


@pytest.mark.parametrize("step", [1, 10])
def test_removed_entries_do_not_pile_up(step: int) -> None:
    table = Integers(np.arange(100_000) * step)
    for first in range(0, 100_000, 500):
        table.insert(first, first + 499)
        table.index.remove(np.arange(first, first + 490))
    assert len(table.index) == 2000
    assert table.index.nbytes <= 2**13 * 8
    assert np.flatnonzero(table.index.lookup(keys_of(table.stored)) >= 0).tolist() == [
        row for row in range(100_000) if row % 500 >= 490
    ]


def test_removing_rows_that_are_not_there_does_nothing() -> None:
    table = Integers(np.arange(10))
    table.index.remove(np.array([1]))
    table.insert(0, 4)
    table.index.remove(np.array([7, 2, 2, 8]))
    table.index.remove(np.array([2]))
    table.index.remove(np.array([], np.int64))
    assert len(table.index) == 4
    assert table.index.lookup(keys_of(range(10))).tolist() == [0, 1, -1, 3, 4, -1, -1, -1, -1, -1]


def test_a_removed_key_can_come_back_under_another_row() -> None:
    table = Integers(np.array([5, 6, 5]), one_hash)
    table.insert(0, 1)
    table.index.remove(np.array([0]))
    table.insert(2, 2)
    assert table.index.lookup(keys_of([5, 6])).tolist() == [2, 1]


def test_stored_keys_too_large_for_one_array_are_compared_in_parts() -> None:
    stored = np.arange(10)

    def read_keys(rows: Int64Array) -> list[pa.Array]:
        if len(rows) > 3:
            raise LimitError("too large")
        return [pa.array(stored[rows].astype(np.float64))]

    index = KeyIndex([pa.float64()], read_keys)
    index.insert(KeyValues([pa.array(stored.astype(np.float64))]), stored)
    assert index.lookup(KeyValues([pa.array([*range(10), 11], pa.float64())])).tolist() == [*range(10), -1]
    index.remove(stored[:9])
    assert index.lookup(KeyValues([pa.array([8.0, 9.0])])).tolist() == [-1, 9]


def test_a_stored_key_that_cannot_be_read_is_an_error() -> None:
    def read_keys(rows: Int64Array) -> list[pa.Array]:
        raise LimitError("too large")

    index = KeyIndex([pa.string()], read_keys)
    index.insert(KeyValues([pa.array(["a"])]), np.array([1]))
    with pytest.raises(LimitError):
        index.lookup(KeyValues([pa.array(["a"])]))


@pytest.mark.parametrize("nested", [pa.list_(pa.int8()), pa.struct([("a", pa.map_(pa.string(), pa.int8()))])])
def test_keys_with_lists_and_maps_are_refused(nested: pa.DataType) -> None:
    with pytest.raises(UnsupportedTypeError):
        KeyIndex([nested], lambda rows: [])


def test_a_null_struct_is_another_key_than_a_struct_of_nulls() -> None:
    inner = pa.struct([("x", pa.string()), ("y", pa.int8())])
    column = pa.array(
        [None, {"a": None}, {"a": {"x": None, "y": None}}, {"a": {"x": "", "y": None}}, {"a": {"x": None, "y": 0}}],
        pa.struct([("a", inner)]),
    )
    keys = KeyValues([column])
    assert len(np.unique(keys.hash())) == len(column)
    for shift in range(1, len(column)):
        other = KeyValues([column.take(pa.array((np.arange(len(column)) + shift) % len(column)))])
        assert not keys.equal(other).any()


def test_what_lies_under_a_null_struct_is_no_part_of_the_key() -> None:
    """Arrow keeps values under nulls; two nulls are one key, whatever is under them."""
    leaves = [pa.array([1, 2, None, 4]), pa.array(["a", "b", "c", None])]
    nothing = pa.array([True] * 4)
    keys = KeyValues([pa.StructArray.from_arrays(leaves, ["n", "s"], mask=nothing)])
    assert len(np.unique(keys.hash())) == 1
    assert keys.equal(keys.take(np.array([3, 2, 1, 0]))).all()


def test_more_keys_than_can_be_found_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barrage_server.engine.slots.MAX_ENTRIES", 2000)
    table = Integers(np.arange(3000) * 10)
    table.insert(0, 999)
    with pytest.raises(LimitError, match="2,000 keys"):
        table.insert(1000, 2010)
    assert len(table.index) == 1000


@given(st.lists(st.none() | st.binary(max_size=40), max_size=30), st.integers(0, 30), st.integers(0, 30))
def test_the_hash_of_bytes_depends_on_nothing_but_them(values: list[bytes | None], start: int, padding: int) -> None:
    """Not on what stands before and behind them in the buffer, nor on where it ends."""
    column = pa.array([b"x" * padding, *values], pa.binary()).slice(1)
    part = column.slice(min(start, len(values)))
    one_by_one = [hash_keys(KeyValues([pa.array([value], pa.binary())])).tolist()[0] for value in part.to_pylist()]
    assert hash_keys(KeyValues([part])).tolist() == one_by_one
    assert hash_keys(KeyValues([part.cast(pa.large_binary())])).tolist() == one_by_one


def test_keys_that_are_alike_have_hashes_that_are_not() -> None:
    texts = [
        "",
        "\0",
        "\0\0",
        "a",
        "a\0",
        "b",
        "abcdefgh",
        "abcdefgh\0",
        "habcdefg",
        "abcdefghabcdefgh",
        "x" * 64,
        "x" * 65,
    ]
    texts += [f"key {number:09}" for number in range(100_000)]
    columns: list[Any] = [pa.array(texts), pa.array(np.arange(100_000)), pa.array(np.arange(100_000) / 8)]
    for column in columns:
        hashes = hash_keys(KeyValues([column]))
        assert len(np.unique(hashes)) == len(column)
        # Slots are chosen by single bits: each must be set about as often as not.
        share = np.unpackbits(hashes.view(np.uint8)).mean()
        assert 0.49 < share < 0.51


def test_the_order_of_key_columns_counts() -> None:
    first, second = pa.array([1, 2]), pa.array([2, 1])
    hashes = hash_keys(KeyValues([first, second]))
    assert hashes[0] != hashes[1]


WORD, PLACE = 1 << 64, 0xC2B2AE3D27D4EB4F


def words_of(*words: int) -> bytes:
    return b"".join((word % WORD).to_bytes(8, "little") for word in words)


def chosen_keys() -> dict[str, list[pa.Array]]:
    """Keys of the same parts in other places, and a null where others have what it could be mixed in as."""
    orders = list(permutations(range(1, 7)))
    numbers = np.array(orders, np.int64)
    texts = [f"{number}" for number in range(7)]
    constant = 0xD1B54A32D192ED03 - WORD
    one_or_none = list(product([None, constant], [0, constant], [None, constant]))
    return {
        "words of a value": [pa.array([words_of(*order) for order in orders])],
        "words less a step for their place": [
            pa.array([words_of(*(word - place * PLACE for place, word in enumerate(order))) for order in orders])
        ],
        "words mixed with their place": [
            pa.array([words_of(*(word ^ (place * PLACE) for place, word in enumerate(order))) for order in orders])
        ],
        "words of a wide cell": [pa.array([words_of(*order) for order in orders], pa.binary(48))],
        "columns of numbers": [pa.array(numbers[:, place]) for place in range(6)],
        "columns of strings": [pa.array([texts[order[place]] for order in orders]) for place in range(6)],
        "leaves of a struct": [
            pa.StructArray.from_arrays(
                [pa.array([texts[order[place]] for order in orders]) for place in range(6)], list("abcdef")
            )
        ],
        "nulls": [pa.array([row[place] for row in one_or_none], pa.int64()) for place in range(3)],
    }


@pytest.mark.parametrize("name", chosen_keys())
def test_outsiders_cannot_choose_keys_of_one_hash(name: str) -> None:
    """Whatever the seed: it is another one in each process, and the keys are chosen without it."""
    hashes = KeyValues(chosen_keys()[name]).hash()
    assert len(np.unique(hashes)) == len(hashes)


def test_long_values_differ_by_where_their_words_are() -> None:
    """Also behind the places whose secrets are kept at hand."""
    zeros = bytes(8 * 5000)
    values = [zeros[: 8 * place] + b"01234567" + zeros[8 * place + 8 :] for place in (0, 1, 4095, 4096, 4097, 4999)]
    long = KeyValues([pa.array([*values, b"a"])])
    assert len(np.unique(long.hash())) == 7
    assert (KeyValues([pa.array([b"a"])]).hash() == long.hash()[-1:]).all()


@pytest.mark.parametrize("name", KEYS)
def test_keys_of_one_hash_are_told_apart_in_a_few_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step looks at all keys: a step per colliding key would be quadratic."""
    steps: list[int] = []
    equal = KeyValues.equal

    def count(self: KeyValues, other: KeyValues) -> Any:
        steps.append(self.count)
        return equal(self, other)

    monkeypatch.setattr(KeyValues, "equal", count)
    sample = SAMPLES[name]
    drawn = [number % len(sample) for number in range(4 * len(sample))]
    keys = KeyValues([pick(sample, drawn, padding=1)])
    last = {key: position for position, key in enumerate(map(key_of, zip(*[shown(pick(sample, drawn))], strict=True)))}
    index = KeyIndex([sample.type], lambda rows: [], hasher=one_hash)
    assert index.deduplicate(keys).tolist() == sorted(last.values())
    assert len(steps) <= 2


@pytest.mark.parametrize("low", [0, -50_000, 10**12])
def test_dense_keys_that_come_in_no_order_are_not_hashed_for_long(low: int) -> None:
    keys = low + np.random.default_rng(3).permutation(20_000)
    integers = Integers(keys)
    for first in range(0, len(keys), 500):
        integers.insert(first, first + 499)
    assert integers.index.lookup(keys_of(keys)).tolist() == list(range(len(keys)))
    assert integers.index.lookup(keys_of([low - 1, low + len(keys)])).tolist() == [-1, -1]
    assert integers.index.direct is not None
    assert integers.index.direct.count > 0.9 * len(keys)
    assert len(integers.index) == len(keys)


def test_sparse_keys_stay_hashed() -> None:
    keys = np.random.default_rng(4).permutation(20_000) * 100
    integers = Integers(keys)
    for first in range(0, len(keys), 500):
        integers.insert(first, first + 499)
    assert integers.index.direct is not None
    assert integers.index.direct.nbytes < 8 * len(keys)
    assert integers.index.lookup(keys_of(keys)).tolist() == list(range(len(keys)))

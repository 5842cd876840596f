"""A map from key values to groups, numbered in order of first appearance."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from barrage_server.engine.key_index import KeyIndex
from barrage_server.engine.key_values import KeyValues
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.short_texts import ShortTexts, are_texts, words_of
from barrage_server.engine.store import ColumnStore
from barrage_server.engine.types import check_key_type
from barrage_server.engine.undo import Undo
from barrage_server.engine.values import take
from barrage_server.engine.view import StoredView
from barrage_server.rowset import RowSet

__all__ = ["GroupIndex", "pack_rows"]

_BLOCK = 1 << 16
_FEW = 256
"""Fewer texts than this are looked up one by one."""
_TEXTS = 1 << 13
"""Texts encoded at a time."""
_MANY = _TEXTS // 4
"""Distinct values among these from which each row is hashed by itself.

A client can choose texts with equal hashes in Arrow; their encoding takes quadratic time.
"""


class GroupIndex:
    """Assigns a number to each combination of key values: 0, 1, 2 and so on.

    The number is the row key of the group in :attr:`store`, which has the key values once. Keys are equal as in a keyed
    table: null equals null, NaN equals NaN, and -0.0 equals 0.0; the first value is kept. Without key columns all rows
    are group 0. New groups take the numbers of forgotten ones first.

    Args:
        schema: the key columns; there may be none.

    Attributes:
        store: the key values by group.
        count: one more than the highest number.

    Raises:
        UnsupportedTypeError: values of one of the types cannot be keys.
    """

    def __init__(self, schema: pa.Schema) -> None:
        for field in schema:
            check_key_type(field.type, field.name)
        self._schema = schema
        distinct = schema.field(0).name if len(schema) == 1 else None
        self.store = ColumnStore(schema, distinct=distinct)
        self._index = self._new_index()
        self._texts = self._new_texts()
        self.count = 0
        self._free = np.zeros(0, np.int64)  # numbers of groups that were forgotten, ascending
        self._written = 0  # groups whose cells a version may hold
        self._views: tuple[StoredView, ...] | None = None  # of the key values, until these change

    @property
    def nbytes(self) -> int:
        """Bytes of the index and of the key values."""
        parts = (self.store, self._index, self._texts)
        return sum(part.nbytes for part in parts if part is not None)

    def views(self) -> tuple[StoredView, ...]:
        """The key values by group, for a new version."""
        if self._views is None:
            self._views = self.store.views()
            self._written = max(self._written, self.count)
        return self._views

    def find(self, columns: Sequence[pa.Array], rows: int) -> Int64Array:
        """The group of each row, int64; -1 for unknown key values.

        Args:
            columns: the key columns of the rows.
            rows: the number of rows.
        """
        if self._index is None:
            return np.full(rows, 0 if self.count else -1, np.int64)
        return self._through_texts(columns, rows, self._find, self._index)

    def find_keys(self, keys: KeyValues | None) -> Int64Array:
        """The group of each key, int64; -1 for unknown ones.

        Args:
            keys: a few keys; ``None`` stands for the one key without key columns.
        """
        if self._index is None:
            return np.full(1, 0 if self.count else -1, np.int64)
        assert keys is not None
        return self._index.lookup(keys)

    def add(self, columns: Sequence[pa.Array], rows: int) -> Int64Array:
        """The group of each row, int64; makes groups for unknown key values.

        Args:
            columns: the key columns of the rows.
            rows: the number of rows.

        Raises:
            LimitError: there would be too many.
        """
        if self._index is None:
            self.count = max(self.count, min(rows, 1))
            return np.zeros(rows, np.int64)
        return self._through_texts(columns, rows, self._add, self._index)

    def _through_texts(
        self,
        columns: Sequence[pa.Array],
        rows: int,
        look_up: Callable[[Sequence[pa.Array], KeyIndex], Int64Array],
        index: KeyIndex,
    ) -> Int64Array:
        """The result of ``look_up``, called once per distinct text where that is faster."""
        if self._texts is None or rows < _FEW:
            return look_up(columns, index)
        words = words_of(columns[0]) if self._texts.is_useful else None
        if words is None:
            return _once(columns[0], look_up, index)
        found = self._texts.find(words)
        missing = np.flatnonzero(found < 0)
        if len(missing):
            column = columns[0] if len(missing) == rows else take(columns[0], missing)
            groups = found[missing] = _once(column, look_up, index)
            known = groups >= 0
            self._texts.learn(words[missing[known]], groups[known], rows)
        return found

    def _find(self, columns: Sequence[pa.Array], index: KeyIndex) -> Int64Array:
        return index.lookup(KeyValues(columns))

    def _add(self, columns: Sequence[pa.Array], index: KeyIndex) -> Int64Array:
        keys = KeyValues(columns)
        found = index.lookup(keys)
        missing = np.flatnonzero(found < 0)
        if len(missing) == 0:
            return found
        unknown = keys.take(missing)
        backwards = np.arange(len(missing) - 1, -1, -1)
        # of the rows from last to first, the last of each key: the row where it appears first
        last = index.deduplicate(unknown.take(backwards))
        first = np.sort(backwards[last])
        self._views = None
        numbers = self._new_numbers(len(first))
        new = RowSet.from_sorted_keys(numbers)
        undo = self.store.undo if numbers[0] < self._written else None
        for column, values in zip(self.store.columns, columns, strict=True):
            column.write(new, take(values, missing[first]), undo)
        index.insert(unknown.take(first), numbers)
        found[missing] = index.lookup(unknown)
        return found

    def forget(self, groups: Int64Array) -> None:
        """Forget ``groups``, some of which may be forgotten already.

        The other groups keep their numbers. The cost is proportional to the number of all groups. An index uses either
        this method or :meth:`pack`.
        """
        dead = np.setdiff1d(groups, self._free)
        self._free = np.union1d(self._free, dead)
        living = np.setdiff1d(np.arange(self.count, dtype=np.int64), self._free)
        for column in self.store.columns:
            column.discard(RowSet.from_sorted_keys(dead))
            column.collect(RowSet.from_sorted_keys(living), self.store.undo)
        self._build(living)

    def pack(self, living: Int64Array) -> None:
        """Keep only the groups ``living`` (ascending), and number them from 0."""
        if self._index is None:
            self.count = len(living)
            return
        pack_rows(self.store, living, self.count)
        self.count = len(living)
        self._build(np.arange(self.count, dtype=np.int64))

    def _build(self, living: Int64Array) -> None:
        """Make the index of ``living`` after other groups' cells have been discarded."""
        self._views = None
        if not self._written:
            self.store.undo = Undo()  # nothing reads the key values as they were
        self._index = index = self._new_index()
        self._texts = self._new_texts()
        assert index is not None
        for start in range(0, len(living), _BLOCK):
            numbers = living[start : start + _BLOCK]
            index.insert(KeyValues(self._read(numbers)), numbers)

    def _new_numbers(self, groups: int) -> Int64Array:
        """Numbers for some new groups, ascending."""
        free, self._free = self._free[:groups], self._free[groups:]
        count = self.count
        self.count += groups - len(free)
        return np.concatenate((free, np.arange(count, self.count, dtype=np.int64)))

    def _new_index(self) -> KeyIndex | None:
        types = [field.type for field in self._schema]
        return KeyIndex(types, self._read) if types else None

    def _new_texts(self) -> ShortTexts | None:
        return ShortTexts() if len(self._schema) == 1 and are_texts(self._schema.field(0).type) else None

    def _read(self, groups: Int64Array) -> list[pa.Array]:
        return [column.read_current(groups) for column in self.store.columns]


def pack_rows(store: ColumnStore, living: Int64Array, count: int) -> None:
    """Keep only the rows ``living`` (ascending), and move them to the keys from 0.

    Args:
        store: the columns.
        living: row keys below ``count``.
        count: one more than the highest row key.
    """
    numbers = np.arange(len(living), dtype=np.int64)
    moved = int(np.searchsorted(living - numbers, 1))
    dead, live = RowSet.flat(count) - RowSet.from_sorted_keys(living), RowSet.flat(len(living))
    for column in store.columns:
        column.discard(dead)
        column.move(living[moved:], numbers[moved:], store.undo)
        column.collect(live, store.undo)


def _once(
    column: pa.Array, look_up: Callable[[Sequence[pa.Array], KeyIndex], Int64Array], index: KeyIndex
) -> Int64Array:
    """The result of ``look_up`` for texts or bytes, called once per distinct value.

    Values are distinct within a block of rows. If many are, ``look_up`` is called for all rows instead.
    """
    if len(column) < _TEXTS:
        return look_up([column], index)
    texts, places, count = [], [], 0
    for start in range(0, len(column), _TEXTS):
        encoded = column.slice(start, _TEXTS).dictionary_encode(null_encoding="encode")
        if len(encoded.dictionary) > _MANY:
            return look_up([column], index)
        texts.append(encoded.dictionary)
        places.append(encoded.indices.to_numpy().astype(np.int64) + count)
        count += len(encoded.dictionary)
    found: Int64Array = look_up([pa.concat_arrays(texts)], index)[np.concatenate(places)]
    return found

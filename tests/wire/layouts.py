"""Random Arrow arrays in every layout that Arrow allows, each with its values as plain Python."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["LayoutMaker"]

Made = tuple[pa.Array, list[Any]]

_WORDS = ["", "a", "bc", "déjà", "longer than twelve bytes", "\U0001f600" * 5, None]


class LayoutMaker:
    """Makes arrays of random types at random depth.

    Args:
        seed: of the choices.
        unions: whether unions are among them.

    """

    def __init__(self, seed: int, *, unions: bool = False) -> None:
        self._chance = random.Random(seed)
        self._makers: list[Callable[[int, int], Made]] = [
            self._list,
            self._list,
            self._list_view,
            self._fixed_size_list,
        ]
        self._makers += [self._struct, self._map, self._dictionary, self._run_ends, self._extension]
        if unions:
            self._makers += [self._sparse_union, self._dense_union]

    def make(self, count: int, depth: int = 3) -> Made:
        """An array of ``count`` elements and its values."""
        chance = self._chance
        if chance.random() < 0.4:  # a slice
            before, behind = chance.randrange(12), chance.randrange(4)
            array, values = self._whole(before + count + behind, depth)
            return array.slice(before, count), values[before : before + count]
        return self._whole(count, depth)

    def _whole(self, count: int, depth: int) -> Made:
        if depth == 0 or self._chance.random() < 0.15:
            return self._leaf(count)
        return self._chance.choice(self._makers)(count, depth - 1)

    def _leaf(self, count: int) -> Made:
        chance = self._chance
        kind = chance.randrange(9)
        numbers = [chance.choice([None, 0, 1, -5, 100]) for _ in range(count)]
        words = [chance.choice(_WORDS) for _ in range(count)]
        data = [None if word is None else word.encode() for word in words]
        if kind == 0:
            return pa.nulls(count), [None] * count
        if kind == 1:
            flags = [None if number is None else number > 0 for number in numbers]
            return pa.array(flags, pa.bool_()), flags
        if kind == 2:
            return pa.array(words, chance.choice([pa.string(), pa.large_string()])), words
        if kind == 3:
            return pa.array(words, pa.string_view()), words
        if kind == 4:
            return pa.array(data, chance.choice([pa.binary(), pa.large_binary(), pa.binary_view()])), data
        if kind == 5:
            width = chance.choice([0, 3])
            cells = [None if number is None else b"xyz"[:width] for number in numbers]
            return pa.array(cells, pa.binary(width)), cells
        if kind == 6:
            return pa.array(numbers, pa.decimal128(9, 0)), pa.array(numbers, pa.decimal128(9, 0)).to_pylist()
        return pa.array(numbers, chance.choice([pa.int8(), pa.int16(), pa.int32(), pa.int64()])), numbers

    def _nulls(self, count: int) -> list[bool]:
        share = self._chance.choice([0.0, 0.0, 0.3, 1.0])
        return [self._chance.random() < share for _ in range(count)]

    def _list(self, count: int, depth: int) -> Made:
        """With items before the first list, behind the last one, and under nulls."""
        chance = self._chance
        sizes = [chance.choice([0, 0, 1, 2, 3]) for _ in range(count)]
        if chance.random() < 0.2:
            sizes = [0] * count
        first = chance.choice([0, 0, 2])
        offsets = [first]
        for size in sizes:
            offsets.append(offsets[-1] + size)
        items, values = self.make(offsets[-1] + chance.choice([0, 3]), depth)
        nulls = self._nulls(count)
        is_large = chance.random() < 0.3
        kind, width = (pa.large_list, np.int64) if is_large else (pa.list_, np.int32)
        array = self._nested(kind(items.type), nulls, [np.array(offsets, width)], [items])
        return array, [
            None if null else values[start : start + size]
            for null, start, size in zip(nulls, offsets, sizes, strict=False)
        ]

    def _list_view(self, count: int, depth: int) -> Made:
        """In any order, overlapping or not."""
        chance = self._chance
        items, values = self.make(chance.choice([0, 5, 9]), depth)
        if chance.random() < 0.3:  # as lists
            sizes = [chance.choice([0, 1]) if number < len(items) else 0 for number in range(count)]
            offsets = [sum(sizes[:number]) for number in range(count)]
        else:
            offsets = [chance.randint(0, len(items)) for _ in range(count)]
            sizes = [chance.randint(0, len(items) - offset) for offset in offsets]
        nulls = self._nulls(count)
        is_large = chance.random() < 0.3
        kind, width = (pa.large_list_view, np.int64) if is_large else (pa.list_view, np.int32)
        array = self._nested(kind(items.type), nulls, [np.array(offsets, width), np.array(sizes, width)], [items])
        return array, [
            None if null else values[start : start + size]
            for null, start, size in zip(nulls, offsets, sizes, strict=True)
        ]

    def _fixed_size_list(self, count: int, depth: int) -> Made:
        size = self._chance.choice([0, 1, 3])
        items, values = self.make(count * size, depth)
        nulls = self._nulls(count)
        array = self._nested(pa.list_(items.type, size), nulls, [], [items])
        return array, [None if null else values[at * size : (at + 1) * size] for at, null in enumerate(nulls)]

    def _struct(self, count: int, depth: int) -> Made:
        children = [self.make(count, depth) for _ in range(self._chance.randint(0, 3))]
        names = [f"f{number}" for number in range(len(children))]
        nulls = self._nulls(count)
        data_type = pa.struct([(name, child.type) for name, (child, _) in zip(names, children, strict=True)])
        array = self._nested(data_type, nulls, [], [child for child, _ in children])
        rows = [{name: values[at] for name, (_, values) in zip(names, children, strict=True)} for at in range(count)]
        return array, [None if null else row for null, row in zip(nulls, rows, strict=True)]

    def _map(self, count: int, depth: int) -> Made:
        chance = self._chance
        sizes = [chance.choice([0, 1, 2]) for _ in range(count)]
        offsets = [sum(sizes[:number]) for number in range(count + 1)]
        total = offsets[-1]
        keys = pa.array([f"k{number}" for number in range(total)], pa.string())
        if chance.random() < 0.3:
            keys = keys.cast(pa.string_view())
        elif chance.random() < 0.3:
            keys = keys.dictionary_encode()
        items, values = self.make(total, depth)
        data_type = pa.map_(keys.type, items.type)
        entries = pa.StructArray.from_arrays([keys, items], fields=[data_type.key_field, data_type.item_field])
        nulls = self._nulls(count)
        array = self._nested(data_type, nulls, [np.array(offsets, np.int32)], [entries])
        pairs = [(f"k{number}", values[number]) for number in range(total)]
        return array, [None if null else pairs[offsets[at] : offsets[at + 1]] for at, null in enumerate(nulls)]

    def _dictionary(self, count: int, depth: int) -> Made:
        chance = self._chance
        values, cells = self.make(chance.randint(1, 5), depth)
        indices = [None if null else chance.randrange(len(values)) for null in self._nulls(count)]
        index_type = chance.choice([pa.int8(), pa.uint16(), pa.int64()])
        array = pa.DictionaryArray.from_arrays(pa.array(indices, index_type), values)
        return array, [None if index is None else cells[index] for index in indices]

    def _run_ends(self, count: int, depth: int) -> Made:
        chance = self._chance
        runs = chance.randint(1, 4)
        lengths = [1] * runs if count >= runs else [max(count, 1)]
        lengths[-1] += max(0, count - sum(lengths)) + chance.choice([0, 2])
        values, cells = self.make(len(lengths), depth)
        ends = [sum(lengths[: number + 1]) for number in range(len(lengths))]
        end_type = chance.choice([pa.int16(), pa.int32(), pa.int64()])
        array = pa.RunEndEncodedArray.from_arrays(pa.array(ends, end_type), values)
        written_out = [cell for length, cell in zip(lengths, cells, strict=True) for _ in range(length)]
        return array.slice(0, count), written_out[:count]

    def _extension(self, count: int, _depth: int) -> Made:
        cells = [None if null else bytes([at % 256] * 16) for at, null in enumerate(self._nulls(count))]
        array = pa.ExtensionArray.from_storage(pa.uuid(), pa.array(cells, pa.binary(16)))
        return array, [None if cell is None else uuid.UUID(bytes=cell) for cell in cells]

    def _sparse_union(self, count: int, depth: int) -> Made:
        children = [self.make(count, depth) for _ in range(2)]
        codes = [self._chance.randrange(2) for _ in range(count)]
        array = pa.UnionArray.from_sparse(pa.array(codes, pa.int8()), [child for child, _ in children])
        return array, [children[code][1][at] for at, code in enumerate(codes)]

    def _dense_union(self, count: int, depth: int) -> Made:
        chance = self._chance
        children = [self.make(chance.randint(1, 4), depth) for _ in range(2)]
        codes = [chance.randrange(2) for _ in range(count)]
        places: list[int] = []
        for at, code in enumerate(codes):  # rising, for each member
            last = max((place for place, other in zip(places, codes[:at], strict=True) if other == code), default=0)
            places.append(chance.randint(last, len(children[code][0]) - 1))
        array = pa.UnionArray.from_dense(
            pa.array(codes, pa.int8()), pa.array(places, pa.int32()), [child for child, _ in children]
        )
        return array, [children[code][1][place] for code, place in zip(codes, places, strict=True)]

    @staticmethod
    def _nested(
        data_type: pa.DataType, nulls: list[bool], parts: list[np.ndarray[Any, Any]], children: list[pa.Array]
    ) -> pa.Array:
        validity = pa.py_buffer(np.packbits(~np.array(nulls, np.bool_), bitorder="little")) if any(nulls) else None
        buffers = [validity, *(pa.py_buffer(part) for part in parts)]
        return pa.Array.from_buffers(data_type, len(nulls), buffers, sum(nulls), children=children)

"""The values that formulas read, shared by formulas of several tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from barrage_server.formula.kinds import Kind
from barrage_server.formula.vectors import Vector, from_arrow

__all__ = ["NamedValues", "SharedValues", "decoded"]

_MOST_BYTES: Final = 1 << 18
"""Bytes of the largest column that is shared. A version holds its shared values for life."""


class SharedValues:
    """The columns of some rows, each read and decoded at most once.

    Large columns, such as long texts, are read again for each formula.

    Args:
        read: returns the values of a column, by its number.

    Attributes:
        answers: what readers have computed of these rows for each other, by keys of their own.

    """

    __slots__ = ("_arrays", "_read", "_vectors", "answers")

    def __init__(self, read: Callable[[int], pa.Array]) -> None:
        self._read = read
        self._arrays: dict[int, pa.Array] = {}
        self._vectors: dict[int, Vector] = {}
        self.answers: dict[Any, Any] = {}

    def array(self, number: int) -> pa.Array:
        """The values of a column."""
        found = self._arrays.get(number)
        if found is None:
            found = self._read(number)
            # what is quick to tell first; parts of the storage count for themselves
            if found.get_total_buffer_size() <= _MOST_BYTES or found.nbytes <= _MOST_BYTES:
                self._arrays[number] = found
        return found

    def keeps(self, number: int) -> bool:
        """Whether the values of a column, which have been read, are kept."""
        return number in self._arrays

    def vector(self, number: int, kind: Kind) -> Vector:
        """The values of a column as the kind of its type. They must not be written to."""
        found = self._vectors.get(number)
        if found is None:
            found = from_arrow(self.array(number), kind)
            if number in self._arrays:
                self._vectors[number] = found
        return found


class NamedValues(Mapping[str, pa.Array]):
    """Shared values under the names that one formula has for them.

    Args:
        values: the columns.
        numbers: the number of each name.

    """

    __slots__ = ("_numbers", "_values")

    def __init__(self, values: SharedValues, numbers: Mapping[str, int]) -> None:
        self._values = values
        self._numbers = numbers

    def __getitem__(self, name: str) -> pa.Array:
        return self._values.array(self._numbers[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def vector(self, name: str, kind: Kind) -> Vector:
        """The values of a column as the kind of its type."""
        return self._values.vector(self._numbers[name], kind)


def decoded(inputs: Mapping[str, pa.Array], name: str, kind: Kind) -> Vector:
    """The input ``name`` as the kind of its type."""
    return inputs.vector(name, kind) if isinstance(inputs, NamedValues) else from_arrow(inputs[name], kind)

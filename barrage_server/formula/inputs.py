"""The values that formulas read, shared by formulas of several tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from barrage_server.formula.kinds import Kind
from barrage_server.formula.vectors import Vector, from_arrow

__all__ = ["NamedValues", "SharedValues", "decoded"]


class SharedValues:
    """The columns of some rows. Each is read and decoded at most once, however many formulas name it.

    Args:
        read: the values of a column, by its number.

    """

    __slots__ = ("_arrays", "_read", "_vectors")

    def __init__(self, read: Callable[[int], pa.Array]) -> None:
        self._read = read
        self._arrays: dict[int, pa.Array] = {}
        self._vectors: dict[int, Vector] = {}

    def array(self, number: int) -> pa.Array:
        """The values of a column."""
        found = self._arrays.get(number)
        if found is None:
            found = self._arrays[number] = self._read(number)
        return found

    def vector(self, number: int, kind: Kind) -> Vector:
        """The values of a column as the kind of its type. They must not be written to."""
        found = self._vectors.get(number)
        if found is None:
            found = self._vectors[number] = from_arrow(self.array(number), kind)
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

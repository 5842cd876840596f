"""Comparisons of columns with constants, made at once for all formulas.

A thousand filters of one table often differ in a constant only: ``Symbol == `A```, ``Symbol == `B``` and so on. The
values of a few changed rows are compared with the constants of all of them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barrage_server.formula.arithmetic import cast
from barrage_server.formula.comparison import common
from barrage_server.formula.inputs import SharedValues
from barrage_server.formula.kinds import STRING, Kind
from barrage_server.formula.vectors import AnyArray, Cells, Flags, Vector

__all__ = ["ConstantComparison", "ConstantComparisons", "SharedComparison", "constant_comparison"]

_MOST_FLAGS: Final = 1 << 18
"""Bytes of the flags of some rows, by all constants. A version holds them for life."""
_UFUNCS: Final[Mapping[str, Callable[..., Any]]] = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_SPARE: Final = 16
"""Constants without a formula that are compared all the same, beside as many as have one."""


class ConstantComparison(NamedTuple):
    """A comparison of a column with a constant.

    Attributes:
        column: the column's name.
        kind: the kind of its values.
        operator: ``== != < <= > >=``, with the column on its left.
        compared: the kind in which values are compared.
        constant: in the units of that kind.

    """

    column: str
    kind: Kind
    operator: str
    compared: Kind
    constant: Any


def constant_comparison(
    operator: str, column: str, kind: Kind, constant: Vector, constant_kind: Kind, *, is_left: bool
) -> ConstantComparison | None:
    """A comparison of a column with a constant, if it can be shared.

    Args:
        operator: ``== != < <= > >=``.
        column: the column's name.
        kind: the kind of its values.
        constant: the constant, of no dimension.
        constant_kind: its kind.
        is_left: whether the column is on the left of the operator.

    Returns:
        The comparison. ``None`` for null, for the order of strings, and for columns that are neither strings nor cells
        of fixed width: each formula compares these by itself.

    """
    compared = common(kind, constant_kind)
    operator = operator if is_left else _MIRRORED[operator]
    if compared is STRING:
        if isinstance(constant, pa.Scalar) and constant.is_valid and operator in ("==", "!="):
            return ConstantComparison(column, kind, operator, compared, constant.as_py())
        return None
    if compared is None or kind.dtype is None or compared.dtype is None:
        return None
    if not isinstance(constant, Cells) or constant.valid is not None:
        return None
    to_compared = cast(constant_kind, compared)
    if to_compared is None or cast(kind, compared) is None:
        return None
    with np.errstate(all="ignore"):
        cells = to_compared(constant)
    assert isinstance(cells, Cells)
    return ConstantComparison(column, kind, operator, compared, cells.values.item())


class ConstantComparisons:
    """The comparisons of one table's columns with constants, of all its filters.

    Methods may be called from any thread.
    """

    def __init__(self) -> None:
        self._groups: dict[tuple[int, str, Kind], _Group] = {}
        self._lock = Lock()

    def share(self, given: Sequence[tuple[int, ConstantComparison]]) -> tuple[SharedComparison, ...]:
        """The shared forms of comparisons.

        Equal ones are one object while it is referenced.

        Args:
            given: comparisons, each with the number of its column.

        """
        with self._lock:
            return tuple([self._group(number, each).member(each.constant) for number, each in given])

    def _group(self, number: int, comparison: ConstantComparison) -> _Group:
        key = number, comparison.operator, comparison.compared
        if key not in self._groups:
            self._groups[key] = _Group(number, comparison, self._lock)
        return self._groups[key]


class SharedComparison:
    """A comparison that is made together with all others of its column and operator.

    It is in use while it is referenced.
    """

    __slots__ = ("__weakref__", "_constant", "_group")

    def __init__(self, group: _Group, constant: Any) -> None:
        self._group = group
        self._constant = constant

    @property
    def constants(self) -> int:
        """The number of constants in use with this column and operator."""
        return len(self._group.members)

    def flags(self, values: SharedValues) -> Flags | None:
        """Whether it holds, for each row, read-only.

        ``None`` if a value is null, or if there are too many rows: evaluate the formula then.
        """
        return self._group.flags(self._constant, values)


class _Constants(NamedTuple):
    """The constants of a group at one moment.

    Attributes:
        places: the place of each in the array.
        array: the constants.

    """

    places: Mapping[Any, int]
    array: AnyArray | pa.Array


class _Answers(NamedTuple):
    """The flags of some rows, by constant.

    Attributes:
        places: the place of each constant.
        flags: bools of the shape (constants, rows); ``None`` if they were not computed.

    """

    places: Mapping[Any, int]
    flags: Flags | None


class _Group:
    """The comparisons of one column by one operator.

    Attributes:
        members: those in use, by constant.

    """

    def __init__(self, number: int, comparison: ConstantComparison, lock: Lock) -> None:
        self.members: WeakValueDictionary[Any, SharedComparison] = WeakValueDictionary()
        self._number = number
        self._kind, self._operator, self._compared_kind = comparison.kind, comparison.operator, comparison.compared
        self._lock = lock
        self._constants = _Constants({}, np.zeros(0))
        self._to_compared = cast(comparison.kind, comparison.compared)

    def member(self, constant: Any) -> SharedComparison:
        """The comparison with a constant. The lock must be held."""
        found = self.members.get(constant)
        if found is None:
            found = self.members[constant] = SharedComparison(self, constant)
        return found

    def flags(self, constant: Any, values: SharedValues) -> Flags | None:
        """Whether the comparison with ``constant`` holds, for each row."""
        answers: _Answers | None = values.answers.get(self)
        if answers is None or constant not in answers.places:
            answers = values.answers[self] = self._answer(constant, values)
        found = answers.flags
        return None if found is None else found[answers.places[constant]]

    def _answer(self, constant: Any, values: SharedValues) -> _Answers:
        """Compare rows with all constants, of which ``constant`` is one."""
        places, constants = self._constants
        if constant not in places or len(places) > 2 * len(self.members) + _SPARE:
            places, constants = self._constants = self._in_use()
        vector = values.vector(self._number, self._kind)
        rows = len(vector.values if isinstance(vector, Cells) else vector)
        known = [each.flags for each in list(values.answers.values()) if isinstance(each, _Answers)]
        taken = sum([flags.nbytes for flags in known if flags is not None])
        if taken + len(places) * rows > _MOST_FLAGS:
            return _Answers(places, None)
        return _Answers(places, self._compare(vector, constants))

    def _in_use(self) -> _Constants:
        with self._lock:
            known = list(self.members)
        places = {constant: place for place, constant in enumerate(known)}
        dtype = self._compared_kind.dtype
        return _Constants(places, pa.array(known, pa.string()) if dtype is None else np.array(known, dtype))

    def _compare(self, vector: Vector, constants: AnyArray | pa.Array) -> Flags | None:
        """The flags of rows by constant; ``None`` if a value is null."""
        if not isinstance(vector, Cells):  # strings
            if vector.null_count:
                return None
            found = np.zeros((len(constants), len(vector)), np.bool_)
            places = pc.index_in(vector, value_set=constants).fill_null(-1).to_numpy()
            known = (places >= 0).nonzero()[0]
            found[places[known], known] = True
            return found if self._operator == "==" else ~found
        if vector.valid is not None:
            return None
        assert self._to_compared is not None
        with np.errstate(all="ignore"):
            cells = self._to_compared(vector)
            assert isinstance(cells, Cells)
            answer: Flags = _UFUNCS[self._operator](cells.values, constants[:, np.newaxis])
        return answer

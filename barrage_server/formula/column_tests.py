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

__all__ = ["ColumnTest", "ColumnTests", "SharedTest", "test_of"]

_MOST_FLAGS: Final = 1 << 18
"""Flags that the tests of a table take for some rows, in bytes. A version holds them for life."""
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


class ColumnTest(NamedTuple):
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


def test_of(
    operator: str, column: str, kind: Kind, value: Vector, value_kind: Kind, *, is_left: bool
) -> ColumnTest | None:
    """The test that a comparison of a column with a constant is.

    Args:
        operator: ``== != < <= > >=``.
        column: the column's name.
        kind: the kind of its values.
        value: the constant.
        value_kind: its kind.
        is_left: whether the column is on the left of the operator.

    Returns:
        The test; ``None`` if it cannot be shared: a comparison with null, of an order of strings, or of values without
        a fixed width other than strings.

    """
    compared = common(kind, value_kind)
    operator = operator if is_left else _MIRRORED[operator]
    if compared is STRING:
        if isinstance(value, pa.Scalar) and value.is_valid and operator in ("==", "!="):
            return ColumnTest(column, kind, operator, compared, value.as_py())
        return None
    if compared is None or kind.dtype is None or compared.dtype is None:
        return None
    if not isinstance(value, Cells) or value.valid is not None:
        return None
    to_compared = cast(value_kind, compared)
    if to_compared is None or cast(kind, compared) is None or value.values.ndim:
        return None
    with np.errstate(all="ignore"):
        held = to_compared(value)
    assert isinstance(held, Cells)
    return ColumnTest(column, kind, operator, compared, held.values.item())


class ColumnTests:
    """The tests of the columns of one table. Threads may share it."""

    def __init__(self) -> None:
        self._groups: dict[tuple[int, str, Kind], _Group] = {}
        self._lock = Lock()

    def share(self, tests: Sequence[tuple[int, ColumnTest]]) -> tuple[SharedTest, ...]:
        """The shared forms of tests, each given with the number of its column.

        Each is one of its table as long as somebody holds it.
        """
        with self._lock:
            return tuple([self._group(number, test).member(test.constant) for number, test in tests])

    def _group(self, number: int, test: ColumnTest) -> _Group:
        key = number, test.operator, test.compared
        if key not in self._groups:
            self._groups[key] = _Group(number, test, self._lock)
        return self._groups[key]


class SharedTest:
    """A test that is made together with the others of its column and operator."""

    __slots__ = ("__weakref__", "_constant", "_group")

    def __init__(self, group: _Group, given: Any) -> None:
        self._group = group
        self._constant = given

    @property
    def sharers(self) -> int:
        """How many constants the column is compared with by this operator."""
        return len(self._group.members)

    def flags(self, values: SharedValues) -> Flags | None:
        """Whether each row passes, read-only.

        ``None`` if some value is null, or there are too many rows: evaluate the formula then.
        """
        return self._group.flags(self._constant, values)


class _Answers(NamedTuple):
    """The flags of some rows, for some constants.

    Attributes:
        places: the row of each constant.
        flags: bools of the shape (constants, rows); ``None`` if they were not computed.

    """

    places: Mapping[Any, int]
    flags: Flags | None


class _Constants(NamedTuple):
    """The constants of a group at one moment, as an array in the order of ``places``."""

    places: Mapping[Any, int]
    array: AnyArray | pa.Array


class _Group:
    """The tests of one column by one operator.

    Attributes:
        members: those in use, by constant.

    """

    def __init__(self, number: int, test: ColumnTest, lock: Lock) -> None:
        self.members: WeakValueDictionary[Any, SharedTest] = WeakValueDictionary()
        self._number = number
        self._test = test
        self._lock = lock
        self._constants = _Constants({}, np.zeros(0))
        to_compared = None if test.compared is STRING else cast(test.kind, test.compared)
        self._to_compared = to_compared or (lambda vector: vector)

    def member(self, given: Any) -> SharedTest:
        """The test with a constant. The lock must be held."""
        found = self.members.get(given)
        if found is None:
            found = self.members[given] = SharedTest(self, given)
        return found

    def flags(self, given: Any, values: SharedValues) -> Flags | None:
        """Whether each of the rows passes the test with the constant ``given``."""
        answers: _Answers | None = values.answers.get(self)
        if answers is None or given not in answers.places:
            answers = values.answers[self] = self._answer(given, values)
        found = answers.flags
        return None if found is None else found[answers.places[given]]

    def _answer(self, given: Any, values: SharedValues) -> _Answers:
        places, constants = self._constants
        if given not in places or len(places) > 2 * len(self.members) + _SPARE:
            places, constants = self._constants = self._present()
        vector = values.vector(self._number, self._test.kind)
        taken = sum([each.flags.nbytes for each in values.answers.values() if each.flags is not None])
        rows = len(vector.values if isinstance(vector, Cells) else vector)
        if taken + len(places) * rows > _MOST_FLAGS:
            return _Answers(places, None)
        return _Answers(places, self._compared(vector, constants))

    def _present(self) -> _Constants:
        with self._lock:
            known = list(self.members)
        places = {each: place for place, each in enumerate(known)}
        dtype = self._test.compared.dtype
        return _Constants(places, pa.array(known, pa.string()) if dtype is None else np.array(known, dtype))

    def _compared(self, vector: Vector, constants: AnyArray | pa.Array) -> Flags | None:
        if isinstance(vector, pa.Array):
            if vector.null_count:
                return None
            found = np.zeros((len(constants), len(vector)), np.bool_)
            places = pc.index_in(vector, value_set=constants).fill_null(-1).to_numpy()
            known = np.flatnonzero(places >= 0)
            found[places[known], known] = True
            return found if self._test.operator == "==" else ~found
        assert isinstance(vector, Cells)
        if vector.valid is not None:
            return None
        with np.errstate(all="ignore"):
            cells = self._to_compared(vector).values
            answer: Flags = _UFUNCS[self._test.operator](cells, constants[:, np.newaxis])
        return answer

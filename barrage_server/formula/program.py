"""Compiled formulas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barrage_server.errors import InvalidRequestError, LimitError
from barrage_server.fixed_limits import TEXT_BYTES
from barrage_server.formula.builder import build
from barrage_server.formula.comparison import holds
from barrage_server.formula.constant_comparisons import ConstantComparison, constant_comparison
from barrage_server.formula.functions import Functions
from barrage_server.formula.kinds import BOOLEAN, PERIOD, ZONE
from barrage_server.formula.lexer import Text
from barrage_server.formula.parser import parse
from barrage_server.formula.steps import Lookup, Run, Steps
from barrage_server.formula.vectors import Cells, Flags, Vector, to_arrow

__all__ = ["Formula", "compile_condition", "compile_formula"]


class Formula:
    """A compiled formula; immutable, and equal to formulas that compute the same.

    Attributes:
        text: as it was written.
        type: the Arrow type of its results.
        columns: the columns whose value in the same row it reads, in order of first use.
        column: the column's name if it is one column and nothing else, otherwise ``None``.
        positions: whether it reads ``i``, ``ii``, or columns by position.
        arrays: the columns that it reads by position.
        is_pure: whether equal inputs give equal results: ``False`` with ``now()`` or random numbers.
        calls_users: whether it calls functions of users, which may raise.
        comparison: the comparison of a column with a constant that it is, if it is a condition and nothing else.

    """

    __slots__ = (
        "_build",
        "_computations",
        "_identity",
        "_is_condition",
        "_is_quiet",
        "_start",
        "arrays",
        "calls_users",
        "column",
        "columns",
        "comparison",
        "is_pure",
        "positions",
        "text",
        "type",
    )

    def __init__(self, text: str, made: Steps, columns: Mapping[str, pa.DataType], is_condition: bool) -> None:
        result = made.steps[made.result]
        self.text = text
        self.columns = tuple(made.columns)
        self.arrays = tuple(made.arrays)
        self.positions = made.positions
        self.is_pure = made.is_pure
        self.calls_users = bool(made.users)
        self.column = self.columns[0] if result.key.startswith("column ") else None
        self.type: pa.DataType = columns[self.column] if self.column is not None else result.kind.arrow
        self._build = made
        self._is_condition = is_condition
        self.comparison = _comparison_of(made) if is_condition else None
        self._is_quiet = all(step.is_quiet for step in made.steps)
        self._start = [step.constant for step in made.steps]
        self._computations = [
            (number, step.apply, step.arguments, finished)
            for number, (step, finished) in enumerate(zip(made.steps, _last_uses(made), strict=True))
            if step.constant is None
        ]
        used = tuple((name, columns[name]) for name in dict.fromkeys((*made.columns, *made.arrays)))
        self._identity = (tuple(step.key for step in made.steps), made.result, used, tuple(made.users), is_condition)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Formula) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        return f"Formula({self.text!r}, {self.type})"

    def evaluate(
        self,
        inputs: Mapping[str, pa.Array],
        rows: int,
        positions: np.ndarray[Any, np.dtype[np.int64]] | None = None,
        lookup: Lookup | None = None,
        now: int | None = None,
    ) -> pa.Array:
        """The results for ``rows`` rows.

        Args:
            inputs: an array of ``rows`` values for each of ``columns``, of exactly the type of its compilation.
            rows: their number.
            positions: of the rows in their table, int64; for formulas with ``positions``.
            lookup: called with one of ``arrays`` and positions (int64), of which -1 and those beyond the table are
                null; returns an array of the column's type.
            now: nanoseconds since 1970; for formulas with ``now()``.

        Returns:
            An array of ``rows`` values of ``type``; without nulls if it is a condition.

        Raises:
            InvalidRequestError: an argument that it needs is missing.
            LimitError: the result would be too large.
            InternalError: a user's function failed.

        """
        if self.column is not None and not self._is_condition:
            return inputs[self.column]
        result = self._result(Run(inputs, rows, positions, lookup, now))
        kind = self._build.steps[self._build.result].kind
        try:
            found = to_arrow(result, kind, rows)
        except (pa.ArrowCapacityError, MemoryError) as error:
            raise _too_large() from error
        if self._is_condition and found.null_count:
            found = pc.fill_null(found, False)
        return found

    def flags(
        self,
        inputs: Mapping[str, pa.Array],
        rows: int,
        positions: np.ndarray[Any, np.dtype[np.int64]] | None = None,
        lookup: Lookup | None = None,
    ) -> Flags:
        """Whether a condition holds, as a bool for each of ``rows`` rows.

        Args and errors are those of :meth:`evaluate`.
        """
        result = self._result(Run(inputs, rows, positions, lookup, None))
        assert isinstance(result, Cells)
        found = holds(result)
        return found if found.ndim else np.broadcast_to(found, (rows,))

    def _result(self, run: Run) -> Vector:
        if (self.positions and run.positions is None) or (self.arrays and run.lookup is None):
            raise InvalidRequestError(
                "A formula with positions needs the positions of its rows, and a lookup for arrays."
            )
        try:
            if self._is_quiet:
                return self._computed(run)
            with np.errstate(all="ignore"):
                return self._computed(run)
        except (pa.ArrowCapacityError, MemoryError) as error:
            raise _too_large() from error

    def _computed(self, run: Run) -> Vector:
        """Run the steps; values are dropped after their last use."""
        values: list[Any] = self._start.copy()
        for number, apply, arguments, finished in self._computations:
            values[number] = apply(run, [values[argument] for argument in arguments])
            for done in finished:
                values[done] = None
        found: Vector = values[self._build.result]
        return found


def compile_formula(
    text: str | Text, columns: Mapping[str, pa.DataType], functions: Functions | None = None
) -> Formula:
    """Compile a formula for columns of these plain types.

    Args:
        text: the formula: the right side of ``C = A + B``; a :class:`Text` tells where it was written.
        columns: the type of each column that it may read.
        functions: users' functions that it may call.

    Raises:
        UnknownColumnError: it names a column that is not there.
        InvalidRequestError: it does not parse, or its types do not go together; says where and why.
        LimitError: it is too long, too deep, or has too many nodes.

    """
    made = build(text, parse(text), columns, functions)
    kind = made.steps[made.result].kind
    if kind in (ZONE, PERIOD):
        raise InvalidRequestError(f"A formula's result cannot be a {kind}: columns have no such type.")
    return Formula(Text.of(text).text, made, columns, False)


def compile_condition(text: str, columns: Mapping[str, pa.DataType], functions: Functions | None = None) -> Formula:
    """Compile a condition, a boolean formula; null results become false.

    Args and errors are those of :func:`compile_formula`.
    """
    made = build(text, parse(text), columns, functions)
    kind = made.steps[made.result].kind
    if kind is not BOOLEAN:
        raise InvalidRequestError(f"A condition is true or false; this formula's result is of type {kind}: {text[:60]}")
    return Formula(text, made, columns, True)


def _comparison_of(made: Steps) -> ConstantComparison | None:
    """The comparison of a column with a constant that the result is."""
    operator, result = made.comparisons.get(made.result), made.steps[made.result]
    if operator is None:
        return None
    arguments = [made.steps[argument] for argument in result.arguments]
    for is_left, (column, value) in ((True, arguments), (False, arguments[::-1])):
        if column.key.startswith("column ") and value.constant is not None:
            return constant_comparison(
                operator, made.columns[0], column.kind, value.constant, value.kind, is_left=is_left
            )
    return None


def _last_uses(made: Steps) -> list[list[int]]:
    """For each step, the steps but constants whose values nothing needs after it."""
    last = {made.result: len(made.steps)}
    for number in range(len(made.steps) - 1, -1, -1):
        for argument in made.steps[number].arguments:
            last.setdefault(argument, number)
    found: list[list[int]] = [[] for _ in made.steps]
    for argument, number in last.items():
        if number < len(found) and made.steps[argument].constant is None:
            found[number].append(argument)
    return found


def _too_large() -> LimitError:
    return LimitError(
        f"The texts of a formula's result are too large for one array, which holds {TEXT_BYTES.most:,} bytes of them "
        f"({TEXT_BYTES.name}). Compute fewer rows."
    )

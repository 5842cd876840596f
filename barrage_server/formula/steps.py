"""The steps of a formula: computations in order, of which equal ones are one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from barrage_server.errors import LimitError
from barrage_server.fixed_limits import FORMULA_STEPS
from barrage_server.formula.arithmetic import Resolved
from barrage_server.formula.functions import UserFunction
from barrage_server.formula.inputs import decoded
from barrage_server.formula.kinds import INT, ZONE, Kind
from barrage_server.formula.vectors import Cells, Vector, constant

__all__ = ["Apply", "Lookup", "Run", "Step", "Steps", "Value"]

Lookup: TypeAlias = Callable[[str, "np.ndarray[Any, np.dtype[np.int64]]"], pa.Array]


class Run(NamedTuple):
    """The arguments of one evaluation."""

    inputs: Mapping[str, pa.Array]
    rows: int
    positions: np.ndarray[Any, np.dtype[np.int64]] | None
    lookup: Lookup | None
    now: int | None


Apply: TypeAlias = Callable[[Run, Sequence[Vector]], Vector]
"""Computes a step from the results of its arguments."""


@dataclass(frozen=True, slots=True)
class Step:
    """One computation on the results of the steps numbered ``arguments``.

    Attributes:
        apply: computes the result.
        arguments: the numbers of the steps whose results it takes.
        kind: of the result.
        key: names the computation, and tells it from others.
        constant: the result, if it is always the same.
        is_quiet: whether numpy never warns of the values, such as of an overflow.

    """

    apply: Apply
    arguments: tuple[int, ...]
    kind: Kind
    key: str
    constant: Vector | None = None
    is_quiet: bool = False


@dataclass(frozen=True, slots=True)
class Value:
    """The result of a step: the step's number, the kind, and the value of a literal."""

    step: int
    kind: Kind
    is_literal: bool = False
    value: Any = None


@dataclass(slots=True)
class Steps:
    """The steps of a formula, and what they read.

    Attributes:
        steps: in the order of computation.
        result: the number of the step whose value is the formula's.
        columns: read in the same row, in order of first use.
        arrays: read by position.
        positions: whether positions are used.
        is_pure: whether neither time nor chance matters.
        users: the users' functions that are called.
        comparisons: the operators of the steps that are comparisons.

    """

    steps: list[Step] = field(default_factory=list)
    result: int = 0
    columns: list[str] = field(default_factory=list)
    arrays: list[str] = field(default_factory=list)
    positions: bool = False
    is_pure: bool = True
    users: list[UserFunction] = field(default_factory=list)
    comparisons: dict[int, str] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)

    def literal(self, value: Any, kind: Kind) -> Value:
        """A constant, in the units of its kind."""
        held = None if kind is ZONE else constant(value, kind)
        made = Step(lambda _run, _values: held, (), kind, f"{kind}:{value!r}", held, True)
        return Value(self._add(made), kind, True, value)

    def column(self, name: str, kind: Kind) -> Value:
        """The value of a column in the same row."""
        if name not in self.columns:
            self.columns.append(name)
        made = Step(lambda run, _values: decoded(run.inputs, name, kind), (), kind, f"column {name!r}", is_quiet=True)
        return Value(self._add(made), kind)

    def position(self, kind: Kind) -> Value:
        """The position of the row, as an int or a long."""
        self.positions = True

        def positions(run: Run, _values: Sequence[Vector]) -> Vector:
            assert run.positions is not None
            return Cells(run.positions.astype(kind.dtype, copy=False))

        return Value(self._add(Step(positions, (), kind, "i" if kind is INT else "ii")), kind)

    def pure(self, key: str, resolved: Resolved, values: tuple[Value, ...], *, is_quiet: bool = False) -> Value:
        """The result of a kernel of ``values`` alone, which is constant if they are."""
        kind, kernel = resolved
        arguments = tuple(value.step for value in values)
        known = [self.steps[argument].constant for argument in arguments]
        result = None
        if all(each is not None for each in known):
            with np.errstate(all="ignore"):
                result = kernel(*known)
        is_quiet = is_quiet or result is not None
        made = Step(lambda _run, given: kernel(*given), arguments, kind, f"{key} {arguments}", result, is_quiet)
        return Value(self._add(made), kind)

    def combine(self, key: str, kind: Kind, apply: Apply, values: tuple[Value, ...]) -> Value:
        """The result of a computation of ``values``; ``key`` names the computation."""
        arguments = tuple(value.step for value in values)
        return Value(self._add(Step(apply, arguments, kind, f"{key} {arguments}")), kind)

    def _add(self, step: Step) -> int:
        """The number of the step with this key, added if it is new."""
        if step.key not in self._numbers:
            if len(self.steps) >= FORMULA_STEPS.most:
                raise LimitError(f"A formula has at most {FORMULA_STEPS.most:,} steps ({FORMULA_STEPS.name}).")
            self._numbers[step.key] = len(self.steps)
            self.steps.append(step)
        return self._numbers[step.key]

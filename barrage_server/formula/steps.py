"""The steps of a formula: computations in order, of which equal ones are one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from barrage_server.errors import LimitError
from barrage_server.formula.arithmetic import Resolved
from barrage_server.formula.functions import UserFunction
from barrage_server.formula.inputs import decoded
from barrage_server.formula.kinds import INT, ZONE, Kind
from barrage_server.formula.vectors import Cells, Vector, constant

__all__ = ["Apply", "Lookup", "Run", "Step", "Steps", "Value"]

_MOST_STEPS: Final = 4_000

Lookup: TypeAlias = Callable[[str, "np.ndarray[Any, np.dtype[np.int64]]"], pa.Array]


@dataclass(frozen=True, slots=True)
class Run:
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
    """One computation on the results of the steps numbered ``arguments``."""

    apply: Apply
    arguments: tuple[int, ...]
    kind: Kind
    key: str


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

    """

    steps: list[Step] = field(default_factory=list)
    result: int = 0
    columns: list[str] = field(default_factory=list)
    arrays: list[str] = field(default_factory=list)
    positions: bool = False
    is_pure: bool = True
    users: list[UserFunction] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)

    def literal(self, value: Any, kind: Kind) -> Value:
        """A constant, in the units of its kind."""
        held = None if kind is ZONE else constant(value, kind)
        step = self._add(f"{kind}:{value!r}", kind, lambda _run, _values: held, ())
        return Value(step, kind, True, value)

    def column(self, name: str, kind: Kind) -> Value:
        """The value of a column in the same row."""
        if name not in self.columns:
            self.columns.append(name)
        step = self._add(f"column {name!r}", kind, lambda run, _values: decoded(run.inputs, name, kind), ())
        return Value(step, kind)

    def position(self, kind: Kind) -> Value:
        """The position of the row, as an int or a long."""
        self.positions = True

        def positions(run: Run, _values: Sequence[Vector]) -> Vector:
            assert run.positions is not None
            return Cells(run.positions.astype(kind.dtype, copy=False))

        return Value(self._add("i" if kind is INT else "ii", kind, positions, ()), kind)

    def pure(self, key: str, resolved: Resolved, values: tuple[Value, ...]) -> Value:
        """The result of a kernel of ``values`` alone."""
        kind, kernel = resolved
        return self.combine(key, kind, lambda _run, given: kernel(*given), values)

    def combine(self, key: str, kind: Kind, apply: Apply, values: tuple[Value, ...]) -> Value:
        """The result of a computation of ``values``; ``key`` names the computation."""
        arguments = tuple(value.step for value in values)
        return Value(self._add(f"{key} {arguments}", kind, apply, arguments), kind)

    def _add(self, key: str, kind: Kind, apply: Apply, arguments: tuple[int, ...]) -> int:
        """The number of the step with this key, made if it is new."""
        if key not in self._numbers:
            if len(self.steps) >= _MOST_STEPS:
                raise LimitError(f"A formula has at most {_MOST_STEPS} steps.")
            self._numbers[key] = len(self.steps)
            self.steps.append(Step(apply, arguments, kind, key))
        return self._numbers[key]

"""Functions with decaying weights: moving averages, sums, extremes, deviations.

At each row that has a value, the previous state is multiplied by ``exp(-1 / decay)`` for decays in rows, and by
``exp(-elapsed / decay)`` for decays in time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from barrage_server.engine.plan import Int64Array
from barrage_server.operations.update_by.cumulative import good_runs, spread
from barrage_server.operations.update_by.functions import DECREASING, Fault, RefusedRow, Scan
from barrage_server.operations.update_by.segments import Flags, Numbers, linear
from barrage_server.operations.update_by.values import DOUBLE, LONG, is_number, moments, numbers, written
from barrage_server.plan.update_by import BadDataBehavior, OperationControl

__all__ = ["Moving"]

_UFUNCS: Final = {"ema": np.add, "ems": np.add, "emmin": np.minimum, "emmax": np.maximum, "emstd": np.add}


class Moving(Scan):
    """A moving function.

    Args:
        function: its name.
        number: the number of the column, which has numbers.
        data_type: the type of the column.
        decay: rows or nanoseconds after which a weight has fallen to 1/e.
        time: the number of the column of instants, for a decay in time.
        control: what to do at null and NaN.

    """

    def __init__(
        self,
        function: str,
        number: int,
        data_type: pa.DataType,
        decay: float,
        time: int | None,
        control: OperationControl,
    ) -> None:
        if not is_number(data_type):
            raise TypeError
        self.inputs = (number,) if time is None else (number, time)
        self._bad = Fault(
            f"'{function}' was to fail at null or NaN.",
            "It has met one",
            "Filter such rows, or use another OperationControl.",
        )
        self._is_deviation = function == "emstd"
        self._is_average = function in ("ema", "emstd")
        self._ufunc = _UFUNCS[function]
        self._decay = decay
        self._is_timed = time is not None
        self._control = control
        self.types = (DOUBLE, *([DOUBLE, DOUBLE] if self._is_deviation else []), *([LONG] if self._is_timed else []))

    def run(self, columns: Sequence[pa.Array], starts: Int64Array, carry: Sequence[pa.Array]) -> list[pa.Array]:
        """Continue from the values stored with the row before."""
        values, there = numbers(columns[0], np.float64)
        stamps, timed = moments(columns[1]) if self._is_timed else (np.zeros(len(values), np.int64), there)
        is_nan = there & np.isnan(values)
        bad = ~there | self._left_out(is_nan)
        self._check(~there, self._control.on_null)
        resets = (~there & (self._control.on_null == BadDataBehavior.RESET)) | (
            is_nan & (self._control.on_nan == BadDataBehavior.RESET)
        )
        good = ~bad & timed
        begins = self._with_resets(starts, resets)
        runs = np.searchsorted(begins, starts)  # those that go on from the row before
        stored = [numbers(column, kind.to_pandas_dtype()) for column, kind in zip(carry, self.types, strict=True)]
        carried = [_placed(one, runs, len(begins)) for one, _ in stored]
        known = _placed(stored[-1][1], runs, len(begins))
        found = self._scanned(values[good], stamps[good], good, begins, carried, known)
        out = []
        for result, before, kind in zip(found, carried, self.types, strict=True):
            spread_, valid = spread(good, begins, result, before, known)
            out.append(written(spread_, valid & ~resets, kind))
        if self._is_deviation:
            out[0] = out[0].fill_null(math.nan)  # as Deephaven's
        return out

    def _left_out(self, is_nan: Flags) -> Flags:
        """The rows with NaN that count as rows without a value."""
        self._check(is_nan, self._control.on_nan)
        return np.zeros(len(is_nan), np.bool_) if self._control.on_nan == BadDataBehavior.POISON else is_nan

    def _check(self, rows: Flags, behavior: BadDataBehavior) -> None:
        if behavior == BadDataBehavior.THROW and rows.any():
            raise RefusedRow(self._bad, int(rows.argmax()))

    def _with_resets(self, starts: Int64Array, resets: Flags) -> Int64Array:
        """The beginnings of runs: at groups, and behind each reset."""
        behind = np.flatnonzero(resets) + 1
        return np.union1d(starts, behind[behind < len(resets)]) if len(behind) else starts

    @np.errstate(invalid="ignore", over="ignore")
    def _scanned(
        self,
        own: Numbers,
        stamps: Int64Array,
        good: Flags,
        begins: Int64Array,
        carried: Sequence[Numbers],
        known: Flags,
    ) -> list[Numbers]:
        """The stored values of rows with a value, from values and times."""
        _, first, runs = good_runs(good, begins)
        goes_on = known[runs]
        heads, before = first[goes_on], runs[goes_on]
        factors = np.full(len(own), math.exp(-1 / self._decay))
        if self._is_timed:
            last = np.concatenate((stamps[:1], stamps[:-1]))
            last[first] = stamps[first]
            last[heads] = carried[-1][before]
            if (decreases := stamps < last).any():
                raise RefusedRow(DECREASING, int(np.flatnonzero(good)[decreases.argmax()]))
            elapsed = stamps.astype(np.float64) - last if _is_wide(stamps, last) else stamps - last
            factors = np.exp(-elapsed / self._decay)
        value = carried[1 if self._is_deviation else 0][before]
        terms = (1 - factors) * own if self._is_average else own.copy()
        terms[first] = own[first]
        if len(heads):
            share = (1 - factors[heads]) * own[heads] if self._is_average else own[heads]
            terms[heads] = self._ufunc(factors[heads] * value, share)
        found = [linear(self._ufunc, factors, terms, first)]
        if self._is_deviation:
            average = np.concatenate(([0.0], found[0][:-1])) if len(own) else own
            average[first] = own[first]
            average[heads] = value
            terms = factors * (1 - factors) * (own - average) ** 2
            terms[first[~goes_on]] = 0.0
            terms[heads] += factors[heads] * carried[2][before]
            variance = linear(np.add, factors, terms, first)
            deviation = np.sqrt(variance)
            deviation[first[~goes_on]] = np.nan
            found = [deviation, found[0], variance]
        return [*found, stamps] if self._is_timed else found


def _placed(values: Numbers, places: Int64Array, size: int) -> Numbers:
    """Values at places of an array of ``size`` items; 0 elsewhere."""
    found = np.zeros(size, values.dtype)
    found[places] = values
    return found


def _is_wide(stamps: Int64Array, last: Int64Array) -> bool:
    """Whether a difference of times may exceed 64 bits."""
    return bool(len(stamps)) and int(stamps.max()) - int(last.min()) > np.iinfo(np.int64).max

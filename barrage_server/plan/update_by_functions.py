"""The functions that make the operations of ``update_by``: ``bs.updateby``.

The names are those of Deephaven's Python client. Each function moves along the rows of a group, in the order of the
table. Columns are written ``"total = price"``, or ``"price"`` for a result that replaces its column; ``[]`` stands for
all columns that the function is defined for. Every function reads the columns of the table, never results of others.

Windows of ticks count rows, and the row itself is one of those that look back: ``rev_ticks=3`` is the row and the two
before it, ``fwd_ticks=2`` the two behind it. Windows of time have the rows whose instants lie from ``rev_time`` before
the row's to ``fwd_time`` after it, ends included. Both may be negative: ``rev_ticks=3, fwd_ticks=-1`` is the two rows
before the row without itself. Times are nanoseconds, texts such as ``"PT1M"``, ``"PT0.5S"`` and ``"PT00:01:00"``, or
durations of Python, pandas or numpy, such as ``timedelta(minutes=1)``. The instants must not descend within a group,
and windows need one of each row.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from barrage_server.arguments import Duration, choice, duration_nanoseconds, integer, names, number, shown, text
from barrage_server.errors import InvalidRequestError
from barrage_server.plan.aggregation import Filter, conditions
from barrage_server.plan.expression import Expression, column_texts, formula_text
from barrage_server.plan.texts import Texts
from barrage_server.plan.update_by import BadDataBehavior, DeltaControl, OperationControl, UpdateByOperation

__all__ = [
    "cum_count_where",
    "cum_max",
    "cum_min",
    "cum_prod",
    "cum_sum",
    "delta",
    "ema_tick",
    "ema_time",
    "emmax_tick",
    "emmax_time",
    "emmin_tick",
    "emmin_time",
    "ems_tick",
    "ems_time",
    "emstd_tick",
    "emstd_time",
    "forward_fill",
    "rolling_avg_tick",
    "rolling_avg_time",
    "rolling_count_tick",
    "rolling_count_time",
    "rolling_count_where_tick",
    "rolling_count_where_time",
    "rolling_formula_tick",
    "rolling_formula_time",
    "rolling_group_tick",
    "rolling_group_time",
    "rolling_max_tick",
    "rolling_max_time",
    "rolling_min_tick",
    "rolling_min_time",
    "rolling_prod_tick",
    "rolling_prod_time",
    "rolling_std_tick",
    "rolling_std_time",
    "rolling_sum_tick",
    "rolling_sum_time",
    "rolling_wavg_tick",
    "rolling_wavg_time",
]

Filters: TypeAlias = Filter | Sequence[Filter]

_Member = TypeVar("_Member", bound=StrEnum)

_MOST_TICKS: Final = (1 << 31) - 1
_MOST_TIME: Final = (1 << 62) - 1
_LONGEST_TEXT: Final = 100


def cum_sum(cols: Texts) -> UpdateByOperation:
    """The sum so far; null before the first value.

    The sum of integers, characters and booleans is a 64-bit integer, which wraps around; of other types a double. Null
    adds nothing. NaN makes all following sums NaN.
    """
    return UpdateByOperation("cum_sum", _columns(cols))


def cum_prod(cols: Texts) -> UpdateByOperation:
    """The product so far, typed as :func:`cum_sum`, of numbers. Null is left out."""
    return UpdateByOperation("cum_prod", _columns(cols))


def cum_min(cols: Texts) -> UpdateByOperation:
    """The smallest value so far, in the type of the column. Null is left out."""
    return UpdateByOperation("cum_min", _columns(cols))


def cum_max(cols: Texts) -> UpdateByOperation:
    """The largest value so far, in the type of the column. Null is left out."""
    return UpdateByOperation("cum_max", _columns(cols))


def cum_count_where(col: str, filters: Filters) -> UpdateByOperation:
    """The number of rows so far that meet all conditions.

    It is the column ``col``, a 64-bit integer.
    """
    return UpdateByOperation("cum_count_where", (text(col, "col"),), filters=conditions(filters, "filters"))


def forward_fill(cols: Texts) -> UpdateByOperation:
    """The last value so far that is not null, of the type of the column.

    It is null before the first value.
    """
    return UpdateByOperation("forward_fill", _columns(cols))


def delta(cols: Texts, delta_control: DeltaControl = DeltaControl.NULL_DOMINATES) -> UpdateByOperation:
    """The difference from the row before, in the type of the column.

    Instants give nanoseconds. The difference of a null is null.

    Args:
        cols: the columns.
        delta_control: the result if there is no row before, or null in it: null, the value itself, or zero.

    """
    return UpdateByOperation("delta", _columns(cols), delta=_member(delta_control, DeltaControl, "delta_control"))


def ema_tick(decay_ticks: float, cols: Texts, op_control: OperationControl | None = None) -> UpdateByOperation:
    """The moving average, a double.

    It is ``a * previous + (1 - a) * value`` with ``a = exp(-1 / decay_ticks)``, and the first value at first. See
    :class:`~barrage_server.OperationControl` for null and NaN.

    Args:
        decay_ticks: rows after which the weight of a value has fallen to 1/e; above 0.
        cols: columns of numbers.
        op_control: the reaction to null and NaN; default: leave them out.

    """
    return _by_ticks("ema", decay_ticks, cols, op_control)


def ema_time(
    ts_col: str, decay_time: Duration, cols: Texts, op_control: OperationControl | None = None
) -> UpdateByOperation:
    """The moving average as of :func:`ema_tick`, decaying with time.

    The weight of the previous average is ``a = exp(-dt / decay_time)``.

    Args:
        ts_col: the instants; ``dt`` is the time since the last row that counted. A row without an instant is left out.
        decay_time: nanoseconds, a text such as ``"PT1M"``, or a timedelta, above 0: a weight falls to 1/e in that time.
        cols: columns of numbers.
        op_control: the reaction to null and NaN; default: leave them out.

    """
    return _by_time("ema", ts_col, decay_time, cols, op_control)


def ems_tick(decay_ticks: float, cols: Texts, op_control: OperationControl | None = None) -> UpdateByOperation:
    """The decaying sum, a double: ``a * previous + value``.

    Arguments are those of :func:`ema_tick`.
    """
    return _by_ticks("ems", decay_ticks, cols, op_control)


def ems_time(
    ts_col: str, decay_time: Duration, cols: Texts, op_control: OperationControl | None = None
) -> UpdateByOperation:
    """The decaying sum, a double: ``a * previous + value``.

    Arguments are those of :func:`ema_time`.
    """
    return _by_time("ems", ts_col, decay_time, cols, op_control)


def emmin_tick(decay_ticks: float, cols: Texts, op_control: OperationControl | None = None) -> UpdateByOperation:
    """The decaying minimum, a double: ``min(a * previous, value)``.

    Arguments are those of :func:`ema_tick`.
    """
    return _by_ticks("emmin", decay_ticks, cols, op_control)


def emmin_time(
    ts_col: str, decay_time: Duration, cols: Texts, op_control: OperationControl | None = None
) -> UpdateByOperation:
    """The decaying minimum, a double: ``min(a * previous, value)``.

    Arguments are those of :func:`ema_time`.
    """
    return _by_time("emmin", ts_col, decay_time, cols, op_control)


def emmax_tick(decay_ticks: float, cols: Texts, op_control: OperationControl | None = None) -> UpdateByOperation:
    """The decaying maximum, a double: ``max(a * previous, value)``.

    Arguments are those of :func:`ema_tick`.
    """
    return _by_ticks("emmax", decay_ticks, cols, op_control)


def emmax_time(
    ts_col: str, decay_time: Duration, cols: Texts, op_control: OperationControl | None = None
) -> UpdateByOperation:
    """The decaying maximum, a double: ``max(a * previous, value)``.

    Arguments are those of :func:`ema_time`.
    """
    return _by_time("emmax", ts_col, decay_time, cols, op_control)


def emstd_tick(decay_ticks: float, cols: Texts, op_control: OperationControl | None = None) -> UpdateByOperation:
    """The moving standard deviation, a double.

    It is the root of ``a * (previous + (1 - a) * (value - average) ** 2)``, where the average is the one of
    :func:`ema_tick` before the row. It is NaN up to the first value. The arguments are those of :func:`ema_tick`.
    """
    return _by_ticks("emstd", decay_ticks, cols, op_control)


def emstd_time(
    ts_col: str, decay_time: Duration, cols: Texts, op_control: OperationControl | None = None
) -> UpdateByOperation:
    """The moving standard deviation as of :func:`emstd_tick`, decaying with time.

    The arguments are those of :func:`ema_time`.
    """
    return _by_time("emstd", ts_col, decay_time, cols, op_control)


def rolling_sum_tick(cols: Texts, rev_ticks: int, fwd_ticks: int = 0) -> UpdateByOperation:
    """The sum of a window of rows, typed as :func:`cum_sum`; null if all are null."""
    return _ticks("rolling_sum", cols, rev_ticks, fwd_ticks)


def rolling_sum_time(ts_col: str, cols: Texts, rev_time: Duration, fwd_time: Duration = 0) -> UpdateByOperation:
    """The sum of a window of time, typed as :func:`cum_sum`; null if all are null."""
    return _time("rolling_sum", ts_col, cols, rev_time, fwd_time)


def rolling_group_tick(cols: Texts, rev_ticks: int, fwd_ticks: int = 0) -> UpdateByOperation:
    """The values of a window of rows as a list, with nulls; empty without rows."""
    return _ticks("rolling_group", cols, rev_ticks, fwd_ticks)


def rolling_group_time(ts_col: str, cols: Texts, rev_time: Duration, fwd_time: Duration = 0) -> UpdateByOperation:
    """The values of a window of time as a list, with nulls; empty without rows."""
    return _time("rolling_group", ts_col, cols, rev_time, fwd_time)


def rolling_avg_tick(cols: Texts, rev_ticks: int, fwd_ticks: int = 0) -> UpdateByOperation:
    """The mean of a window of rows, a double; null if all values are null."""
    return _ticks("rolling_avg", cols, rev_ticks, fwd_ticks)


def rolling_avg_time(ts_col: str, cols: Texts, rev_time: Duration, fwd_time: Duration = 0) -> UpdateByOperation:
    """The mean of a window of time, a double; null if all values are null."""
    return _time("rolling_avg", ts_col, cols, rev_time, fwd_time)


def rolling_min_tick(cols: Texts, rev_ticks: int, fwd_ticks: int = 0) -> UpdateByOperation:
    """The smallest value of a window of rows; null if all values are null."""
    return _ticks("rolling_min", cols, rev_ticks, fwd_ticks)


def rolling_min_time(ts_col: str, cols: Texts, rev_time: Duration, fwd_time: Duration = 0) -> UpdateByOperation:
    """The smallest value of a window of time; null if all values are null."""
    return _time("rolling_min", ts_col, cols, rev_time, fwd_time)


def rolling_max_tick(cols: Texts, rev_ticks: int, fwd_ticks: int = 0) -> UpdateByOperation:
    """The largest value of a window of rows; null if all values are null."""
    return _ticks("rolling_max", cols, rev_ticks, fwd_ticks)


def rolling_max_time(ts_col: str, cols: Texts, rev_time: Duration, fwd_time: Duration = 0) -> UpdateByOperation:
    """The largest value of a window of time; null if all values are null."""
    return _time("rolling_max", ts_col, cols, rev_time, fwd_time)


def rolling_prod_tick(cols: Texts, rev_ticks: int, fwd_ticks: int = 0) -> UpdateByOperation:
    """The product of a window of rows, a double; null if all values are null."""
    return _ticks("rolling_prod", cols, rev_ticks, fwd_ticks)


def rolling_prod_time(ts_col: str, cols: Texts, rev_time: Duration, fwd_time: Duration = 0) -> UpdateByOperation:
    """The product of a window of time, a double; null if all values are null."""
    return _time("rolling_prod", ts_col, cols, rev_time, fwd_time)


def rolling_count_tick(cols: Texts, rev_ticks: int, fwd_ticks: int = 0) -> UpdateByOperation:
    """The number of non-null values of a window of rows, a 64-bit integer."""
    return _ticks("rolling_count", cols, rev_ticks, fwd_ticks)


def rolling_count_time(ts_col: str, cols: Texts, rev_time: Duration, fwd_time: Duration = 0) -> UpdateByOperation:
    """The number of non-null values of a window of time, a 64-bit integer."""
    return _time("rolling_count", ts_col, cols, rev_time, fwd_time)


def rolling_std_tick(cols: Texts, rev_ticks: int, fwd_ticks: int = 0) -> UpdateByOperation:
    """The sample standard deviation of a window of rows, a double.

    It is NaN for one value, and null for none.
    """
    return _ticks("rolling_std", cols, rev_ticks, fwd_ticks)


def rolling_std_time(ts_col: str, cols: Texts, rev_time: Duration, fwd_time: Duration = 0) -> UpdateByOperation:
    """The sample standard deviation of a window of time, as over a window of rows."""
    return _time("rolling_std", ts_col, cols, rev_time, fwd_time)


def rolling_wavg_tick(wcol: str, cols: Texts, rev_ticks: int, fwd_ticks: int = 0) -> UpdateByOperation:
    """The mean of a window of rows with the weights in ``wcol``, a double.

    Rows without a value or a weight are left out. The mean is NaN or infinite where the weights add up to zero, and
    null without rows.
    """
    return replace(_ticks("rolling_wavg", cols, rev_ticks, fwd_ticks), weight=text(wcol, "wcol"))


def rolling_wavg_time(
    ts_col: str, wcol: str, cols: Texts, rev_time: Duration, fwd_time: Duration = 0
) -> UpdateByOperation:
    """The mean of a window of time with weights; see :func:`rolling_wavg_tick`."""
    return replace(_time("rolling_wavg", ts_col, cols, rev_time, fwd_time), weight=text(wcol, "wcol"))


def rolling_formula_tick(
    formula: str | Expression,
    formula_param: str | None = None,
    cols: Texts = (),
    rev_ticks: int = 0,
    fwd_ticks: int = 0,
) -> UpdateByOperation:
    """The result of a formula over the lists of values of a window of rows.

    The language is that of ``docs/queries.md``.

    >>> bs.updateby.rolling_formula_tick("max(each) - min(each)", "each", ["spread = price"], 10)
    >>> bs.updateby.rolling_formula_tick("turnover = sum(price * size)", rev_ticks=10)

    Args:
        formula: the formula alone; without a ``formula_param`` ``"out = f(a, b)"``, which names result and columns.
        formula_param: the name in the formula that stands for each of ``cols``.
        cols: the columns, if there is a ``formula_param``.
        rev_ticks: rows of the window up to the row itself.
        fwd_ticks: rows of the window behind it.

    """
    return _formula(_ticks("rolling_formula", cols, rev_ticks, fwd_ticks), formula, formula_param)


def rolling_formula_time(
    ts_col: str,
    formula: str | Expression,
    formula_param: str | None = None,
    cols: Texts = (),
    rev_time: Duration = 0,
    fwd_time: Duration = 0,
) -> UpdateByOperation:
    """The result of a formula over a window of time.

    The arguments are those of :func:`rolling_formula_tick`.
    """
    return _formula(_time("rolling_formula", ts_col, cols, rev_time, fwd_time), formula, formula_param)


def rolling_count_where_tick(col: str, filters: Filters, rev_ticks: int, fwd_ticks: int = 0) -> UpdateByOperation:
    """The number of rows of a window of rows that meet all conditions.

    It is the 64-bit column ``col``.
    """
    counted = _ticks("rolling_count_where", text(col, "col"), rev_ticks, fwd_ticks)
    return replace(counted, filters=conditions(filters, "filters"))


def rolling_count_where_time(
    ts_col: str, col: str, filters: Filters, rev_time: Duration, fwd_time: Duration = 0
) -> UpdateByOperation:
    """The number of rows of a window of time that meet all conditions.

    It is the 64-bit column ``col``.
    """
    counted = _time("rolling_count_where", ts_col, text(col, "col"), rev_time, fwd_time)
    return replace(counted, filters=conditions(filters, "filters"))


if not TYPE_CHECKING:  # type checkers know the names

    def __getattr__(name: str) -> Any:
        """Tell the nearest name of a function that is not there."""
        close = difflib.get_close_matches(name, __all__, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise AttributeError(f"There is no function {name!r} for update_by.{hint}")


def _columns(cols: Texts) -> tuple[str, ...]:
    found = column_texts(cols)
    listed = isinstance(found, Sequence) and not isinstance(found, str | bytes)
    return () if found is None or (listed and not found) else names(found, "cols", single=True)


def _by_ticks(function: str, decay: float, cols: Texts, op_control: OperationControl | None) -> UpdateByOperation:
    found = number(decay, "decay_ticks")
    if found <= 0:
        raise InvalidRequestError(f"decay_ticks must be a number of rows above 0, not {shown(decay)}.")
    return UpdateByOperation(function, _columns(cols), decay=found, control=_control(op_control))


def _by_time(
    function: str, ts_col: str, decay: Duration, cols: Texts, op_control: OperationControl | None
) -> UpdateByOperation:
    time_column, found = text(ts_col, "ts_col"), _nanoseconds(decay, "decay_time", least=1)
    return UpdateByOperation(
        function, _columns(cols), time_column=time_column, decay=found, control=_control(op_control)
    )


def _control(op_control: OperationControl | None) -> OperationControl:
    if op_control is None:
        return OperationControl()
    if not isinstance(op_control, OperationControl):
        raise InvalidRequestError(f"op_control must be an OperationControl, not {shown(op_control)}.")
    return OperationControl(
        _member(op_control.on_null, BadDataBehavior, "on_null"), _member(op_control.on_nan, BadDataBehavior, "on_nan")
    )


def _member(value: Any, kind: type[_Member], what: str) -> _Member:
    found = choice(value, kind, what)
    if found is None:
        raise InvalidRequestError(f"{what} is one of {', '.join(kind)}, not None.")
    return found


def _ticks(function: str, cols: Texts, rev: int, fwd: int) -> UpdateByOperation:
    before = integer(rev, "rev_ticks", least=-_MOST_TICKS, most=_MOST_TICKS)
    after = integer(fwd, "fwd_ticks", least=-_MOST_TICKS, most=_MOST_TICKS)
    if before + after < 1:
        raise InvalidRequestError(
            f"The window has no rows: rev_ticks and fwd_ticks must add up to at least 1, not to {before + after}."
        )
    return UpdateByOperation(function, _columns(cols), before=before, after=after)


def _time(function: str, ts_col: str, cols: Texts, rev: Duration, fwd: Duration) -> UpdateByOperation:
    time_column = text(ts_col, "ts_col")
    before = _nanoseconds(rev, "rev_time", least=-_MOST_TIME)
    after = _nanoseconds(fwd, "fwd_time", least=-_MOST_TIME)
    if before + after < 0:
        raise InvalidRequestError(
            f"The window ends before it begins: rev_time and fwd_time must add up to at least 0 nanoseconds, not to "
            f"{before + after}."
        )
    return UpdateByOperation(function, _columns(cols), time_column=time_column, before=before, after=after)


def _nanoseconds(value: Duration, what: str, least: int) -> int:
    """Nanoseconds of a number, a duration or the text of one, checked."""
    value = duration_nanoseconds(value)
    if not isinstance(value, str):
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise InvalidRequestError(f"{what} must be nanoseconds or a text such as 'PT1M', not {shown(value)}.")
        return integer(value, what, least=least, most=_MOST_TIME, unit="ns")
    from barrage_server.formula.literals import parse_duration  # a room with many modules, for texts alone

    try:
        found = parse_duration(value.strip()) if len(value) <= _LONGEST_TEXT else None
    except ValueError:
        found = _MOST_TIME + 1
    if found is None:
        raise InvalidRequestError(f"{what} must be nanoseconds or a text such as 'PT1M', not {shown(value)}.")
    return integer(found, what, least=least, most=_MOST_TIME, unit="ns")


def _formula(window: UpdateByOperation, formula: str | Expression, formula_param: str | None) -> UpdateByOperation:
    parameter = None if formula_param is None else text(formula_param, "formula_param")
    if parameter is None and window.columns:
        raise InvalidRequestError("cols must be left out without a formula_param: the formula names its columns.")
    return replace(window, formula=formula_text(formula, "formula"), parameter=parameter)

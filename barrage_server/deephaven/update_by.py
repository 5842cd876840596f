"""Functions of ``update_by`` as messages of Deephaven, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from barrage_proto import table_pb2 as proto

from barrage_server.arguments import shown
from barrage_server.deephaven.aggregations import filter_texts
from barrage_server.errors import InvalidRequestError, UnsupportedOperationError
from barrage_server.plan import updateby
from barrage_server.plan.update_by import (
    CUMULATIVE,
    MOVING,
    ROLLING,
    BadDataBehavior,
    DeltaControl,
    OperationControl,
    UpdateByOperation,
)

__all__ = ["update_by_message", "update_by_of"]

_Make = Callable[..., UpdateByOperation]

_CUMULATIVE: Final[dict[str, _Make]] = {
    "sum": updateby.cum_sum,
    "min": updateby.cum_min,
    "max": updateby.cum_max,
    "product": updateby.cum_prod,
    "fill": updateby.forward_fill,
}
_MOVING: Final[dict[str, tuple[_Make, _Make]]] = {
    "ema": (updateby.ema_tick, updateby.ema_time),
    "ems": (updateby.ems_tick, updateby.ems_time),
    "em_min": (updateby.emmin_tick, updateby.emmin_time),
    "em_max": (updateby.emmax_tick, updateby.emmax_time),
    "em_std": (updateby.emstd_tick, updateby.emstd_time),
}
_ROLLING: Final[dict[str, tuple[_Make, _Make]]] = {
    "rolling_sum": (updateby.rolling_sum_tick, updateby.rolling_sum_time),
    "rolling_group": (updateby.rolling_group_tick, updateby.rolling_group_time),
    "rolling_avg": (updateby.rolling_avg_tick, updateby.rolling_avg_time),
    "rolling_min": (updateby.rolling_min_tick, updateby.rolling_min_time),
    "rolling_max": (updateby.rolling_max_tick, updateby.rolling_max_time),
    "rolling_product": (updateby.rolling_prod_tick, updateby.rolling_prod_time),
    "rolling_count": (updateby.rolling_count_tick, updateby.rolling_count_time),
    "rolling_std": (updateby.rolling_std_tick, updateby.rolling_std_time),
    "rolling_wavg": (updateby.rolling_wavg_tick, updateby.rolling_wavg_time),
    "rolling_formula": (updateby.rolling_formula_tick, updateby.rolling_formula_time),
    "rolling_count_where": (updateby.rolling_count_where_tick, updateby.rolling_count_where_time),
}
_BAD: Final = {
    proto.BAD_DATA_BEHAVIOR_NOT_SPECIFIED: BadDataBehavior.SKIP,
    proto.SKIP: BadDataBehavior.SKIP,
    proto.RESET: BadDataBehavior.RESET,
    proto.POISON: BadDataBehavior.POISON,
    proto.THROW: BadDataBehavior.THROW,
}
_DELTAS: Final = {
    proto.NULL_BEHAVIOR_NOT_SPECIFIED: DeltaControl.NULL_DOMINATES,
    proto.NULL_DOMINATES: DeltaControl.NULL_DOMINATES,
    proto.VALUE_DOMINATES: DeltaControl.VALUE_DOMINATES,
    proto.ZERO_DOMINATES: DeltaControl.ZERO_DOMINATES,
}
_TIMES: Final = {"on_null_time": proto.SKIP, "on_negative_delta_time": proto.THROW, "on_zero_delta_time": proto.SKIP}
"""The only behaviour here at times that are missing, descend, or are equal."""
_KINDS: Final = {
    "cum_sum": "sum",
    "cum_min": "min",
    "cum_max": "max",
    "cum_prod": "product",
    "cum_count_where": "count_where",
    "forward_fill": "fill",
    "emmin": "em_min",
    "emmax": "em_max",
    "emstd": "em_std",
    "rolling_prod": "rolling_product",
}
"""Functions whose messages have another name."""
_BAD_MESSAGES: Final = {behavior: number for number, behavior in _BAD.items()}
_DELTA_MESSAGES: Final = {control: number for number, control in _DELTAS.items()}


def update_by_of(message: proto.UpdateByRequest.UpdateByOperation) -> UpdateByOperation:
    """Read one function with its columns.

    Raises:
        InvalidRequestError: a part of the message is missing or makes no sense.
        UnsupportedOperationError: there is no such function here.
    """
    spec = message.column.spec
    kind = spec.WhichOneof("type")
    if kind is None:
        raise InvalidRequestError("An operation of update_by is empty, or of a kind that is not known here.")
    asked, columns = getattr(spec, kind), list(message.column.match_pairs)
    if kind in _CUMULATIVE:
        return _CUMULATIVE[kind](columns)
    if kind in _MOVING:
        return _moving(kind, asked, columns)
    match kind:
        case "delta":
            return updateby.delta(columns, _known(_DELTAS, asked.options.null_behavior, "null_behavior"))
        case "count_where":
            return updateby.cum_count_where(asked.result_column, list(asked.filters))
        case "rolling_wavg":
            return _rolling(kind, asked, asked.weight_column, columns)
        case "rolling_formula":
            return _rolling(kind, asked, asked.formula, asked.param_token or None, columns)
        case "rolling_count_where":
            return _rolling(kind, asked, asked.result_column, list(asked.filters))
    return _rolling(kind, asked, columns)


def update_by_message(operation: UpdateByOperation) -> proto.UpdateByRequest.UpdateByOperation:
    """Write the message of one function with its columns.

    Raises:
        InvalidRequestError: a part of the function is missing.
        UnsupportedOperationError: a Deephaven server has no message for it.
    """
    message = proto.UpdateByRequest.UpdateByOperation()
    function = operation.function
    if function not in (*CUMULATIVE, *MOVING, *ROLLING):
        raise UnsupportedOperationError(f"A Deephaven server has no function '{function}' for update_by.")
    kind = _KINDS.get(function, function)
    spec: Any = getattr(message.column.spec, kind)
    spec.SetInParent()
    counts = function.endswith("count_where")
    message.column.match_pairs.extend(() if counts else operation.columns)
    if counts:
        if len(operation.columns) != 1:
            raise InvalidRequestError(f"'{function}' names one column: that of its result.")
        spec.result_column = operation.columns[0]
        spec.filters.extend(filter_texts(operation.filters, function))
    if function in MOVING:
        spec.options.on_null_value = _BAD_MESSAGES[operation.control.on_null]
        spec.options.on_nan_value = _BAD_MESSAGES[operation.control.on_nan]
        _set_scale(spec.window_scale, operation.time_column, operation.decay)
    elif function in ROLLING:
        _set_scale(spec.reverse_window_scale, operation.time_column, operation.before)
        _set_scale(spec.forward_window_scale, operation.time_column, operation.after)
    if function == "delta":
        spec.options.null_behavior = _DELTA_MESSAGES[operation.delta]
    elif function == "rolling_wavg":
        spec.weight_column = operation.weight
    elif function == "rolling_formula":
        spec.formula, spec.param_token = operation.formula, operation.parameter or ""
    return message


def _set_scale(message: proto.UpdateByWindowScale, column: str | None, value: Any) -> None:
    if column is None:
        message.ticks.ticks = value
    else:
        message.time.column, message.time.nanos = column, int(value)


@dataclass(frozen=True, slots=True)
class _Scale:
    """The size of a window: a number of rows, or a time.

    Attributes:
        column: the column of instants; None for rows.
        value: rows; or nanoseconds, or a text.
    """

    column: str | None
    value: Any


def _moving(kind: str, asked: Any, columns: list[str]) -> UpdateByOperation:
    scale, options = _scale(asked.window_scale), asked.options
    for name, only in _TIMES.items():
        given = getattr(options, name)
        if given not in (proto.BAD_DATA_BEHAVIOR_NOT_SPECIFIED, only):
            raise UnsupportedOperationError(
                f"The only behaviour of {name} here is {proto.BadDataBehavior.Name(only)}: leave it out."
            )
    control = OperationControl(
        _known(_BAD, options.on_null_value, "on_null_value"), _known(_BAD, options.on_nan_value, "on_nan_value")
    )
    by_ticks, by_time = _MOVING[kind]
    if scale.column is None:
        return by_ticks(scale.value, columns, control)
    return by_time(scale.column, scale.value, columns, control)


def _rolling(kind: str, asked: Any, *others: Any) -> UpdateByOperation:
    back = _scale(asked.reverse_window_scale)
    on = _scale(asked.forward_window_scale) if asked.HasField("forward_window_scale") else _Scale(back.column, 0)
    if back.column != on.column:
        raise InvalidRequestError("A window is measured by rows, or by one column of instants, in both directions.")
    by_ticks, by_time = _ROLLING[kind]
    if back.column is None:
        return by_ticks(*others, _whole(back.value, "rev_ticks"), _whole(on.value, "fwd_ticks"))
    return by_time(back.column, *others, back.value, on.value)


def _scale(message: proto.UpdateByWindowScale) -> _Scale:
    match message.WhichOneof("type"):
        case "ticks":
            return _Scale(None, message.ticks.ticks)
        case "time":
            kind = message.time.WhichOneof("window")
            if kind is not None:
                return _Scale(message.time.column, getattr(message.time, kind))
    raise InvalidRequestError("A window of update_by says neither rows nor a time.")


def _whole(ticks: float, what: str) -> int:
    if not float(ticks).is_integer():
        raise InvalidRequestError(f"{what} must be a whole number of rows, not {shown(ticks)}.")
    return int(ticks)


def _known(members: dict[Any, Any], given: int, what: str) -> Any:
    if given not in members:
        raise InvalidRequestError(f"{what} has no behaviour of number {given}.")
    return members[given]

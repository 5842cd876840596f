"""``update_by`` row by row, in plain Python."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from barrage_server.plan.update_by import BadDataBehavior, DeltaControl, UpdateByOperation

Values = Sequence[Any]


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _running(step: Callable[[Any, Any], Any]) -> Callable[[Values], list[Any]]:
    def run(values: Values) -> list[Any]:
        found, state = [], None
        for value in values:
            if value is not None:
                state = value if state is None else step(state, value)
            found.append(state)
        return found

    return run


def _delta(values: Values, control: DeltaControl) -> list[Any]:
    found: list[Any] = []
    for place, value in enumerate(values):
        before = values[place - 1] if place else None
        if value is None:
            found.append(None)
        elif before is not None:
            found.append(value - before)
        else:
            chosen = {DeltaControl.NULL_DOMINATES: None, DeltaControl.VALUE_DOMINATES: value}
            found.append(chosen.get(control, value * 0 if not isinstance(value, float) else 0.0))
    return found


def _moving(operation: UpdateByOperation, values: Values, times: Values) -> list[Any]:
    control, decay = operation.control, operation.decay
    assert decay is not None
    found: list[Any] = []
    is_deviation = operation.function == "emstd"
    state: tuple[float, float, Any] | None = None
    result: Any = math.nan if is_deviation else None
    for value, time in zip(values, times, strict=True):
        behavior = control.on_null if value is None else control.on_nan if _is_nan(value) else None
        if behavior == BadDataBehavior.RESET:
            state, result = None, math.nan if is_deviation else None
        elif behavior == BadDataBehavior.SKIP or value is None:
            pass
        elif state is None:
            state = (float(value), 0.0, time)
            result = math.nan if is_deviation else float(value)
        else:
            before, variance, last = state
            factor = math.exp(-(1 if operation.time_column is None else time - last) / decay)
            average = factor * before + (1 - factor) * value
            variance = factor * (variance + (1 - factor) * (value - before) * (value - before))
            now = {
                "ema": average,
                "emstd": average,
                "ems": factor * before + value,
                "emmin": math.nan if _is_nan(before) or _is_nan(value) else min(factor * before, value),
                "emmax": math.nan if _is_nan(before) or _is_nan(value) else max(factor * before, value),
            }[operation.function]
            state = (now, variance, time)
            result = math.sqrt(variance) if is_deviation else now
        found.append(result)
    return found


def _std(values: Values) -> float:
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return math.nan
    return float(statistics.stdev(values))


def _rolled(operation: UpdateByOperation, window: Values, weights: Values) -> Any:
    name = operation.function.removeprefix("rolling_")
    if name == "group":
        return list(window)
    if name == "wavg":
        both = [(value, weight) for value, weight in zip(window, weights, strict=True) if None not in (value, weight)]
        total = sum(weight for _, weight in both)
        if not both:
            return None
        product = sum(value * weight for value, weight in both)
        if total == 0 or math.isnan(product) or math.isinf(total):
            return math.nan if product == 0 or math.isnan(product) or total != 0 else math.copysign(math.inf, product)
        return product / total
    some = [value for value in window if value is not None]
    if name == "count":
        return len(some)
    if not some:
        return None
    is_nan = any(map(_is_nan, some))
    chosen: dict[str, Callable[[], Any]] = {
        "sum": lambda: sum(some),
        "avg": lambda: sum(some) / len(some),
        "min": lambda: math.nan if is_nan else min(some),
        "max": lambda: math.nan if is_nan else max(some),
        "prod": lambda: math.prod(map(float, some)),
        "std": lambda: _std([*map(float, some)]),
        "formula": lambda: sum(some),
    }
    return chosen[name]()


def results(operation: UpdateByOperation, values: Values, times: Values, weights: Values, holds: Values) -> list[Any]:
    """The results for the rows of a group.

    Args:
        operation: the function.
        values: the column that it is of.
        times: the column of times.
        weights: the column of weights.
        holds: whether the conditions hold.

    """
    function = operation.function
    cumulative: dict[str, Callable[[Values], list[Any]]] = {
        "cum_sum": _running(lambda state, value: state + value),
        "cum_prod": _running(lambda state, value: state * value),
        "cum_min": _running(lambda state, value: value if value < state else state),
        "cum_max": _running(lambda state, value: value if value > state else state),
        "forward_fill": _running(lambda _, value: value),
    }
    if function in cumulative:
        return cumulative[function](values)
    if function == "delta":
        return _delta(values, operation.delta)
    if function == "cum_count_where":
        return [sum(holds[: place + 1]) for place in range(len(holds))]
    if function.startswith("em"):
        return _moving(operation, values, times)
    found = []
    for own in range(len(values)):
        if operation.time_column is None:
            first, end = own - operation.before + 1, own + operation.after
            places = [place for place in range(len(values)) if first <= place <= end]
        else:
            low, high = times[own] - operation.before, times[own] + operation.after
            places = [place for place, time in enumerate(times) if low <= time <= high]
        if function == "rolling_count_where":
            found.append(sum(holds[place] for place in places))
        else:
            found.append(_rolled(operation, [values[place] for place in places], [weights[place] for place in places]))
    return found

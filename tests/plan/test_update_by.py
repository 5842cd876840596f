"""The functions of ``bs.updateby``: each names one function with its window, and checks its arguments."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest

import barrage_server as bs
from barrage_server import BadDataBehavior, DeltaControl, OperationControl, UpdateByOperation
from barrage_server.plan import update_by_functions as ub
from barrage_server.plan.condition import Column, Compare, Comparison
from barrage_server.plan.update_by import CUMULATIVE, MOVING, ROLLING

LARGE = Compare(Comparison.GREATER, Column("b"), 1)
RESET = OperationControl(on_null=BadDataBehavior.RESET)
MINUTE = 60_000_000_000


def rolling(function: str, columns: tuple[str, ...] = ("a",), **others: Any) -> UpdateByOperation:
    return UpdateByOperation(function, columns, **{"before": 3, "after": -1, **others})


PLAIN = ["sum", "avg", "min", "max", "prod", "count", "std", "group"]
MADE: list[tuple[Callable[[], UpdateByOperation], UpdateByOperation]] = [
    (lambda: ub.cum_sum("a"), UpdateByOperation("cum_sum", ("a",))),
    (lambda: ub.cum_prod(["p = a", "b"]), UpdateByOperation("cum_prod", ("p = a", "b"))),
    (lambda: ub.cum_min([]), UpdateByOperation("cum_min")),
    (lambda: ub.cum_max(("a",)), UpdateByOperation("cum_max", ("a",))),
    (
        lambda: ub.cum_count_where("n", ["b > 1", LARGE]),
        UpdateByOperation("cum_count_where", ("n",), filters=("b > 1", LARGE)),
    ),
    (lambda: ub.forward_fill("a"), UpdateByOperation("forward_fill", ("a",))),
    (lambda: ub.delta("a"), UpdateByOperation("delta", ("a",))),
    (
        lambda: ub.delta("a", DeltaControl.ZERO_DOMINATES),
        UpdateByOperation("delta", ("a",), delta=DeltaControl.ZERO_DOMINATES),
    ),
    *(
        (
            lambda name=name: getattr(ub, f"{name}_tick")(2, "a", RESET),
            UpdateByOperation(name, ("a",), decay=2.0, control=RESET),
        )
        for name in MOVING
    ),
    *(
        (
            lambda name=name: getattr(ub, f"{name}_time")("t", "PT1M", "a"),
            UpdateByOperation(name, ("a",), time_column="t", decay=MINUTE),
        )
        for name in MOVING
    ),
    *(
        (lambda name=name: getattr(ub, f"rolling_{name}_tick")("a", 3, -1), rolling(f"rolling_{name}"))
        for name in PLAIN
    ),
    *(
        (
            lambda name=name: getattr(ub, f"rolling_{name}_time")("t", "a", "PT3s", "-PT00:00:01"),
            rolling(f"rolling_{name}", time_column="t", before=3_000_000_000, after=-1_000_000_000),
        )
        for name in PLAIN
    ),
    (lambda: ub.rolling_wavg_tick("w", "a", 3, -1), rolling("rolling_wavg", weight="w")),
    (lambda: ub.rolling_wavg_time("t", "w", "a", 3, -1), rolling("rolling_wavg", weight="w", time_column="t")),
    (
        lambda: ub.rolling_formula_tick("sum(e)", "e", "a", 3, -1),
        rolling("rolling_formula", formula="sum(e)", parameter="e"),
    ),
    (
        lambda: ub.rolling_formula_time("t", "x = sum(a)", rev_time=3, fwd_time=-1),
        rolling("rolling_formula", (), formula="x = sum(a)", time_column="t"),
    ),
    (
        lambda: ub.rolling_count_where_tick("n", "b > 1", 3, -1),
        rolling("rolling_count_where", ("n",), filters=("b > 1",)),
    ),
    (
        lambda: ub.rolling_count_where_time("t", "n", LARGE, 3, -1),
        rolling("rolling_count_where", ("n",), filters=(LARGE,), time_column="t"),
    ),
    (lambda: ub.rolling_sum_tick("a", np.int64(1)), rolling("rolling_sum", before=1, after=0)),  # type: ignore[arg-type]
    (lambda: ub.rolling_sum_time("t", "a", 0), rolling("rolling_sum", time_column="t", before=0, after=0)),
]


@pytest.mark.parametrize(("make", "expected"), MADE, ids=[f"{entry!r:.70}" for _, entry in MADE])
def test_a_function_makes_its_operation(make: Callable[[], UpdateByOperation], expected: UpdateByOperation) -> None:
    found = make()
    assert found == expected
    assert repr(found) == repr(expected)


def test_every_function_is_there_and_tested() -> None:
    wanted = {*CUMULATIVE, *(f"{name}_{unit}" for name in (*MOVING, *ROLLING) for unit in ("tick", "time"))}
    assert set(ub.__all__) == wanted
    assert {entry.function for _, entry in MADE} == {*CUMULATIVE, *MOVING, *ROLLING}


def test_controls_may_be_written_as_texts() -> None:
    control = OperationControl("reset", "poison")  # type: ignore[arg-type]
    assert ub.ema_tick(1, "a", control).control == OperationControl(BadDataBehavior.RESET, BadDataBehavior.POISON)
    assert ub.delta("a", "zero_dominates").delta is DeltaControl.ZERO_DOMINATES  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("PT1S", 1_000_000_000),
        (" PT0.001s ", 1_000_000),
        ("PT1H1M1S", 3_661_000_000_000),
        ("PT00:01:00", MINUTE),
        ("-PT00:01", -MINUTE),
        ("PT-00:01:00", -MINUTE),
        ("-PT-1:2:3.5", 3_723_500_000_000),
        ("P1D", 86_400_000_000_000),
    ],
)
def test_times_may_be_written_as_texts(text: str, nanoseconds: int) -> None:
    assert ub.rolling_sum_time("t", "a", "PT2H", text).after == nanoseconds


DURATIONS = [
    (timedelta(minutes=1, microseconds=-1), MINUTE - 1_000),
    (pd.Timedelta(MINUTE + 1, "ns"), MINUTE + 1),
    (pd.Timedelta("1min").as_unit("s"), MINUTE),
    (np.timedelta64(1, "m"), MINUTE),
    (np.timedelta64(5), 5),
]


@pytest.mark.parametrize(("given", "nanoseconds"), DURATIONS, ids=[repr(given) for given, _ in DURATIONS])
def test_durations_of_python_pandas_and_numpy_are_nanoseconds(given: Any, nanoseconds: int) -> None:
    assert ub.ema_time("t", given, "a") == ub.ema_time("t", nanoseconds, "a")
    window = ub.rolling_sum_time("t", "a", given, -given)
    assert window == ub.rolling_sum_time("t", "a", nanoseconds, -nanoseconds)
    assert type(window.before) is type(window.after) is int


WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: ub.cum_sum(5), "cols must be a list of names, not 5."),  # type: ignore[arg-type]
    (lambda: ub.cum_sum(""), "cols must not be empty."),
    (lambda: ub.cum_sum([3]), "cols must be a list of names"),  # type: ignore[list-item]
    (lambda: ub.cum_count_where("", "a > 1"), "col must not be empty."),
    (lambda: ub.cum_count_where("n", 5), "filters must be formulas or conditions, not 5."),  # type: ignore[arg-type]
    (lambda: ub.delta("a", "none"), "delta_control is one of null_dominates, value_dominates, zero_dominates"),  # type: ignore[arg-type]
    (lambda: ub.delta("a", None), "delta_control is one of"),  # type: ignore[arg-type]
    (lambda: ub.ema_tick(0, "a"), "decay_ticks must be a number of rows above 0, not 0."),
    (lambda: ub.ema_tick(-1.5, "a"), "decay_ticks must be a number of rows above 0, not -1.5."),
    (lambda: ub.ema_tick(math.nan, "a"), "decay_ticks must be a number, not nan."),
    (lambda: ub.ema_tick("2", "a"), "decay_ticks must be a number, not '2'."),  # type: ignore[arg-type]
    (lambda: ub.ema_tick(2, "a", "skip"), "op_control must be an OperationControl, not 'skip'."),  # type: ignore[arg-type]
    (lambda: ub.ema_tick(2, "a", OperationControl(5)), "on_null is one of skip, reset, poison, throw, not 5."),  # type: ignore[arg-type]
    (lambda: ub.ema_tick(2, "a", OperationControl(on_nan=None)), "on_nan is one of skip, reset"),  # type: ignore[arg-type]
    (lambda: ub.ema_time("", "PT1S", "a"), "ts_col must not be empty."),
    (lambda: ub.ema_time(None, "PT1S", "a"), "ts_col must be a string, not None."),  # type: ignore[arg-type]
    (lambda: ub.ema_time("t", 0, "a"), "decay_time must be at least 1 ns, not 0."),
    (lambda: ub.ema_time("t", "-PT1S", "a"), "decay_time must be at least 1 ns, not -1000000000."),
    (lambda: ub.ema_time("t", 1.5, "a"), "decay_time must be nanoseconds or a text such as 'PT1M', not 1.5."),  # type: ignore[arg-type]
    (lambda: ub.ema_time("t", "1m", "a"), "decay_time must be nanoseconds or a text such as 'PT1M', not '1m'."),
    (lambda: ub.ema_time("t", timedelta(0), "a"), "decay_time must be at least 1 ns, not 0."),
    (lambda: ub.ema_time("t", np.timedelta64("NaT"), "a"), "decay_time must be nanoseconds or a text"),
    (lambda: ub.ema_time("t", np.timedelta64(1, "M"), "a"), "decay_time must be nanoseconds or a text"),
    (lambda: ub.ema_time("t", np.timedelta64(1, "ps"), "a"), "decay_time must be nanoseconds or a text"),
    (lambda: ub.ema_time("t", timedelta.max, "a"), "decay_time must be at most 4611686018427387903"),
    (lambda: ub.ema_time("t", "PT999999999999H", "a"), "decay_time must be at most 4611686018427387903"),
    (lambda: ub.rolling_sum_tick("a", 1.0), "rev_ticks must be an integer, not 1.0."),  # type: ignore[arg-type]
    (lambda: ub.rolling_sum_tick("a", 1 << 31), "rev_ticks must be at most 2147483647, not 2147483648."),
    (lambda: ub.rolling_sum_tick("a", 1, -(1 << 31)), "fwd_ticks must be at least -2147483647"),
    (
        lambda: ub.rolling_sum_tick("a", 0),
        "The window has no rows: rev_ticks and fwd_ticks must add up to at least 1, not to 0.",
    ),
    (lambda: ub.rolling_sum_tick("a", -3, 1), "must add up to at least 1, not to -2."),
    (lambda: ub.rolling_sum_time("t", "a", "1s"), "rev_time must be nanoseconds or a text such as 'PT1M', not '1s'."),
    (lambda: ub.rolling_sum_time("t", "a", 1, 1 << 62), "fwd_time must be at most 4611686018427387903"),
    (lambda: ub.rolling_sum_time("t", "a", 1, -2), "rev_time and fwd_time must add up to at least 0 nanoseconds"),
    (lambda: ub.rolling_wavg_tick("", "a", 1), "wcol must not be empty."),
    (lambda: ub.rolling_formula_tick("", "e", "a", 1), "formula must not be empty."),
    (lambda: ub.rolling_formula_tick("sum(e)", "", "a", 1), "formula_param must not be empty."),
    (lambda: ub.rolling_formula_tick("x = sum(a)", cols="a", rev_ticks=1), "cols must be left out"),
]


@pytest.mark.parametrize(("call", "text"), WRONG, ids=[text for _, text in WRONG])
def test_wrong_arguments_are_told_by_their_names(call: Callable[[], object], text: str) -> None:
    with pytest.raises(bs.InvalidRequestError) as raised:
        call()
    assert text in str(raised.value)


@pytest.mark.parametrize("name", ub.__all__)
def test_what_is_no_argument_is_refused_in_words(name: str) -> None:
    """Whatever stands in one place: a value, or an error of the tree."""
    good = {
        "cols": "a",
        "col": "n",
        "ts_col": "t",
        "wcol": "w",
        "formula": "sum(e)",
        "formula_param": "e",
        "filters": "a > 1",
        "decay_ticks": 2,
        "decay_time": "PT1S",
        "rev_ticks": 3,
        "rev_time": "PT1S",
    }
    function = getattr(ub, name)
    parameters = inspect.signature(function).parameters
    required = {each: good[each] for each in parameters if each in good}
    assert isinstance(function(**required), UpdateByOperation)
    for parameter in parameters:
        for wrong in (None, 3, 3.5, math.nan, -1, 1 << 70, True, "", "x", b"x", [], [3], {}, object()):
            try:
                found = function(**{**required, parameter: wrong})
            except bs.InvalidRequestError as error:
                assert str(error).endswith(".")
            else:
                assert isinstance(found, UpdateByOperation), (parameter, wrong)


def test_a_function_by_another_name_is_told_its_own() -> None:
    with pytest.raises(AttributeError, match=r"no function 'cumsum' for update_by\. Did you mean 'cum_sum'\?"):
        getattr(ub, "cumsum")  # noqa: B009
    assert not hasattr(ub, "nonsense")
    assert bs.updateby is ub

"""Neighbours of a plan become one step where nothing else sees what is between them."""

from __future__ import annotations

import pytest

from barrage_server.plan.condition import Column, IsNull
from barrage_server.plan.fusing import filters_together
from barrage_server.plan.operation import Head, Merge, Where
from barrage_server.plan.plan import NamedTable, Plan, Result, Step

FIRST = Step(Where(("a > 0",)), (NamedTable("t"),))


def above(operation: Where | Head, step: int) -> Step:
    return Step(operation, (Result(step),))


def test_filters_of_filters_are_one_filter_with_all_conditions_in_order() -> None:
    plan = Plan(
        (FIRST, above(Where((IsNull(Column("b")),)), 0), above(Where(("c > 0", "d > 0")), 1), above(Head(3), 2)), (3,)
    )
    steps = filters_together(plan).steps
    assert steps[2] == Step(Where(("a > 0", IsNull(Column("b")), "c > 0", "d > 0")), (NamedTable("t"),))
    assert steps[3] == plan.steps[3]


def test_a_long_chain_takes_time_and_memory_for_its_conditions_once() -> None:
    condition = ("a > 0",) * 100
    steps = (FIRST, *(above(Where(condition), number) for number in range(2_000)))
    made = filters_together(Plan(steps, (2_000,)))
    assert sum(len(step.operation.conditions) for step in made.steps if isinstance(step.operation, Where)) < 2 * 200_001


def test_a_filter_that_is_an_output_stays() -> None:
    plan = Plan((FIRST, above(Where(("b > 0",)), 0)), (0, 1))
    assert filters_together(plan) is plan


def test_a_filter_that_several_steps_use_stays() -> None:
    both = Step(Merge(), (Result(1), Result(0)))
    plan = Plan((FIRST, above(Where(("b > 0",)), 0), both), (2,))
    assert filters_together(plan) is plan


def test_a_filter_that_one_step_uses_twice_stays() -> None:
    plan = Plan((FIRST, above(Where(("b > 0",)), 0), Step(Merge(), (Result(1), Result(1)))), (2,))
    assert filters_together(plan).steps[1] == Step(Where(("a > 0", "b > 0")), (NamedTable("t"),))
    twice = Plan((FIRST, Step(Merge(), (Result(0), Result(0)))), (1,))
    assert filters_together(twice) is twice


@pytest.mark.parametrize(
    "condition",
    ["i < 10", "ii % 2 == 0", "a_[ii - 1] > 0", "a_ [i] > 0", "b > ii", "(a_)[0] > 0", "( (a_ ) ) [1] > b"],
)
def test_conditions_on_positions_count_the_rows_of_the_filter_before(condition: str) -> None:
    plan = Plan((FIRST, above(Where((condition,)), 0)), (1,))
    assert filters_together(plan) is plan


def test_positions_in_the_first_filter_do_not_matter() -> None:
    plan = Plan((Step(Where(("i < 10",)), (NamedTable("t"),)), above(Where(("b > 0",)), 0)), (1,))
    assert filters_together(plan).steps[1] == Step(Where(("i < 10", "b > 0")), (NamedTable("t"),))


def test_other_neighbours_stay() -> None:
    plan = Plan((FIRST, above(Head(3), 0), above(Where(("b > 0",)), 1)), (2,))
    assert filters_together(plan) is plan

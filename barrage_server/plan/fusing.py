"""Filters of filters in a plan, which one table can compute."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from barrage_server.plan.condition import Condition
from barrage_server.plan.operation import Where
from barrage_server.plan.plan import Plan, Result, Step

__all__ = ["filters_together"]

_POSITIONS: Final = re.compile(r"\bii?\b|_[\s)]*\[")
"""What a formula has that reads positions of rows. A text that only looks like it has it too."""


def filters_together(plan: Plan) -> Plan:
    """The plan with filters of filters as one filter with the conditions of both; the same plan if it has none.

    The steps keep their numbers. One whose result nothing uses any more stays, and need not be computed. A filter whose
    result is asked for, or used by several steps, stays a table of its own; so does one before conditions on positions,
    which count its rows.
    """
    uses = Counter(source.step for step in plan.steps for source in step.inputs if isinstance(source, Result))
    uses.update(plan.outputs)
    steps = list(plan.steps)
    joined: set[int] = set()
    for number in range(len(steps) - 1, -1, -1):
        if number in joined:
            continue
        chain = [number]  # filters, the last one first
        while (above := _filter_above(plan, chain[-1])) is not None and uses[above] == 1:
            chain.append(above)
        if len(chain) > 1:
            joined.update(chain)
            conditions = tuple(one for each in reversed(chain) for one in _conditions(plan.steps[each]))
            steps[number] = Step(Where(conditions), plan.steps[chain[-1]].inputs)
    return Plan(tuple(steps), plan.outputs) if joined else plan


def _filter_above(plan: Plan, number: int) -> int | None:
    """The number of the filter that has the input of filter ``number`` as its result, if one filter can do both."""
    step = plan.steps[number]
    if not isinstance(step.operation, Where) or any(map(_reads_positions, step.operation.conditions)):
        return None
    (source,) = step.inputs
    if isinstance(source, Result) and isinstance(plan.steps[source.step].operation, Where):
        return source.step
    return None


def _conditions(step: Step) -> tuple[str | Condition, ...]:
    assert isinstance(step.operation, Where)
    return step.operation.conditions


def _reads_positions(condition: str | Condition) -> bool:
    return isinstance(condition, str) and _POSITIONS.search(condition) is not None

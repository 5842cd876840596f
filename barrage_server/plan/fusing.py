"""Fusion of consecutive filters of a plan into one."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from barrage_server.plan.condition import Condition
from barrage_server.plan.operation import Where
from barrage_server.plan.plan import Plan, Result, Step

__all__ = ["filters_together"]

_POSITIONS: Final = re.compile(r"\bii?\b|_[\s)]*\[")
"""Matches every formula that reads positions of rows, and some that do not, such as in a string."""


def filters_together(plan: Plan) -> Plan:
    """Fuse chains of filters into single filters with all conditions.

    The steps keep their numbers. A fused step whose result is no longer used stays in the plan, and need not be
    computed. A filter stays a table of its own if its result is an output or has several uses, or if the next filter
    has a condition on positions, since positions count its rows.

    Returns:
        The new plan, or ``plan`` itself without such chains.

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
    """The step of the filter that can be fused with filter ``number``, if any."""
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

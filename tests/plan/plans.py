"""Random plans: operations of every class, with values of every type that their fields have."""

from __future__ import annotations

import types
from enum import StrEnum
from typing import Any, Union, get_args, get_origin

from hypothesis import strategies as st

from barrage_server.plan.json_form import verbs
from barrage_server.plan.operation import Operation
from barrage_server.plan.plan import NamedTable, Plan, Result, Source, Step, TicketTable
from barrage_server.typed_json import fields_of

TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(st.characters(codec="utf-8"), max_size=8),
    bool: st.booleans(),
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
    types.NoneType: st.none(),
}


def values(kind: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    """Values of the type of a field; conditions are nested three levels deep at most."""
    if kind in SCALARS:
        return SCALARS[kind]
    if get_origin(kind) in (Union, types.UnionType):
        entries = [one for one in get_args(kind) if depth < 3 or not nests(one)]
        return st.one_of([values(one, depth) for one in entries])
    if get_origin(kind) is tuple:
        return st.lists(values(get_args(kind)[0], depth + 1), max_size=3).map(tuple)
    if issubclass(kind, StrEnum):
        return st.sampled_from(list(kind))
    return st.builds(kind, **{name: values(one, depth + 1) for name, (_, one) in fields_of(kind).items()})


def nests(kind: Any) -> bool:
    """Whether a class has fields that hold its like."""
    return isinstance(kind, type) and kind.__name__ in ("Not", "All", "AnyOf")


def operations() -> st.SearchStrategy[Operation]:
    """Operations of every class."""
    return st.one_of([values(kind) for kind in verbs().values()])


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Plans of up to six steps."""
    steps: list[Step] = []
    for number in range(draw(st.integers(1, 6))):
        operation = draw(operations())
        sources: list[st.SearchStrategy[Source]] = [TEXTS.map(NamedTable), TEXTS.map(TicketTable)]
        if number:
            sources.append(st.integers(0, number - 1).map(Result))
        most = operation.most_inputs if operation.most_inputs is not None else 4
        inputs = st.lists(st.one_of(sources), min_size=operation.least_inputs, max_size=most)
        steps.append(Step(operation, tuple(draw(inputs))))
    outputs = draw(st.lists(st.integers(0, len(steps) - 1), min_size=1, unique=True))
    return Plan(tuple(steps), tuple(outputs))

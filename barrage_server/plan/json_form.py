"""Plans as JSON, which ``docs/protocol.md`` describes.

The fields of operations, conditions and aggregations are those of their dataclasses: this module names none of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NoReturn

from barrage_server.arguments import shown
from barrage_server.errors import InvalidRequestError, LimitError
from barrage_server.fixed_limits import JSON_DEPTH, PLAN_BYTES, PLAN_INPUTS, PLAN_OPERATIONS, PLAN_VALUES, FixedLimit
from barrage_server.plan import copies, downsample, joins
from barrage_server.plan import operation as operations
from barrage_server.plan.operation import Operation
from barrage_server.plan.plan import NamedTable, Plan, Result, Source, Step, TicketTable
from barrage_server.typed_json import TypedJson, nearest

__all__ = ["plan_from_json", "plan_to_json", "verbs"]

_JSON: Final = TypedJson()
_MOST_DIGITS: Final = 20
_INPUTS: Final = "inputs"
_VERB: Final = "verb"
_TABLE: Final = "table"
_TICKET: Final = "ticket"
_OPERATIONS: Final = "operations"
_OUTPUTS: Final = "outputs"


@cache
def verbs() -> Mapping[str, type[Operation]]:
    """The classes of all operations by their verbs."""
    named = [one for module in (operations, joins, copies, downsample) for one in vars(module).values()]
    found = [one for one in named if isinstance(one, type) and issubclass(one, Operation)]
    return {one.verb: one for one in found if hasattr(one, "verb")}


def plan_to_json(plan: Plan) -> bytes:
    """The UTF-8 JSON of a plan.

    Raises:
        InvalidRequestError: an operation has a value that is not of the type of its field; the text names the place.
        LimitError: there are more operations or bytes than a plan may have.

    """
    _check(PLAN_OPERATIONS, "operations", len(plan.steps))
    listed = []
    for number, step in enumerate(plan.steps):
        place = f"{_OPERATIONS}[{number}]"
        inputs = [_written_source(source, f"{place}.{_INPUTS}[{one}]") for one, source in enumerate(step.inputs)]
        listed.append({_VERB: step.operation.verb, _INPUTS: inputs, **_JSON.written_fields(step.operation, place)})
    data = json.dumps({_OPERATIONS: listed, _OUTPUTS: list(plan.outputs)}, separators=(",", ":"), allow_nan=False)
    _check(PLAN_BYTES, "bytes of JSON", len(data))
    return data.encode()


def plan_from_json(data: bytes, most_bytes: int = PLAN_BYTES.most) -> Plan:
    """Parse the JSON of a plan, of at most ``most_bytes`` and ``plan_bytes``.

    Raises:
        InvalidRequestError: it is no plan; the text names the place, as ``operations[3].columns[1]``.
        LimitError: it is too large, or nested too deep.

    """
    _check(PLAN_BYTES, "bytes of JSON", len(data))
    if len(data) > most_bytes:
        raise LimitError(f"A plan may have {most_bytes:,} bytes (request_bytes), and this one has {len(data):,}.")
    value = _parsed(data)
    if not isinstance(value, dict):
        raise InvalidRequestError(f"A plan is a JSON object with '{_OPERATIONS}', not {shown(value)}.")
    for name in value:
        if name not in (_OPERATIONS, _OUTPUTS):
            raise InvalidRequestError(f"The plan has an unknown field {shown(name)}. It has operations and outputs.")
    listed = value.get(_OPERATIONS)
    if not isinstance(listed, list) or not listed:
        raise InvalidRequestError(f"{_OPERATIONS} must be a list with at least one operation, not {shown(listed)}.")
    _check(PLAN_OPERATIONS, "operations", len(listed))
    steps = tuple(_step(entry, f"{_OPERATIONS}[{number}]") for number, entry in enumerate(listed))
    _check(PLAN_INPUTS, "inputs", sum(len(step.inputs) for step in steps))
    return Plan(steps, _outputs(value, len(steps)))


def _parsed(data: bytes) -> Any:
    """Parse JSON text. Raises what :func:`plan_from_json` does."""
    values = 0

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal values
        found = dict(pairs)
        if len(found) < len(pairs):
            raise InvalidRequestError(f"The plan has an object with a field twice: it has {_twice(pairs)}.")
        values += 1 + sum(len(one) if isinstance(one, list) else 1 for one in found.values())
        if values > PLAN_VALUES.most:
            raise LimitError(
                f"A plan may have {PLAN_VALUES.most:,} values ({PLAN_VALUES.name}), and this one has more."
            )
        return found

    try:
        text = data.decode()
        return json.loads(text, object_pairs_hook=distinct, parse_int=_integer, parse_constant=_refuse_constant)
    except RecursionError:
        raise LimitError(
            f"The plan is nested too deep: {JSON_DEPTH.most} levels of lists and objects are the most "
            f"({JSON_DEPTH.name})."
        ) from None
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"The plan is not UTF-8 text: byte {error.start} is wrong.") from None
    except json.JSONDecodeError as error:
        raise InvalidRequestError(f"The plan is not JSON: {error.msg} at character {error.pos}.") from None


def _twice(pairs: list[tuple[str, Any]]) -> str:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            return shown(name)
        seen.add(name)
    return ""


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise InvalidRequestError(f"The plan has a number of {len(digits)} digits; numbers have 64 bits.")
    return int(digits)


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidRequestError(f"The plan has the number {name}, which is not JSON; numbers are finite.")


def _step(value: Any, place: str) -> Step:
    if not isinstance(value, dict):
        raise InvalidRequestError(f"{place} must be an object with '{_VERB}', not {shown(value)}.")
    verb = value.get(_VERB)
    known = verbs()
    if not isinstance(verb, str) or verb not in known:
        told = f"is {shown(verb)}. {nearest(str(verb), known)}" if _VERB in value else "is missing."
        raise InvalidRequestError(f"{place}.{_VERB} {told}")
    inputs = value.get(_INPUTS, [])
    if not isinstance(inputs, list):
        raise InvalidRequestError(f"{place}.{_INPUTS} must be a list, not {shown(inputs)}.")
    sources = tuple(_source(one, f"{place}.{_INPUTS}[{number}]") for number, one in enumerate(inputs))
    return Step(_JSON.object_of(known[verb], value, place, others=(_VERB, _INPUTS)), sources)


def _source(value: Any, place: str) -> Source:
    if isinstance(value, int) and not isinstance(value, bool):
        return Result(value)
    if isinstance(value, dict) and len(value) == 1:
        ((kind, named),) = value.items()
        if kind in (_TABLE, _TICKET) and isinstance(named, str) and named:
            _JSON.checked_text(named, f"{place}.{kind}")
            return NamedTable(named) if kind == _TABLE else TicketTable(named)
    raise InvalidRequestError(
        f'{place} must be the index of an operation, {{"{_TABLE}": name}} or {{"{_TICKET}": text}}, not {shown(value)}.'
    )


def _written_source(source: Source, place: str) -> Any:
    match source:
        case Result(step):
            return step
        case NamedTable(name):
            return {_TABLE: _JSON.checked_text(name, place)}
        case TicketTable(ticket):
            return {_TICKET: _JSON.checked_text(ticket, place)}


def _outputs(value: Mapping[str, Any], steps: int) -> tuple[int, ...]:
    """The outputs that a plan names, or the last operation."""
    if _OUTPUTS not in value:
        return (steps - 1,)
    outputs = value[_OUTPUTS]
    if not isinstance(outputs, list) or not all(isinstance(one, int) and not isinstance(one, bool) for one in outputs):
        raise InvalidRequestError(f"{_OUTPUTS} must be a list of indices of operations, not {shown(outputs)}.")
    return tuple(outputs)


def _check(limit: FixedLimit, what: str, found: int) -> None:
    if found > limit.most:
        raise LimitError(f"A plan may have {limit.most:,} {what} ({limit.name}), and this one has {found:,}.")

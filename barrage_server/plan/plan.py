"""Plans: operations whose inputs are results of each other, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from barrage_server.errors import InvalidRequestError
from barrage_server.plan.operation import Operation

__all__ = ["NamedTable", "Plan", "Result", "Source", "Step", "TicketTable"]


@dataclass(frozen=True, slots=True)
class Result:
    """The result of an earlier step of the same plan; ``step`` is its index."""

    step: int


@dataclass(frozen=True, slots=True)
class NamedTable:
    """The table of that name on the server."""

    name: str


@dataclass(frozen=True, slots=True)
class TicketTable:
    """The result of an earlier plan, by the ticket that its caller was given."""

    ticket: str


Source: TypeAlias = Result | NamedTable | TicketTable


@dataclass(frozen=True, slots=True)
class Step:
    """One operation and the tables that are its inputs, in order."""

    operation: Operation
    inputs: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Operations on tables of the server and on results of earlier operations.

    Attributes:
        steps: the operations.
        outputs: the indices of the steps whose results are asked for.

    Raises:
        InvalidRequestError: a step has too many or too few inputs, or the result of itself or of a later one for an
            input; there is no output, or one names no step, or two the same.

    """

    steps: tuple[Step, ...]
    outputs: tuple[int, ...]

    def __post_init__(self) -> None:
        for number, step in enumerate(self.steps):
            _check_inputs(step, number, f"operations[{number}].inputs")
        if not self.outputs:
            raise InvalidRequestError("outputs must name at least one operation.")
        for output in self.outputs:
            if not 0 <= output < len(self.steps):
                raise InvalidRequestError(
                    f"outputs must be indices of the {len(self.steps)} operations, counted from 0, not {output}."
                )
        if len(set(self.outputs)) < len(self.outputs):
            raise InvalidRequestError("outputs must not name an operation twice.")

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the server's tables that are inputs, each once."""
        named = [one.name for step in self.steps for one in step.inputs if isinstance(one, NamedTable)]
        return tuple(dict.fromkeys(named))


def _check_inputs(step: Step, number: int, place: str) -> None:
    least, most = step.operation.least_inputs, step.operation.most_inputs
    if not least <= len(step.inputs) or (most is not None and len(step.inputs) > most):
        wanted = f"at least {least}" if most is None else f"{least}"
        raise InvalidRequestError(f"{place} has {_tables(len(step.inputs))}, and {step.operation.verb} takes {wanted}.")
    for index, source in enumerate(step.inputs):
        if isinstance(source, Result) and not 0 <= source.step < number:
            raise InvalidRequestError(
                f"{place}[{index}] is {source.step}: it must be the index of an operation before this one."
            )


def _tables(sources: int) -> str:
    return f"{sources} table" if sources == 1 else f"{sources} tables"

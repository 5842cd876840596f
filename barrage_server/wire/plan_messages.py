"""The actions about plans, and their messages.

``barrage_server.plan`` has the JSON of plans.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

import pyarrow as pa

from barrage_server.errors import WireFormatError
from barrage_server.function_signature import FunctionSignature
from barrage_server.typed_json import AtLeast
from barrage_server.wire.json_message import JsonMessage

__all__ = [
    "BIND_ACTION",
    "FUNCTIONS_ACTION",
    "OPERATE_ACTION",
    "RELEASE_ACTION",
    "BindRequest",
    "FunctionsResult",
    "OperateResult",
    "PlanOutput",
    "ReleaseRequest",
    "ReleaseResult",
]

OPERATE_ACTION: Final = "barrage.operate"
"""Action: the JSON of a plan -> :class:`OperateResult`."""
RELEASE_ACTION: Final = "barrage.release"
"""Action: :class:`ReleaseRequest` -> :class:`ReleaseResult`."""
BIND_ACTION: Final = "barrage.bind"
"""Action: :class:`BindRequest` -> ``{}``."""
FUNCTIONS_ACTION: Final = "barrage.functions"
"""Action: ``{}`` -> :class:`FunctionsResult`."""
_MOST_TICKETS: Final = 10_000
"""The most tickets of one release request."""


@dataclass(frozen=True, slots=True)
class PlanOutput:
    """One output of a plan: a table or an error.

    Attributes:
        ticket: the table's ticket.
        schema: the table's schema.
        size: the present number of rows.
        is_static: whether the table never changes.
        error: the class of the error.
        text: the text of the error.

    """

    ticket: str | None = None
    schema: pa.Schema | None = None
    size: Annotated[int, AtLeast(0, "size must not be negative")] | None = None
    is_static: bool | None = None
    error: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class OperateResult(JsonMessage):
    """The outputs of a plan.

    Attributes:
        outputs: the outputs, in the order of the plan.
        expiry_ms: milliseconds that the server keeps an output without a call that names its ticket.

    """

    message_name: ClassVar[str] = "results of a plan"
    refuses_others: ClassVar[bool] = False

    outputs: tuple[PlanOutput, ...]
    expiry_ms: int

    def check(self) -> None:
        """Raise WireFormatError unless each output has a table or an error."""
        for output in self.outputs:
            if output.error is None and (output.ticket is None or output.schema is None or output.size is None):
                raise WireFormatError("results of a plan: an output has neither a table nor an error")


@dataclass(frozen=True, slots=True)
class ReleaseRequest(JsonMessage):
    """Release the results with these tickets; unknown tickets are ignored."""

    message_name: ClassVar[str] = "release request"

    tickets: tuple[str, ...]

    def check(self) -> None:
        """Raise WireFormatError when there are too many tickets."""
        if len(self.tickets) > _MOST_TICKETS:
            raise WireFormatError(f"release request: it may name {_MOST_TICKETS:,} tickets, and has more")


@dataclass(frozen=True, slots=True)
class ReleaseResult(JsonMessage):
    """The number of results that were released."""

    message_name: ClassVar[str] = "release result"
    refuses_others: ClassVar[bool] = False

    released: int


@dataclass(frozen=True, slots=True)
class BindRequest(JsonMessage):
    """Serve the result with this ticket as a named table, until it is dropped."""

    message_name: ClassVar[str] = "bind request"

    ticket: str
    table: str


@dataclass(frozen=True, slots=True)
class FunctionsResult(JsonMessage):
    """The registered functions, in the order of their first registration."""

    message_name: ClassVar[str] = "registered functions"
    refuses_others: ClassVar[bool] = False

    functions: tuple[FunctionSignature, ...]

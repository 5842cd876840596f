"""The actions about plans, and their messages; the JSON of a plan itself is that of ``barrage_server.plan``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

import pyarrow as pa

from barrage_server.errors import WireFormatError
from barrage_server.typed_json import AtLeast
from barrage_server.wire.json_message import JsonMessage

__all__ = [
    "BIND_ACTION",
    "FUNCTIONS_ACTION",
    "OPERATE_ACTION",
    "RELEASE_ACTION",
    "BindRequest",
    "FunctionSignature",
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
"""Tickets of one request to release some."""


@dataclass(frozen=True, slots=True)
class PlanOutput:
    """What became of one output of a plan: a table with its ticket, or the class and the text of an error.

    ``size``: its rows now; ``is_static``: whether it never changes.
    """

    ticket: str | None = None
    schema: pa.Schema | None = None
    size: Annotated[int, AtLeast(0, "size must not be negative")] | None = None
    is_static: bool | None = None
    error: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class OperateResult(JsonMessage):
    """The outputs of a plan, in the order in which it names them, and the milliseconds for which they are kept without
    a call that names them.
    """

    message_name: ClassVar[str] = "results of a plan"
    refuses_others: ClassVar[bool] = False

    outputs: tuple[PlanOutput, ...]
    expiry_ms: int

    def check(self) -> None:
        """Raise WireFormatError unless each has a table or an error."""
        for output in self.outputs:
            if output.error is None and (output.ticket is None or output.schema is None or output.size is None):
                raise WireFormatError("results of a plan: an output has neither a table nor an error")


@dataclass(frozen=True, slots=True)
class ReleaseRequest(JsonMessage):
    """Let the results with these tickets go; unknown tickets are ignored."""

    message_name: ClassVar[str] = "release request"

    tickets: tuple[str, ...]

    def check(self) -> None:
        """Raise WireFormatError when there are too many."""
        if len(self.tickets) > _MOST_TICKETS:
            raise WireFormatError(f"release request: it may name {_MOST_TICKETS:,} tickets, and has more")


@dataclass(frozen=True, slots=True)
class ReleaseResult(JsonMessage):
    """The number of known tickets, which were released."""

    message_name: ClassVar[str] = "release result"
    refuses_others: ClassVar[bool] = False

    released: int


@dataclass(frozen=True, slots=True)
class BindRequest(JsonMessage):
    """Serve the result with this ticket as the table of that name, until it is dropped."""

    message_name: ClassVar[str] = "bind request"

    ticket: str
    table: str


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """A registered function that formulas may name. ``kind``: ``batch``, ``scalar`` or ``compiled``; ``returns``: an
    Arrow type.
    """

    name: str
    kind: str
    returns: str


@dataclass(frozen=True, slots=True)
class FunctionsResult(JsonMessage):
    """The registered functions, by name. Those of the language are in ``docs/queries.md``."""

    message_name: ClassVar[str] = "registered functions"
    refuses_others: ClassVar[bool] = False

    functions: tuple[FunctionSignature, ...]

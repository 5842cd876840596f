"""Calls about plans: compute them, release their results, give results names."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.flight as flight

from barrage_server.client.channel import Channel
from barrage_server.client.failures import translated
from barrage_server.client.server_kind import ServerKind
from barrage_server.client.upload import act
from barrage_server.errors import WireFormatError
from barrage_server.extras import missing_extra
from barrage_server.flight.errors import error_of
from barrage_server.plan.json_form import plan_to_json
from barrage_server.plan.plan import Plan
from barrage_server.wire.plan_messages import (
    BIND_ACTION,
    OPERATE_ACTION,
    RELEASE_ACTION,
    BindRequest,
    OperateResult,
    ReleaseRequest,
)

__all__ = ["ChosenPlanCalls", "Computed", "PlanCalls"]


@dataclass(frozen=True, slots=True)
class Computed:
    """The result of a plan, as the server described it at first.

    Attributes:
        ticket: its ticket.
        path: the path of its descriptor; None when the descriptor is the ticket as a command.
        schema: the columns, annotated.
        size: the rows.
        is_static: whether it never changes.
        session: ``login.sessions_lost`` of the session that the result belongs to; 0 at servers without sessions.

    """

    ticket: bytes
    path: tuple[str, ...] | None
    schema: pa.Schema
    size: int
    is_static: bool
    session: int = 0

    @property
    def descriptor(self) -> flight.FlightDescriptor:
        """Its Flight descriptor."""
        if self.path is None:
            return flight.FlightDescriptor.for_command(self.ticket)
        return flight.FlightDescriptor.for_path(*self.path)


class PlanCalls(ABC):
    """The calls of one kind of server."""

    @abstractmethod
    def compute(self, plan: Plan) -> Computed:
        """Compute a plan with one output; the server keeps the result until its release.

        Raises:
            BarrageError: the plan cannot be computed; the error of the server.

        """

    @abstractmethod
    def is_known(self, computed: Computed) -> bool:
        """Whether the server may still have a result, as far as the client knows."""

    @abstractmethod
    def size(self, computed: Computed) -> int:
        """Ask for the present number of rows of a result."""

    @abstractmethod
    def bind(self, computed: Computed, name: str) -> None:
        """Serve a result under a name."""

    @abstractmethod
    def release(self, tickets: Sequence[bytes]) -> None:
        """Release results; unknown tickets are ignored."""

    def close(self) -> None:  # noqa: B027  (most calls have no connection of their own)
        """Close the connection of these calls, if they have their own."""


class _Actions(PlanCalls):
    """The actions of a server of this project."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def compute(self, plan: Plan) -> Computed:
        outputs = OperateResult.from_json(act(self._channel, OPERATE_ACTION, plan_to_json(plan))).outputs
        if len(outputs) != 1:
            raise WireFormatError(f"The plan has one output, and the server tells of {len(outputs)}.")
        (output,) = outputs
        if output.error is not None:
            raise error_of(output.error, output.text or "")
        ticket, is_static = (output.ticket or "").encode(), bool(output.is_static)
        return Computed(ticket, None, output.schema, output.size or 0, is_static)

    def is_known(self, computed: Computed) -> bool:  # noqa: ARG002  (the server says so)
        return True

    def size(self, computed: Computed) -> int:
        channel = self._channel

        def ask() -> int:
            with translated(channel.address):
                found: int = channel.client().get_flight_info(computed.descriptor, channel.short()).total_records
                return found

        return channel.logged_in(ask)

    def bind(self, computed: Computed, name: str) -> None:
        act(self._channel, BIND_ACTION, BindRequest(computed.ticket.decode(), name).to_json())

    def release(self, tickets: Sequence[bytes]) -> None:
        act(self._channel, RELEASE_ACTION, ReleaseRequest(tuple(ticket.decode() for ticket in tickets)).to_json())


class ChosenPlanCalls(PlanCalls):
    """The calls of the kind of server that answers.

    Args:
        channel: the connection.

    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._actions = _Actions(channel)
        self._lock = threading.Lock()
        self._deephaven: PlanCalls | None = None

    def compute(self, plan: Plan) -> Computed:
        """Compute a plan.

        Raises:
            DependencyError: the server is Deephaven's, and the extra is missing.
            BarrageError: the plan cannot be computed; the error of the server.

        """
        return self._calls().compute(plan)

    def is_known(self, computed: Computed) -> bool:
        """Whether the server may still have a result."""
        return self._calls().is_known(computed)

    def size(self, computed: Computed) -> int:
        """Ask for the present number of rows of a result."""
        return self._calls().size(computed)

    def bind(self, computed: Computed, name: str) -> None:
        """Serve a result under a name."""
        self._calls().bind(computed, name)

    def release(self, tickets: Sequence[bytes]) -> None:
        """Release results; unknown tickets are ignored."""
        self._calls().release(tickets)

    def close(self) -> None:
        """Close the connection of the calls of a Deephaven server."""
        with self._lock:
            if self._deephaven is not None:
                self._deephaven.close()

    def _calls(self) -> PlanCalls:
        if self._channel.server_kind is not ServerKind.DEEPHAVEN:
            return self._actions
        with self._lock:
            if self._deephaven is None:
                try:
                    from barrage_server.client.table_service import TableService  # which needs an extra
                except ImportError as error:
                    if (error.name or "").startswith("barrage_server"):
                        raise
                    raise missing_extra("Operations on a Deephaven server need", "deephaven", error) from error
                self._deephaven = TableService(self._channel)
            return self._deephaven

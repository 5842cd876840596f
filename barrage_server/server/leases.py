"""Results of plans kept for clients of Arrow Flight, which have no sessions."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from barrage_server.engine import Table
from barrage_server.errors import UnknownTableError
from barrage_server.server.export_counts import ExportCounts
from barrage_server.server.principal import Principal
from barrage_server.wire.tickets import result_ticket

__all__ = ["Leases"]

_SECRET_BYTES: Final = 24
"""Random bytes of a ticket, which are 32 of its characters."""


@dataclass(slots=True, eq=False)
class _Lease:
    """The results of one plan, kept for a caller.

    Attributes:
        principal: the caller, with the credentials of its last call.
        tables: the results, by ticket.
        until: the time at which the lease ends, unless it is renewed.

    """

    principal: Principal
    tables: dict[str, Table]
    until: float


class Leases:
    """Results by ticket. Methods may be called from any thread.

    The results of one plan are a lease. It ends when no call has named one of its tickets for ``seconds``, when all its
    results are released, or when the credentials of its caller end. A ticket is a secret, and valid only for its
    caller: to others it is unknown.

    Args:
        seconds: seconds that a lease lasts without a call that names one of its tickets.
        counts: counts results together with the exports of sessions.
        clock: a monotonic clock, in seconds.
        holds: whether the credentials of a principal still hold.

    """

    def __init__(
        self,
        seconds: float,
        counts: ExportCounts,
        clock: Callable[[], float],
        holds: Callable[[Principal], bool],
    ) -> None:
        self.seconds = seconds
        self._counts = counts
        self._clock = clock
        self._holds = holds
        self._lock = threading.Lock()
        self._leases: dict[str, _Lease] = {}  # by ticket

    def __len__(self) -> int:
        return len(self._leases)

    def keep(self, principal: Principal, tables: Sequence[Table]) -> list[str]:
        """Keep results as one lease; return their tickets.

        Raises:
            LimitError: the caller, or all callers together, would hold too many tables; nothing is kept.

        """
        self._counts.add(principal.owner, len(tables))
        tickets = [result_ticket(secrets.token_urlsafe(_SECRET_BYTES)) for _ in tables]
        lease = _Lease(principal, dict(zip(tickets, tables, strict=True)), self._clock() + self.seconds)
        with self._lock:
            self._leases.update(dict.fromkeys(tickets, lease))
        return tickets

    def get(self, principal: Principal, ticket: str) -> Table:
        """The result of a ticket, whose lease is renewed.

        Raises:
            UnknownTableError: this caller has no such ticket, or not any more.

        """
        with self._lock:
            lease = self._leases.get(ticket)
            now = self._clock()
            if lease is not None and lease.principal.identity == principal.identity and now < lease.until:
                lease.until = now + self.seconds
                lease.principal = principal
                return lease.tables[ticket]
        raise UnknownTableError(
            "There is no result under this ticket: it was released, nothing has asked for it within "
            f"{self.seconds:g} s (session_seconds), or it belongs to another caller. Compute it again."
        )

    def renew(self, principal: Principal, ticket: str) -> None:
        """Renew the lease of a ticket, if there is one."""
        with suppress(UnknownTableError):
            self.get(principal, ticket)

    def release(self, principal: Principal, tickets: Iterable[str]) -> int:
        """Release results; return their number.

        Unknown tickets, and tickets of other callers, are ignored.
        """
        found = []
        with self._lock:
            for ticket in tickets:
                lease = self._leases.get(ticket)
                if lease is not None and lease.principal.identity == principal.identity:
                    lease.until = self._clock() + self.seconds
                    found.append(self._remove(ticket, lease))
        return len(found)  # the tables are freed outside of the lock

    def tidy(self) -> None:
        """End leases that have expired, or whose callers' credentials have ended.

        To be called about once a second.
        """
        with self._lock:
            leases = set(self._leases.values())
            now = self._clock()
        gone = [lease for lease in leases if now >= lease.until or not self._holds(lease.principal)]
        freed = []
        with self._lock:
            for lease in gone:
                if now >= lease.until or not self._holds(lease.principal):  # a call may have renewed it meanwhile
                    freed += [self._remove(ticket, lease) for ticket in tuple(lease.tables)]

    def close(self) -> None:
        """Release all results."""
        with self._lock:
            leases, self._leases = self._leases, {}
            for lease in leases.values():
                self._counts.remove(lease.principal.owner)
        del leases

    def _remove(self, ticket: str, lease: _Lease) -> Table:
        del self._leases[ticket]
        self._counts.remove(lease.principal.owner)
        return lease.tables.pop(ticket)

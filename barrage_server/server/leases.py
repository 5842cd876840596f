"""The results of plans that are kept for clients of Arrow Flight, which have no sessions."""

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
"""32 characters of a ticket."""


@dataclass(slots=True, eq=False)
class _Lease:
    """What was given to a caller together, and until when.

    Attributes:
        principal: the caller, with the credentials of its last call.
        tables: what it holds, by ticket.
        until: the time at which it ends, unless it is renewed.

    """

    principal: Principal
    tables: dict[str, Table]
    until: float


class Leases:
    """Results by ticket. Methods may be called from any thread.

    The results of one plan are a lease: it ends when no call has named one of its tickets for a time, when all are
    released, or with the credentials of its caller.

    A ticket is a secret, and good for the caller that it was made for: to others it is unknown.

    Args:
        seconds: how long a lease lasts without a call that names one of its tickets.
        counts: where results are counted beside the exports of sessions.
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
        """Keep results together; their tickets.

        Raises:
            LimitError: the caller, or all of them, would hold too many; nothing is kept.

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
            UnknownTableError: the ticket is none of this caller's, or not any more.

        """
        with self._lock:
            lease = self._leases.get(ticket)
            now = self._clock()
            if lease is not None and lease.principal.identity == principal.identity and now < lease.until:
                lease.until = now + self.seconds
                lease.principal = principal
                return lease.tables[ticket]
        raise UnknownTableError(
            "There is no table under this ticket: it was released, nothing has asked for it within "
            f"{self.seconds:g} s (session_seconds), or it belongs to another caller. Compute it again."
        )

    def renew(self, principal: Principal, ticket: str) -> None:
        """Renew the lease of a ticket, if there is one."""
        with suppress(UnknownTableError):
            self.get(principal, ticket)

    def release(self, principal: Principal, tickets: Iterable[str]) -> int:
        """Let results go; how many there were. Unknown tickets, and those of other callers, are ignored."""
        found = []
        with self._lock:
            for ticket in tickets:
                lease = self._leases.get(ticket)
                if lease is not None and lease.principal.identity == principal.identity:
                    lease.until = self._clock() + self.seconds
                    found.append(self._remove(ticket, lease))
        return len(found)  # the tables are freed outside of the lock

    def tidy(self) -> None:
        """End the leases whose time has run out, or whose callers' credentials have ended. To be called about once a
        second.
        """
        with self._lock:
            leases = set(self._leases.values())
            now = self._clock()
        gone = [lease for lease in leases if now >= lease.until or not self._holds(lease.principal)]
        freed = []
        with self._lock:
            for lease in gone:
                if now >= lease.until or not self._holds(lease.principal):  # still: a call may have renewed it
                    freed += [self._remove(ticket, lease) for ticket in tuple(lease.tables)]

    def close(self) -> None:
        """Let all results go."""
        with self._lock:
            leases, self._leases = self._leases, {}
            for lease in leases.values():
                self._counts.remove(lease.principal.owner)
        del leases

    def _remove(self, ticket: str, lease: _Lease) -> Table:
        del self._leases[ticket]
        self._counts.remove(lease.principal.owner)
        return lease.tables.pop(ticket)

"""Results of plans that the server keeps for this client, and their release."""

from __future__ import annotations

import logging
import os
import queue
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final

import pyarrow.flight as flight

from barrage_server.client.names import FlightAddress
from barrage_server.client.plan_calls import Computed, PlanCalls
from barrage_server.client.server_kind import ServerKind
from barrage_server.errors import BarrageError
from barrage_server.plan.json_form import plan_to_json
from barrage_server.plan.plan import Plan
from barrage_server.process import start_thread

__all__ = ["HeldResult", "Releases"]

logger = logging.getLogger("barrage_server.client")

_AT_ONCE: Final = 1_000
"""The most tickets that one call releases."""


class Releases:
    """Releases results on the server, on a thread of its own.

    A call to the server must not run on the thread on which Python happens to free a handle.

    Args:
        calls: the calls of the server.

    """

    def __init__(self, calls: PlanCalls) -> None:
        self._calls = calls
        # SimpleQueue.put is reentrant: a finalizer may call it during another call of this queue.
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._held: set[bytes] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        weakref.finalize(self, self._queue.put, None).atexit = False

    def hold(self, ticket: bytes, holder: object) -> weakref.finalize[[bytes, int], Any]:
        """Release a result when ``holder`` is freed, or when the connection closes.

        Raises:
            LimitError: this process can start no further thread.

        """
        with self._lock:
            if self._pid != os.getpid():  # the parent releases its own results
                self._pid, self._thread, self._held = os.getpid(), None, set()
            if self._thread is None:
                thread = threading.Thread(
                    target=_release, args=(self._calls, self._queue), name="barrage-releases", daemon=True
                )
                start_thread(thread)
                self._thread = thread
            self._held.add(ticket)
        forget = weakref.finalize(holder, self.put, ticket, os.getpid())
        forget.atexit = False
        return forget

    def put(self, ticket: bytes, process: int) -> None:
        """Schedule the release of a result of this process. Reentrant, for finalizers."""
        if process == os.getpid():
            self._held.discard(ticket)
            self._queue.put(ticket)

    def close(self, timeout: float) -> None:
        """Release all results, and end the thread within ``timeout`` seconds."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None and self._pid == os.getpid():
            for ticket in tuple(self._held):
                self.put(ticket, self._pid)
            self._queue.put(None)
            thread.join(timeout)


def _release(calls: PlanCalls, tickets: queue.SimpleQueue[bytes | None]) -> None:
    """Release the tickets of the queue, several in one call, until None comes."""
    is_last = False
    while not is_last:
        found: list[bytes] = []
        while not is_last and (not found or (len(found) < _AT_ONCE and not tickets.empty())):
            following = tickets.get()
            if following is None:
                is_last = True
                break
            found.append(following)
        if found:
            try:
                calls.release(found)
            except BarrageError as error:  # the server drops unused results by itself
                logger.debug("%d results were not released: %s", len(found), error)


class HeldResult(FlightAddress):
    """The result of a plan, computed on first use and kept until it has no users.

    Args:
        calls: the calls of the server.
        name: its name in errors and logs.
        plan: makes the plan, whose first output is the result.
        releases: releases its tickets.

    """

    def __init__(self, calls: PlanCalls, name: str, plan: Callable[[], Plan], releases: Releases) -> None:
        self.name = name
        self._calls = calls
        self._plan = plan
        self._releases = releases
        self._lock = threading.Lock()
        self._computing = threading.Lock()
        self._users = 0
        self._output: Computed | None = None
        self._forget: weakref.finalize[[bytes, int], Any] | None = None
        self._pid = os.getpid()

    def output(self) -> Computed:
        """Return the server's description of the result, which is computed if necessary.

        Raises:
            BarrageError: the result cannot be computed; the error of the server.

        """
        with self._computing:
            with self._lock:
                known = self._output if self._pid == os.getpid() else None
            if known is not None:
                if self._calls.is_known(known):
                    return known
                self.lost()
            found = self._calls.compute(self._plan())
            with self._lock:
                self._output, self._pid = found, os.getpid()
                self._forget = self._releases.hold(found.ticket, self)
            return found

    def plan_ticket(self) -> bytes:
        """Return the plan as a ticket: a call with it computes the result if necessary."""
        return plan_to_json(self._plan())

    def ticket(self, server_kind: ServerKind) -> bytes:  # noqa: ARG002  (results have one kind of ticket)
        """Return the ticket of the result, which is computed if necessary."""
        return self.output().ticket

    def descriptor(self, server_kind: ServerKind) -> flight.FlightDescriptor:  # noqa: ARG002
        """Return the descriptor of the result, which is computed if necessary."""
        return self.output().descriptor

    def lost(self) -> bool:
        """Forget the result, so that the next use computes it; whether there was one."""
        with self._lock:
            forget, self._forget, self._output = self._forget, None, None
            self.losses += forget is not None
        if forget is not None:
            forget()
        return forget is not None

    def use(self) -> None:
        """Count a user, until :meth:`leave`."""
        with self._lock:
            self._users += 1

    def leave(self) -> None:
        """End one :meth:`use`; the last one releases the result."""
        with self._lock:
            self._users -= 1
            is_used = self._users > 0
        if not is_used:
            self.lost()

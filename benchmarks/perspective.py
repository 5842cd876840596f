"""Perspective from the benchmark's side.

It has a protocol of its own, so its own client receives.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from benchmarks.environments import python_of
from benchmarks.names import PERSPECTIVE
from benchmarks.process import Process
from benchmarks.steady import Steady, on_time
from benchmarks.systems import System

__all__ = ["PerspectiveSystem", "perspective"]


class PerspectiveSystem(System):
    """A server of Perspective's, and a process with clients of it.

    Attributes:
        client: the process; see :mod:`benchmarks.clients.perspective`.
    """

    def __init__(self, process: Process, client: Process | None) -> None:
        super().__init__(PERSPECTIVE, process)
        self._client = client

    @property
    def client(self) -> Process:
        """The process with the clients."""
        assert self._client is not None
        return self._client

    def steady(self, name: str, *, interval_ms: int, settle: float, measure: float, subscribers: int = 1) -> Steady:
        """Measure as :func:`benchmarks.steady.steady` does.

        Updates are sent when they happen, whatever the interval.
        """
        more: dict[str, Any] = {"subscribers": subscribers, "settle": settle, "measure": measure}
        seen = self.client.call("steady", port=self.port, table=name, pid=self.process.pid, **more)
        took = seen["end"] - seen["begin"]
        updates = [np.array(each or np.empty((0, 5))) for each in seen["updates"]]
        rows = sum(each[:, 1].sum() for each in updates)
        ages = [float((each[:, 0] - each[:, 3]).max()) if len(each) else took for each in updates]
        shares = [on_time(each[:, 0], seen["begin"], seen["end"], interval_ms) for each in updates]
        return Steady(
            rate=float(rows) / len(updates) / took,
            cores=seen["cpu"] / took,
            worst_age=max(ages),
            nbytes=float(sum(each[:, 4].sum() for each in updates) / max(1, rows)),
            on_time=float(np.mean(shares)),
        )


@contextmanager
def perspective(*, with_client: bool = True) -> Iterator[PerspectiveSystem]:
    """A server of Perspective's.

    Raises:
        MissingPeerError: it is not installed.
    """
    python = python_of("perspective")
    with ExitStack() as stack:
        server = stack.enter_context(Process("benchmarks.servers.perspective", python=python))
        client = stack.enter_context(Process("benchmarks.clients.perspective", python=python)) if with_client else None
        yield PerspectiveSystem(server, client)

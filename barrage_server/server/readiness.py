"""Whether a server is ready to serve, and the reason while it is not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["Readiness"]

_STARTING: Final = "starting"
_STOPPING: Final = "stopping"


class Readiness:
    """The state that ``/ready`` shows: the phase of the server, and holds.

    A server starts, serves and stops; while it serves, a hold makes it not ready. Methods may be called from any
    thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._phase: str | None = _STARTING
        self._holds: list[str] = []

    @property
    def reason(self) -> str | None:
        """The reason why the server is not ready, in a few words; ``None`` when it is."""
        with self._lock:
            if self._phase == _STOPPING or not self._holds:
                return self._phase
            return self._holds[-1]

    @property
    def is_starting(self) -> bool:
        """Whether the server has not served yet."""
        with self._lock:
            return self._phase == _STARTING

    @contextmanager
    def holding(self, reason: str) -> Iterator[None]:
        """Be not ready while the ``with`` body runs, for a reason as ``"recovering"``.

        Before the server serves, the reason is shown in place of ``starting``.
        """
        with self._lock:
            self._holds.append(reason)
        try:
            yield
        finally:
            with self._lock:
                self._holds.remove(reason)

    def serve(self) -> None:
        """Note that the server serves from now on, unless it is stopping already."""
        with self._lock:
            if self._phase == _STARTING:
                self._phase = None

    def stop(self) -> None:
        """Note that the server stops, which cannot be undone."""
        with self._lock:
            self._phase = _STOPPING

"""How the server is: its statistics as a message to pages, with what there is of each limit."""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from barrage_server.server.limits import Limits
from barrage_server.server.statistics import ServerStatistics

__all__ = ["ProcessFigures", "health_message"]

_MOST_ENTRIES: Final = 100
"""Tables, and streams, that are listed: the largest, and those that are behind most."""


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """What the process takes.

    Attributes:
        memory: bytes of resident memory; ``None`` where the system does not tell.
        processor_seconds: of all threads, since it started.
        threads: those of Python.
        at: seconds of a monotonic clock.

    """

    memory: int | None
    processor_seconds: float
    threads: int
    at: float

    @classmethod
    def now(cls) -> ProcessFigures:
        """The figures of this process."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        return cls(_resident_bytes(), used.ru_utime + used.ru_stime, threading.active_count(), time.monotonic())


def health_message(
    figures: ServerStatistics, limits: Limits, process: ProcessFigures, before: ProcessFigures | None
) -> str:
    """The message.

    Args:
        figures: what its reader may know of the server.
        limits: the limits of the server.
        process: the figures of the process.
        before: those of the last message, for its share of the processors; ``None``: there was none.

    """
    spent = 0.0 if before is None else process.processor_seconds - before.processor_seconds
    passed = 0.0 if before is None else process.at - before.at
    behind = sorted(figures.subscriptions, key=lambda entry: (-entry.behind, -entry.nbytes))
    stuck = sorted(
        (entry for entry in figures.streams if entry.awaited is not None), key=lambda entry: -entry.awaited_seconds
    )
    message: dict[str, Any] = {
        "type": "health",
        "uptime": round(figures.uptime_seconds, 1),
        "step": figures.step,
        "memory": process.memory,
        "cores": round(spent / passed, 3) if passed > 0 else None,
        "threads": process.threads,
        "evicted": figures.evicted,
        "counts": _counts(figures, limits),
        "tables": [
            [entry.name, entry.kind, entry.rows, entry.nbytes, entry.subscribers]
            for entry in sorted(figures.tables, key=lambda entry: -entry.nbytes)[:_MOST_ENTRIES]
        ],
        "followers": [
            [
                entry.table,
                entry.user,
                entry.peer,
                entry.behind,
                entry.messages,
                entry.nbytes,
                round(entry.open_seconds),
                entry.rests,
            ]
            for entry in behind[:_MOST_ENTRIES]
        ],
        "stuck": [
            [entry.table or "", entry.kind, entry.user, entry.awaited, round(entry.awaited_seconds, 1)]
            for entry in stuck[:_MOST_ENTRIES]
        ],
        "computed": [
            [
                entry.name,
                entry.operation,
                entry.user,
                entry.rows,
                entry.state_bytes,
                round(entry.seconds, 3),
                entry.failed,
            ]
            for entry in figures.results[:_MOST_ENTRIES]
        ],
    }
    return json.dumps(message, separators=(",", ":"))


def _counts(figures: ServerStatistics, limits: Limits) -> list[list[Any]]:
    """Name, what there is, and the most that there may be (``None``: no limit), of what clients use up."""
    staging = figures.staging
    return [
        ["tables", len(figures.tables), limits.tables],
        ["subscriptions", len(figures.subscriptions), limits.subscriptions],
        ["uploads", figures.uploads, limits.uploads],
        ["downloads", figures.downloads, limits.downloads],
        ["pages", sum(entry.kind == "page" for entry in figures.streams), limits.pages],
        ["sessions", figures.sessions, limits.sessions],
        ["exports", figures.exports, limits.total_exports],
        ["results", len(figures.results), limits.total_results],
        ["result bytes", sum(entry.state_bytes for entry in figures.results), limits.total_result_bytes],
        ["staged bytes", staging.nbytes, limits.staging.total_bytes],
        ["retained bytes", figures.retained_bytes, limits.retain_bytes],
        ["table bytes", sum(entry.nbytes for entry in figures.tables), None],
        ["writer threads", figures.writer_threads, None],
    ]


def _resident_bytes() -> int | None:
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else None
    return pages * resource.getpagesize()

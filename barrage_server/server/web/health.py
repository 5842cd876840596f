"""The health message to pages: the server's statistics beside its limits."""

from __future__ import annotations

import resource
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from barrage_server.server.limits import Limits
from barrage_server.server.statistics import ServerStatistics
from barrage_server.wire.json_message import json_text

__all__ = ["ProcessFigures", "health_message"]

_MOST_ENTRIES: Final = 100
"""Most tables and streams in the message: the largest tables, and the streams that are furthest behind."""


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """The resources that the process uses.

    Attributes:
        memory: bytes of resident memory; ``None`` where the system does not tell.
        processor_seconds: processor time of all threads since the start, in seconds.
        threads: number of Python's threads.
        at: time of the measurement, in seconds of a monotonic clock.
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
    """Write the message.

    Args:
        figures: the statistics that its reader may see.
        limits: the limits of the server.
        process: the figures of the process.
        before: the figures of the last message, for the use of processors since; ``None``: there was none.
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
    return json_text(message)


def _counts(figures: ServerStatistics, limits: Limits) -> list[list[Any]]:
    """Name, present number and limit (``None``: none) of each bounded resource."""
    staging = figures.staging
    return [
        ["tables", len(figures.tables), limits.tables],
        ["subscriptions", len(figures.subscriptions), limits.subscriptions],
        ["uploads", figures.uploads, limits.uploads],
        ["downloads", figures.downloads, limits.downloads],
        ["pages over Flight", sum(entry.kind == "page" for entry in figures.streams), limits.pages],
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

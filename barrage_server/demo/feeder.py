"""The release of the replay's files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from barrage_server.demo.flights import FlightFile

__all__ = ["Feeder", "rows_per_file"]

_AHEAD: Final = 2
"""Most unread files: Spark never waits, and the replay stops soon."""
_LARGEST: Final = 13_000
"""Most rows of a file: about two weeks of flights."""
_SMALLEST: Final = 250
"""Least rows of a file."""
_FILES: Final = 12
"""Least number of files of a short replay."""
_SECONDS_PER_FILE: Final = 1.0


def rows_per_file(total: int, rate: float | None) -> int:
    """Rows of one file: two weeks of flights, or fewer in a short or slow replay."""
    rows = min(_LARGEST, total / _FILES, _LARGEST if rate is None else rate * _SECONDS_PER_FILE)
    return max(_SMALLEST, int(rows))


class Feeder:
    """Releases files in order into the folder that Spark reads.

    It releases at most ``rate`` rows per second, and few unread files. Time is passed in, as seconds since the start of
    the replay.
    """

    def __init__(self, files: Sequence[FlightFile], folder: Path, rate: float | None) -> None:
        self._files = files
        self._folder = folder
        self._rate = rate
        self._next = 0
        self.rows = 0
        """Rows released so far."""
        self.until: int | None = None
        """Departure of the last flight released, in microseconds since 1970."""

    @property
    def is_done(self) -> bool:
        """Whether all files are released."""
        return self._next == len(self._files)

    def rows_of(self, files: int) -> int:
        """The number of flights in the first ``files`` files."""
        return sum(file.rows for file in self._files[:files])

    def feed(self, elapsed: float, processed: int) -> int:
        """Release the files that are due, and return their number.

        Args:
            elapsed: seconds since the start of the replay.
            processed: rows that the slowest reader has processed.
        """
        before = self._next
        while not self.is_done and self._is_due(elapsed, processed):
            file = self._files[self._next]
            # Renamed, not copied: Spark sees a whole file or none, and the modification time stays.
            file.path.rename(self._folder / file.path.name)
            self._next += 1
            self.rows += file.rows
            self.until = file.until
        return self._next - before

    def _is_due(self, elapsed: float, processed: int) -> bool:
        if self.rows - processed > _AHEAD * self._files[self._next].rows:
            return False
        return self._rate is None or self.rows <= elapsed * self._rate

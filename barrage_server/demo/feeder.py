"""When the next file of the replay is due."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from barrage_server.demo.flights import FlightFile

__all__ = ["Feeder", "rows_per_file"]

_AHEAD: Final = 2
"""Files that may lie there unread: enough that Spark never waits, few enough that a stop is near."""
_LARGEST: Final = 13_000
"""About two weeks of flights."""
_SMALLEST: Final = 250
_FILES: Final = 12
"""What a short replay is cut into at least, so that there is something to see."""
_SECONDS_PER_FILE: Final = 1.0


def rows_per_file(total: int, rate: float | None) -> int:
    """Rows of one file: two weeks of flights, or fewer when the replay is so short or so slow that it would jerk."""
    rows = min(_LARGEST, total / _FILES, _LARGEST if rate is None else rate * _SECONDS_PER_FILE)
    return max(_SMALLEST, int(rows))


class Feeder:
    """Releases files into the folder that Spark reads, in order: at most ``rate`` rows per second, and never far ahead.

    Time is passed in, as seconds since the start of the replay.
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
        """Flights in the first ``files`` files."""
        return sum(file.rows for file in self._files[:files])

    def feed(self, elapsed: float, processed: int) -> int:
        """Release what is due ``elapsed`` seconds after the start, when the slowest reader has had ``processed`` rows.

        Returns the number of files released.
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

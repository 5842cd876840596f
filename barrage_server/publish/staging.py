"""Batches between their arrival and their commit: named by token, bounded in bytes and in time."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from barrage_server.errors import LimitError, PublishError
from barrage_server.public import public
from barrage_server.wire.plain_size import plain_batch_size
from barrage_server.wire.protocol import StageRequest, StageResult

__all__ = ["Staged", "StagingArea", "StagingLimits", "StagingStatistics"]


@public
@dataclass(frozen=True, slots=True)
class StagingLimits:
    """Bounds of the staging area in bytes, entries and time.

    Attributes:
        total_bytes: Arrow bytes of all entries.
        entry_bytes: Arrow bytes under one token.
        entries: number of tokens at a time.
        expiry_seconds: seconds without a change after which an entry is dropped when its room is needed, oldest first.
        lifetime_seconds: seconds without a change after which an entry is dropped in any case. The tasks of one batch
            may be this far apart.

    """

    total_bytes: int = 4 << 30
    entry_bytes: int = 2 << 30
    entries: int = 10_000
    expiry_seconds: float = 600.0
    lifetime_seconds: float = 4 * 3600.0


@dataclass(slots=True)
class Staged:
    """Batches of one attempt of one task. ``sealed`` once the sender has marked its end."""

    request: StageRequest
    schema: pa.Schema
    touched: float
    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    nbytes: int = 0
    sealed: bool = False


@public
@dataclass(frozen=True, slots=True)
class StagingStatistics:
    """The staging area at one moment.

    Attributes:
        entries: tokens that are open or sealed.
        rows: rows under them.
        nbytes: Arrow bytes under them.
        expired: tokens that have expired since the server started.

    """

    entries: int
    rows: int
    nbytes: int
    expired: int


class StagingArea:
    """Batches that were sent and are not committed yet. They are not readable.

    All times are seconds of one monotonic clock, passed in by the caller. Methods may be called from any thread.
    """

    def __init__(self, limits: StagingLimits | None = None) -> None:
        self.limits = limits if limits is not None else StagingLimits()
        self._lock = threading.Lock()
        self._entries: dict[str, Staged] = {}
        self._nbytes = 0
        self._expired = 0

    def open(self, request: StageRequest, schema: pa.Schema, now: float) -> str:
        """Begin an entry; returns the token that names it.

        Raises:
            LimitError: too many entries are open.

        """
        with self._lock:
            self._reclaim(now, lambda: len(self._entries) < self.limits.entries)
            if len(self._entries) >= self.limits.entries:
                raise LimitError(
                    f"{self.limits.entries} batches are staged already; commit or abort some, or wait until they "
                    f"can be replaced, {self.limits.expiry_seconds:g} s after they were sent."
                )
            token = secrets.token_urlsafe(18)
            self._entries[token] = Staged(request, schema, now)
            return token

    def add(self, token: str, batch: pa.RecordBatch, now: float, nbytes: int | None = None) -> None:
        """Put ``batch`` under ``token``.

        Args:
            token: the token of an open entry.
            batch: the rows, in plain form.
            now: the time.
            nbytes: bytes to count for it; ``None``: the bytes of its values.

        Raises:
            PublishError: the token has expired, or is sealed.
            LimitError: a limit would be exceeded; the whole entry is dropped then.

        """
        nbytes = plain_batch_size(batch) if nbytes is None else nbytes
        with self._lock:
            entry = self._entry(token)
            if entry.sealed:
                raise PublishError("This batch was staged to its end already; stage the rest as another one.")
            self._reclaim(now, lambda: self._nbytes + nbytes <= self.limits.total_bytes, token)
            for size, limit, what in (
                (entry.nbytes + nbytes, self.limits.entry_bytes, "one staged batch"),
                (self._nbytes + nbytes, self.limits.total_bytes, "all staged batches together"),
            ):
                if size > limit:
                    self._remove(token)
                    raise LimitError(
                        f"{size:,} bytes are more than the {limit:,} that this server allows for {what}; send smaller "
                        f"batches, or commit more often."
                    )
            entry.batches.append(batch)
            entry.rows += batch.num_rows
            entry.nbytes += nbytes
            entry.touched = now
            self._nbytes += nbytes

    def seal(self, token: str, rows: int, now: float) -> StageResult:
        """Close the entry: ``rows`` rows were sent in all.

        Raises:
            PublishError: another number of rows arrived, or the token has expired. The entry is dropped.

        """
        with self._lock:
            entry = self._entry(token)
            if entry.rows != rows:
                self._remove(token)
                raise PublishError(f"{rows} rows were announced and {entry.rows} have arrived; stage the batch again.")
            entry.sealed = True
            entry.touched = now
            return StageResult(token, rows)

    def drop(self, tokens: Iterable[str]) -> int:
        """Drop the entries under ``tokens``; returns how many of them were known."""
        with self._lock:
            return sum(self._remove(token) for token in set(tokens))

    def drop_batch(self, publisher: str, table: str, batch: int) -> int:
        """Drop all that ``publisher`` has staged as ``batch`` of ``table``; returns the number of tokens."""
        with self._lock:
            wanted = (publisher, table, batch)
            found = [
                token
                for token, entry in self._entries.items()
                if (entry.request.publisher, entry.request.table, entry.request.batch) == wanted
            ]
            return sum(self._remove(token) for token in found)

    def drop_sealed(self, publisher: str, table: str, batch: int) -> int:
        """Drop the sealed entries of ``publisher`` for batches of ``table`` up to ``batch``; returns their number."""
        with self._lock:
            found = [
                token
                for token, entry in self._entries.items()
                if entry.sealed
                and (entry.request.publisher, entry.request.table) == (publisher, table)
                and entry.request.batch <= batch
            ]
            return sum(self._remove(token) for token in found)

    def find(self, tokens: Sequence[str], publisher: str, table: str, batch: int) -> list[Staged]:
        """The sealed entries under ``tokens``, in that order. They stay where they are.

        Raises:
            PublishError: one is unknown (expired, or the server was restarted), is not sealed, is named twice, or was
                staged for something else.

        """
        if len(set(tokens)) != len(tokens):
            raise PublishError("A staging token is named twice in one commit; name each once.")
        with self._lock:
            entries = [self._entry(token) for token in tokens]
        for entry in entries:
            if not entry.sealed:
                raise PublishError(
                    "A batch is still being staged, or its sender broke off; stage it again, then commit."
                )
            made_for = (entry.request.publisher, entry.request.table, entry.request.batch)
            if made_for != (publisher, table, batch):
                raise PublishError(
                    f"A token was staged for batch {made_for[2]} of table '{made_for[1]}', and the commit is for batch "
                    f"{batch} of '{table}'."
                )
        return entries

    def expire(self, now: float) -> int:
        """Drop entries unchanged for ``lifetime_seconds``; returns how many."""
        with self._lock:
            late = [token for token, entry in self._entries.items() if now - entry.touched >= self._lifetime]
            for token in late:
                self._remove(token)
            self._expired += len(late)
            return len(late)

    def statistics(self) -> StagingStatistics:
        """The current statistics."""
        with self._lock:
            rows = sum(entry.rows for entry in self._entries.values())
            return StagingStatistics(len(self._entries), rows, self._nbytes, self._expired)

    @property
    def _lifetime(self) -> float:
        return max(self.limits.expiry_seconds, self.limits.lifetime_seconds)

    def _reclaim(self, now: float, is_enough: Callable[[], bool], kept: str | None = None) -> None:
        """Drop entries other than ``kept`` that were unchanged for ``expiry_seconds``, until ``is_enough()``."""
        if is_enough():
            return
        aged = [(now - entry.touched, token) for token, entry in self._entries.items() if token != kept]
        for age, token in sorted(aged, reverse=True):
            if age < self.limits.expiry_seconds or is_enough():
                return
            self._expired += 1
            self._remove(token)

    def _entry(self, token: str) -> Staged:
        entry = self._entries.get(token)
        if entry is None:
            raise PublishError(
                "A staging token is unknown: it has expired, or the server was restarted. Stage it again."
            )
        return entry

    def _remove(self, token: str) -> bool:
        entry = self._entries.pop(token, None)
        if entry is None:
            return False
        self._nbytes -= entry.nbytes
        return True

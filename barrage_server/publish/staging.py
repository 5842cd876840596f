"""Staged batches: rows between arrival and commit.

They are named by tokens, and bounded in bytes and in time.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from barrage_server.arguments import integer, seconds
from barrage_server.errors import LimitError, PublishError
from barrage_server.public import public
from barrage_server.publish.caller_counts import CallerCounts, share_of_one
from barrage_server.wire.commit_messages import StageRequest, StageResult
from barrage_server.wire.plain_size import plain_batch_size

__all__ = ["Staged", "StagingArea", "StagingLimits", "StagingStatistics"]


@public
@dataclass(frozen=True, slots=True)
class StagingLimits:
    """Bounds of the staging area in bytes, entries and time.

    Attributes:
        total_bytes: Arrow bytes of all entries.
        entry_bytes: Arrow bytes under one token.
        entries: number of tokens at a time.
        expiry_seconds: seconds without a change after which an entry is dropped if its room is needed, oldest first.
        lifetime_seconds: seconds without a change after which an entry is dropped in any case. The tasks of one batch
            may be this far apart.
        caller_bytes: Arrow bytes of the entries of one caller. A server that accepts every caller has no such bound.
    """

    total_bytes: int = 4 << 30
    entry_bytes: int = 2 << 30
    entries: int = 10_000
    expiry_seconds: float = 600.0
    lifetime_seconds: float = 4 * 3600.0
    caller_bytes: int = 3 << 30

    def __post_init__(self) -> None:
        for name in ("total_bytes", "entry_bytes", "entries", "caller_bytes"):
            integer(getattr(self, name), f"The limit staging.{name}")
        for name in ("expiry_seconds", "lifetime_seconds"):
            seconds(getattr(self, name), f"The limit staging.{name}")


@dataclass(slots=True)
class Staged:
    """Batches of one attempt of one task.

    Attributes:
        request: the request that began it.
        schema: the schema of the batches.
        touched: the time of the last change.
        principal: the user who sent it.
        batches: the rows, in plain form.
        rows: their number.
        nbytes: their Arrow bytes.
        sealed: whether the sender has marked its end.
    """

    request: StageRequest
    schema: pa.Schema
    touched: float
    principal: str = ""
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
        self._bytes_of = CallerCounts()
        self._entries_of = CallerCounts()
        self._expired = 0

    def open(self, request: StageRequest, schema: pa.Schema, now: float, principal: str = "") -> str:
        """Begin an entry of the user ``principal``; returns its token.

        Raises:
            LimitError: too many entries are open.
        """
        with self._lock:
            self._reclaim(now, lambda: len(self._entries) < self.limits.entries)
            if len(self._entries) >= self.limits.entries:
                raise LimitError(
                    f"{self.limits.entries} batches are staged already (staging.entries); commit or abort some, or "
                    f"wait until they can be replaced, {self.limits.expiry_seconds:g} s after they were sent."
                )
            most = share_of_one(self.limits.entries)
            if principal and self._entries_of[principal] >= most:
                raise LimitError(
                    f"{most} batches of yours are staged; a tenth of all {self.limits.entries} (staging.entries) "
                    f"is for other callers; commit or abort some."
                )
            self._entries_of.add(principal)
            token = secrets.token_urlsafe(18)
            self._entries[token] = Staged(request, schema, now, principal)
            return token

    def add(self, token: str, batch: pa.RecordBatch, now: float, nbytes: int | None = None) -> None:
        """Add ``batch`` to the entry of ``token``.

        Args:
            token: the token of an open entry.
            batch: the rows, in plain form.
            now: the time.
            nbytes: bytes to count for it; ``None`` for the bytes of its values.

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
            own = self._bytes_of[entry.principal] + nbytes if entry.principal else 0
            for size, limit, what, name in (
                (entry.nbytes + nbytes, self.limits.entry_bytes, "one staged batch", "entry_bytes"),
                (own, self.limits.caller_bytes, "all staged batches of one caller together", "caller_bytes"),
                (self._nbytes + nbytes, self.limits.total_bytes, "all staged batches together", "total_bytes"),
            ):
                if size > limit:
                    self._remove(token)
                    raise LimitError(
                        f"{size:,} bytes are more than the {limit:,} that this server allows for {what} "
                        f"(staging.{name}); send smaller batches, or commit more often."
                    )
            entry.batches.append(batch)
            entry.rows += batch.num_rows
            entry.nbytes += nbytes
            entry.touched = now
            self._nbytes += nbytes
            self._bytes_of.add(entry.principal, nbytes)

    def seal(self, token: str, rows: int, now: float) -> StageResult:
        """Mark the end of an entry, in which ``rows`` rows were sent.

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

    def drop(self, tokens: Iterable[str], principal: str | None = None) -> int:
        """Drop the entries of ``tokens`` (of ``principal`` only); returns their number."""
        with self._lock:
            return sum(self._remove(token) for token in self._known(tokens, principal))

    def drop_batch(self, publisher: str, table: str, batch: int, principal: str = "", epoch: str | None = None) -> int:
        """Drop a user's entries for ``batch`` of ``table``; returns their number.

        With ``epoch``, only those of this epoch.
        """
        return self.drop_those(publisher, table, principal, _is_batch(batch, epoch))

    def drop_those(self, publisher: str, table: str, principal: str, is_over: Callable[[StageRequest], bool]) -> int:
        """Drop a user's entries for ``table`` for which ``is_over(request)`` is true.

        Open entries are dropped, too: their sender gets an error with its next message. ``is_over`` must not call the
        staging area.

        Returns:
            The number of dropped entries.
        """
        with self._lock:
            return sum(self._remove(token) for token in self._staged_as(publisher, table, principal, is_over))

    def keep(self, tokens: Iterable[str], now: float, principal: str = "") -> int:
        """Delay the expiry of the entries of ``tokens``; returns their number."""
        with self._lock:
            return self._touch(self._known(tokens, principal), now)

    def keep_batch(
        self, publisher: str, table: str, batch: int, now: float, principal: str = "", epoch: str | None = None
    ) -> int:
        """Call :meth:`keep` for a user's entries for ``batch`` of ``table``.

        With ``epoch``, only those of this epoch.
        """
        with self._lock:
            return self._touch(self._staged_as(publisher, table, principal, _is_batch(batch, epoch)), now)

    def find(
        self,
        tokens: Sequence[str],
        publisher: str,
        table: str,
        batch: int,
        *,
        epoch: str | None = None,
        principal: str = "",
    ) -> list[Staged]:
        """The sealed entries of ``tokens``, in that order. They stay in the area.

        Raises:
            PublishError: one is unknown (expired, or the server was restarted), is not sealed, is named twice, or was
                staged for something else.
        """
        if len(set(tokens)) != len(tokens):
            raise PublishError("A staging token is named twice in one commit; name each once.")
        with self._lock:
            entries = [self._entry(token, principal) for token in tokens]
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
            if entry.request.epoch != epoch:
                raise PublishError(
                    "A token was staged in another epoch than that of the commit; stage the batch again."
                )
        return entries

    def expire(self, now: float) -> int:
        """Drop entries unchanged for ``lifetime_seconds``; returns their number."""
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
        """Drop the oldest expired entries other than ``kept``, until ``is_enough()``."""
        if is_enough():
            return
        aged = [(now - entry.touched, token) for token, entry in self._entries.items() if token != kept]
        for age, token in sorted(aged, reverse=True):
            if age < self.limits.expiry_seconds or is_enough():
                return
            self._expired += 1
            self._remove(token)

    def _entry(self, token: str, principal: str | None = None) -> Staged:
        entry = self._entries.get(token)
        if entry is None or principal not in (None, entry.principal):
            raise PublishError(
                "A staging token is unknown: it has expired, another attempt at its batch was committed, or the server "
                "was restarted. Stage it again."
            )
        return entry

    def _known(self, tokens: Iterable[str], principal: str | None) -> list[str]:
        return [
            token
            for token in set(tokens)
            if token in self._entries and principal in (None, self._entries[token].principal)
        ]

    def _staged_as(
        self, publisher: str, table: str, principal: str, is_wanted: Callable[[StageRequest], bool]
    ) -> list[str]:
        wanted = (publisher, table, principal)
        return [
            token
            for token, entry in self._entries.items()
            if (entry.request.publisher, entry.request.table, entry.principal) == wanted and is_wanted(entry.request)
        ]

    def _touch(self, tokens: Collection[str], now: float) -> int:
        for token in tokens:
            self._entries[token].touched = now
        return len(tokens)

    def _remove(self, token: str) -> bool:
        entry = self._entries.pop(token, None)
        if entry is None:
            return False
        self._nbytes -= entry.nbytes
        self._bytes_of.remove(entry.principal, entry.nbytes)
        self._entries_of.remove(entry.principal)
        return True


def _is_batch(batch: int, epoch: str | None) -> Callable[[StageRequest], bool]:
    return lambda request: request.batch == batch and epoch in (None, request.epoch)

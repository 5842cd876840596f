"""Batches that a server does not know and Spark will not send again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from barrage_server.errors import LostBatchesError
from barrage_server.spark.settings import PublishSettings
from barrage_server.wire.protocol import PublishMode, TableKind

__all__ = ["check_gap"]

_log: Final = logging.getLogger("barrage_server.spark")


def check_gap(
    settings: PublishSettings, publisher: str, batch: int, last: int | None, takes_gaps: Callable[[], bool]
) -> None:
    """Raise, or log, when batches before ``batch`` are missing on the server.

    Nothing is missing when the batch replaces the whole table, or when rows live for one cycle only.

    Args:
        settings: the sink's.
        publisher: the name under which the server remembers batches.
        batch: the number of the batch to publish now.
        last: the last batch that the server remembers; None without one.
        takes_gaps: asks the server whether the table takes batches without those before, as an existing blink table.

    Raises:
        LostBatchesError: batches are missing, and ``allow_gap`` is false.
    """
    expected = 0 if last is None else last + 1
    if batch <= expected or settings.mode is PublishMode.REPLACE or settings.kind is TableKind.BLINK:
        return
    if takes_gaps():
        return
    text = _text(settings, publisher, batch, last)
    if not settings.allow_gap:
        raise LostBatchesError(text)
    _log.warning("%s", text)


def _text(settings: PublishSettings, publisher: str, batch: int, last: int | None) -> str:
    expected = 0 if last is None else last + 1
    missing = f"batch {expected}" if batch - expected == 1 else f"batches {expected} to {batch - 1}"
    if last is None:
        reason = (
            f"it remembers no batch of publisher {publisher!r}. It was restarted, the table was dropped, or the "
            "checkpoint was begun with another server or another sink"
        )
    else:
        reason = (
            f"the last batch of publisher {publisher!r} that it remembers is {last}. The batches between went to "
            "another server, or the foreachBatch function did not call the sink for them"
        )
    begin = (
        f"Table {settings.table!r} at {settings.uri} lacks {missing} of this query, and Spark continues with {batch}"
    )
    if settings.allow_gap:
        return f"{begin}: {reason}. Published without them, as allow_gap is true."
    return (
        f"{begin}: {reason}. To have all rows, start the query with a new checkpointLocation, so that Spark replays "
        "its source (drop the table first if it holds other rows of it), or use complete mode, whose every batch is "
        "the whole table. To continue without them, set allow_gap to true."
    )

"""Published rows: from staged batches to one delta of each table.

A pure room: no network, no threads, no clocks.
"""

from __future__ import annotations

from barrage_server.publish.commit import Committer
from barrage_server.publish.delta import TableStore, Target, apply_rows, publish_rows
from barrage_server.publish.ledger import LEDGER_SECONDS, Identity, Ledger, LedgerEntry
from barrage_server.publish.refused_batches import RefusedBatches
from barrage_server.publish.staging import StagingArea, StagingLimits, StagingStatistics

__all__ = [
    "LEDGER_SECONDS",
    "Committer",
    "Identity",
    "Ledger",
    "LedgerEntry",
    "RefusedBatches",
    "StagingArea",
    "StagingLimits",
    "StagingStatistics",
    "TableStore",
    "Target",
    "apply_rows",
    "publish_rows",
]

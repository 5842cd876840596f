"""Operations on source tables, with rows in the types of the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

__all__ = ["Operation", "OperationKind"]


class OperationKind(StrEnum):
    """The kinds of operations. Journals contain the values: do not change them."""

    APPEND = "append"
    UPSERT = "upsert"
    DELETE = "delete"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class Operation:
    """Rows for a source table.

    Attributes:
        kind: what is done with them.
        columns: one array per column of the table, of exactly its type, all of one length; for a deletion, one per key
            column.
    """

    kind: OperationKind
    columns: Sequence[pa.Array]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.columns[0])

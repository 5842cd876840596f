"""Cells that stand for the constituents of a partitioned table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import pyarrow as pa

from barrage_server.engine.plan import Int64Array
from barrage_server.operations.accumulators import Accumulator
from barrage_server.operations.group_totals import GroupArray, GroupTotals
from barrage_server.wire.schema import TYPE_KEY

__all__ = ["Constituents"]

_CELL: Final = "QueryTable"
_METADATA: Final = {TYPE_KEY.decode(): f"io.deephaven.engine.table.impl.{_CELL}"}


class Constituents(Accumulator):
    """The cell for a table in Deephaven's clients, for each group; no state."""

    function: ClassVar[str] = "partition"
    metadata: ClassVar[Mapping[str, str]] = _METADATA

    @classmethod
    def result_type(cls, types: Sequence[pa.DataType]) -> pa.DataType:  # noqa: ARG003
        """A text."""
        return pa.string()

    @property
    def parts(self) -> Sequence[GroupArray | GroupTotals]:
        """Nothing."""
        return ()

    def change(self, groups: Int64Array, places: Int64Array, columns: Sequence[pa.Array], sign: int) -> None:
        """Do nothing: no result depends on rows."""

    def results(self, groups: Int64Array) -> pa.Array:
        """The text."""
        return pa.repeat(pa.scalar(_CELL), len(groups))

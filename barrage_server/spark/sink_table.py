"""One of several tables of a sink."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from barrage_server.arguments import callback, shown
from barrage_server.errors import InvalidRequestError
from barrage_server.spark.settings import PublishSettings, parse_key, parse_kind, parse_mode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["SinkTable"]


@dataclass(frozen=True)
class SinkTable:
    """One of several tables of a :class:`~barrage_server.spark.BarrageSink`.

    The other attributes are those of the sink with one table.

    Attributes:
        rows: a function from the micro-batch to the rows of this table, both a Spark ``DataFrame``; None: all rows.
        key: key columns.
        mode: how rows apply; by default from the query's output mode.
        order_by: a column to sort the rows by.
        kind: the kind of a new table.
        capacity: rows that a ring keeps.
    """

    rows: Callable[[DataFrame], DataFrame] | None = None
    key: str | Iterable[str] | None = None
    mode: str | None = None
    order_by: str | None = None
    kind: str | None = None
    capacity: int | None = None

    def __post_init__(self) -> None:
        if self.rows is not None:
            callback(self.rows, "rows")
        object.__setattr__(self, "key", parse_key(self.key))

    def settings(self, common: PublishSettings, name: str) -> PublishSettings:
        """The settings of the table ``name``: the sink's, and its own.

        Raises:
            InvalidRequestError: an argument is wrong, or two of them contradict each other.
        """
        return replace(
            common,
            table=name,
            key=parse_key(self.key),
            mode=parse_mode(self.mode),
            order_by=self.order_by,
            kind=parse_kind(self.kind),
            capacity=self.capacity,
        )

    def rows_of(self, frame: DataFrame, name: str) -> DataFrame:
        """The rows of the table ``name`` in the micro-batch ``frame``."""
        found: DataFrame = frame if self.rows is None else self.rows(frame)
        if not hasattr(found, "sparkSession"):
            raise InvalidRequestError(f"The function for table {name!r} must return a DataFrame, not {shown(found)}.")
        return found

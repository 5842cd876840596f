"""Reading a table that ticks as one reads a frame."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, overload

import pyarrow as pa

from barrage_server.arguments import shown
from barrage_server.engine.frames import to_pandas, to_polars
from barrage_server.errors import InvalidRequestError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

__all__ = ["Readable"]


class Readable(ABC):
    """The present content of a table, read by columns or as a whole."""

    index_example: ClassVar[str]
    """A column by its name, for error texts."""
    rows_example: ClassVar[str]
    """How rows are read instead, for error texts."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Column names and Arrow types, in order."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The present number of rows."""

    @abstractmethod
    def to_arrow(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The present rows, of all columns or of ``columns`` only.

        Raises:
            UnknownColumnError: a name that the schema lacks.
        """

    @overload
    def __getitem__(self, columns: str) -> pa.ChunkedArray: ...

    @overload
    def __getitem__(self, columns: Sequence[str]) -> pa.Table: ...

    def __getitem__(self, columns: str | Sequence[str]) -> pa.ChunkedArray | pa.Table:
        """The present values of one column by its name, or of several by a list of names.

        Raises:
            UnknownColumnError: a name that the schema lacks.
        """
        if isinstance(columns, str):
            return self.to_arrow([columns]).column(0)
        if isinstance(columns, list | tuple):
            return self.to_arrow(columns)
        raise InvalidRequestError(
            f"A table is indexed by column names, as in {self.index_example}, not by {shown(columns)}. For rows, use "
            f"{self.rows_example}."
        )

    def __contains__(self, column: object) -> bool:
        """Whether there is a column of this name."""
        return column in self.schema.names

    def __len__(self) -> int:
        return self.size

    def __bool__(self) -> bool:
        """True, also while there are no rows."""
        return True

    def to_pandas(self) -> pd.DataFrame:
        """The present rows as a pandas data frame.

        Raises:
            DependencyError: pandas is not installed.
        """
        return to_pandas(self.to_arrow())

    def to_polars(self) -> pl.DataFrame:
        """The present rows as a polars data frame.

        Raises:
            DependencyError: polars is not installed.
        """
        return to_polars(self.to_arrow())

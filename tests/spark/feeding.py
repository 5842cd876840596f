"""Streams that a test feeds file by file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Drain", "Feed", "by"]

Drain = Callable[..., str]
"""Runs a DataStreamWriter until its input is worked off, and returns the id of the query."""


class Feed:
    """A folder of Parquet files as a stream: one file is one micro-batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._files = 0
        folder.mkdir()

    def add(self, rows: dict[str, Any] | pa.Table) -> None:
        """Let the next micro-batch be these rows."""
        table = rows if isinstance(rows, pa.Table) else pa.table(rows)
        path = self._folder.parent / f"{self._files:03d}.parquet"
        pyarrow.parquet.write_table(table, path)
        stamp = 1_700_000_000 + self._files
        os.utime(path, (stamp, stamp))
        path.rename(self._folder / path.name)
        self._files += 1

    def stream(self) -> DataFrame:
        """The stream of all files."""
        schema = self.batch().schema
        return self._spark.readStream.schema(schema).option("maxFilesPerTrigger", "1").parquet(str(self._folder))

    def batch(self) -> DataFrame:
        """The same files as a batch."""
        return self._spark.read.parquet(str(self._folder))


def by(table: pa.Table, *columns: str) -> list[dict[str, Any]]:
    """The rows of ``table``, ordered by ``columns``: what there is, whatever order it came in."""
    rows: list[dict[str, Any]] = table.sort_by([(column, "ascending") for column in columns]).to_pylist()
    return rows

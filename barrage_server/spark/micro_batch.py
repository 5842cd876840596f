"""One micro-batch: its rows for all tables are staged, then committed together."""

from __future__ import annotations

import contextlib
import re
import tempfile
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barrage_server import errors
from barrage_server.errors import BarrageError
from barrage_server.spark.keeping import kept_alive
from barrage_server.spark.publisher import Publisher
from barrage_server.spark.settings import PublishSettings, Ship
from barrage_server.spark.shipping import Receipt
from barrage_server.spark.tasks import PartitionStager, StagedPartition, record_batch_messages
from barrage_server.spark.waiting import WaitPolicy
from barrage_server.spark.workers import missing_module
from barrage_server.wire.commit_messages import StageRequest
from barrage_server.wire.plain_size import plain_batch_size

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

__all__ = ["Lasts", "MicroBatch", "Part", "StagedPart"]

_TYPED: Final = re.compile(r"barrage_server\.(\w+Error): ([^\n]+)")
_ROWS_PER_MESSAGE: Final = 65_536

Lasts = dict[str, int | None]
"""For each table, the last batch that the server knows of the query."""


@dataclass(frozen=True)
class Part:
    """The rows of a micro-batch for one table, with publisher and mode set."""

    frame: DataFrame
    settings: PublishSettings
    schema: pa.Schema

    @classmethod
    def checked(cls, frame: DataFrame, settings: PublishSettings) -> Part:
        """Make a part, and check its columns.

        Raises:
            UnsupportedTypeError, SchemaMismatchError: the table cannot hold a column.
            UnknownColumnError: the rows lack a column that the settings name.
        """
        from barrage_server.spark.arrow_types import arrow_schema

        schema = arrow_schema(frame.schema)
        settings.check_columns(schema)
        return cls(frame, settings, schema)

    @property
    def table(self) -> str:
        """The name of the table."""
        return self.settings.table


@dataclass(frozen=True)
class StagedPart:
    """The staged rows of a part.

    Attributes:
        tokens: the tokens of its partitions in their order, with None for empty ones; None when the data source has
            committed the rows.
        nbytes: the size of the rows, when known.
        way: the path that the rows went: ``DRIVER`` or ``EXECUTORS``.
    """

    tokens: list[str | None] | None
    nbytes: int | None
    way: Ship


@dataclass(frozen=True)
class MicroBatch:
    """One micro-batch.

    Attributes:
        frame: its rows, as Spark passed them.
        parts: its rows by table; only settings of the table differ among them.
        number: its id.
        connection: the connection to the server.
        epoch: the id of the query; None outside of one.
    """

    frame: DataFrame
    parts: tuple[Part, ...]
    number: int
    connection: Publisher
    epoch: str | None

    @property
    def settings(self) -> PublishSettings:
        """The settings that all tables share, with the table settings of the first."""
        return self.parts[0].settings

    @property
    def publisher(self) -> str:
        """The name under which the server remembers the batch."""
        return self.settings.publisher or ""

    @property
    def names(self) -> str:
        """Its tables, for texts."""
        return ", ".join(f"table {part.table!r}" for part in self.parts)

    @property
    def without_waiting(self) -> Publisher:
        """The connection, for calls that do not wait: staged rows expire by themselves."""
        return self.connection.with_policy(WaitPolicy(self.settings.uri, 0.0))

    def lasts(self) -> Lasts:
        """Ask the server for the last batches that it knows of the query.

        Raises:
            FencedError: the query may not publish.
        """
        ask = self.connection.last_batch
        takeover = self.settings.takeover
        return {part.table: ask(self.publisher, part.table, self.epoch, takeover=takeover) for part in self.parts}

    def all_at(self, last: int) -> Lasts:
        """The number ``last`` for every table."""
        return dict.fromkeys((part.table for part in self.parts), last)

    def is_committed(self, part: Part, lasts: Lasts) -> bool:
        """Whether the server has the batch in the table of ``part``."""
        last = lasts[part.table]
        return last is not None and self.number <= last

    def through_driver(self, part: Part) -> StagedPart:
        """Collect the rows of a part on the driver, and stage them there."""
        from barrage_server.spark.arrow_types import with_nullable_fields

        request = StageRequest(self.publisher, part.table, self.number, uuid.uuid4().hex, self.epoch)
        # Other tables may have been staged before this one.
        with kept_alive(self._keep) if len(self.parts) > 1 else contextlib.nullcontext():
            rows = with_nullable_fields(part.frame).toArrow().cast(part.schema)
            batches = rows.to_batches(max_chunksize=_ROWS_PER_MESSAGE)
            staged = self.connection.stage(request, part.schema, batches)
        return StagedPart([staged.token if staged else None], sum(map(plain_batch_size, batches)), Ship.DRIVER)

    def from_executors(self, part: Part, lasts: Lasts) -> StagedPart:
        """Let the tasks of a Spark job stage the rows of a part."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            messages = record_batch_messages(part.frame)
            if messages is None:
                return self._by_data_source(part, lasts) if len(self.parts) == 1 else self.through_driver(part)
            stager = PartitionStager(part.settings, part.schema, self.number, self.epoch)
            with kept_alive(self._keep):
                partitions: list[StagedPartition] = messages.mapPartitions(stager).collect()  # in their order
        except (PySparkException, Py4JError) as error:
            # Tasks that did not fail have staged their rows under unknown tokens.
            with contextlib.suppress(BarrageError):
                self.without_waiting.abort_batch(self.publisher, part.table, self.number, self.epoch)
            raise _typed(error) or missing_module(error) or error from error
        return StagedPart([each.token for each in partitions], sum(each.nbytes for each in partitions), Ship.EXECUTORS)

    def commit(self, parts: Sequence[Part], tokens: Sequence[Iterable[str | None]], lasts: Lasts) -> None:
        """Make the rows staged under ``tokens`` visible as one batch, or drop them."""
        tables = [part.settings.commit_part(part.schema, own) for part, own in zip(parts, tokens, strict=True)]
        known = {lasts[part.table] for part in parts}
        expected = known.pop() if len(known) == 1 else None
        request = self.settings.commit_request(self.publisher, self.number, tables, expected, self.epoch)
        try:
            self.connection.commit(request)
        except BarrageError:
            self.drop(tokens)
            raise

    def drop(self, tokens: Sequence[Iterable[str | None]]) -> None:
        """Drop the rows staged under ``tokens``, if the server can be reached."""
        with contextlib.suppress(BarrageError):
            self.without_waiting.abort(token for own in tokens for token in own if token)

    def _keep(self) -> float:
        """Keep staged rows from expiring; returns the seconds for which they are safe."""
        keep = self.without_waiting.keep_batch
        return min(keep(self.publisher, part.table, self.number, self.epoch) for part in self.parts)

    def _by_data_source(self, part: Part, lasts: Lasts) -> StagedPart:
        """Stage and commit by the data source, which every Spark has."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        from barrage_server.spark.source import register

        with tempfile.TemporaryDirectory(prefix="barrage-") as folder:
            receipt = Path(folder) / "receipt.json"
            options = part.settings.to_options() | {"batch": str(self.number), "receipt": str(receipt)}
            last = lasts[part.table]
            if last is not None:
                options["expectedlast"] = str(last)
            if self.epoch is not None:
                options["epoch"] = self.epoch
            writer = part.frame.write.format("barrage").options(**options).mode("append")
            with kept_alive(self._keep):
                try:
                    writer.save()
                except (PySparkException, Py4JJavaError) as error:
                    # The session of a micro-batch is a clone of the user's, where the first batch registers the format.
                    # PySpark has no class of its own for the error of a session without data sources in Python.
                    if "[DATA_SOURCE_NOT_FOUND]" not in str(error):
                        raise
                    register(part.frame.sparkSession)
                    writer.save()
            found = Receipt.read(receipt)
        return StagedPart(None, None if found is None else found.nbytes, Ship.EXECUTORS)


def _typed(error: Exception) -> BarrageError | None:
    """The error of this package within the text of Spark's error, if any."""
    found = _TYPED.search(str(error))
    kind = getattr(errors, found[1], None) if found and found[1] in errors.__all__ else None
    return kind(found[2]) if found and isinstance(kind, type) and issubclass(kind, BarrageError) else None

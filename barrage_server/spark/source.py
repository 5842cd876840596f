"""The data source ``barrage`` for ``df.writeStream`` and ``df.write``.

Every task stages the rows of its partition under a token of its own; the driver then commits the tokens of the attempts
that Spark counts. Retried and speculative attempts stage twice, and only one of the two is ever visible.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from barrage_server.errors import (
    BarrageError,
    FencedError,
    InternalError,
    InvalidRequestError,
    LostBatchesError,
    PublishError,
    UnsupportedOperationError,
)
from barrage_server.extras import missing_extra
from barrage_server.spark.settings import PublishSettings
from barrage_server.wire.commit_messages import CommitResult, single_write_publisher
from barrage_server.wire.protocol import PublishMode

try:
    from pyspark import TaskContext
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceArrowWriter,
        DataSourceStreamArrowWriter,
        WriterCommitMessage,
    )
except ImportError as error:
    raise missing_extra("Publishing from Spark needs", "spark", error) from error

from barrage_server.spark.arrow_types import arrow_schema, conform
from barrage_server.spark.context import BATCH_ID, QUERY_ID
from barrage_server.spark.gap import check_gap
from barrage_server.spark.publisher import Publisher, ServerAccess, publisher_for
from barrage_server.spark.shipping import Receipt
from barrage_server.spark.tasks import stage_batches
from barrage_server.spark.waiting import WaitPolicy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_COMMIT_SECONDS: Final = 30.0
"""Most seconds that a commit waits for the server.

Spark does not tell the committing process that the query is stopped. The tasks have just reached the server.
"""

__all__ = ["BarrageDataSource", "BatchWriter", "StagedTask", "StreamWriter", "register"]


def register(spark: SparkSession) -> None:
    """Make ``format("barrage")`` known to a session. Once, before the first use."""
    spark.dataSource.register(BarrageDataSource)


@dataclass(frozen=True)
class StagedTask(WriterCommitMessage):  # type: ignore[misc]  # PySpark's base class is untyped here
    """The staged rows of a successful task; ``token`` is None without rows."""

    publisher: str
    token: str | None = field(repr=False)
    rows: int
    nbytes: int
    epoch: str | None = None


class BarrageDataSource(DataSource):  # type: ignore[misc]  # PySpark has no types
    """Writes a stream or a batch into a live table.

    Options have the names of the arguments of :class:`~barrage_server.spark.BarrageSink`, and mean the same; case and
    underscores do not matter. ``key`` has commas between names. ``mode`` is by default upsert with a key, append
    without, and replace in complete mode or when overwriting. ``ship`` and ``ship_threshold`` are for the sink alone:
    here the tasks always send their own rows.

    Output modes are append and complete. Spark refuses update mode for data sources written in Python: publish from
    ``foreachBatch`` with :class:`~barrage_server.spark.BarrageSink` instead.
    """

    @classmethod
    def name(cls) -> str:
        """``barrage``."""
        return "barrage"

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """The writer for ``df.write``, made on the driver, which checks the settings."""
        return BatchWriter(self.options, arrow_schema(schema), overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        """The writer for ``df.writeStream``; ``overwrite`` is set in complete mode."""
        return StreamWriter(self.options, arrow_schema(schema), overwrite)


class _Writer:
    """The base of both writers, which are pickled to the executors."""

    def __init__(self, options: Any, schema: pa.Schema, overwrite: bool) -> None:
        settings = PublishSettings.from_options(options)
        if settings.mode is None:
            keyed = PublishMode.UPSERT if settings.key else PublishMode.APPEND
            settings = replace(settings, mode=PublishMode.REPLACE if overwrite else keyed)
        settings.check_columns(schema)
        publisher_for(ServerAccess.of(settings)).check_server()
        self.settings = settings
        self.schema = schema

    def connect(self, seconds: float) -> Publisher:
        """The connection of this process, which waits ``seconds`` at most."""
        settings = self.settings
        connection = publisher_for(ServerAccess.of(settings))
        return connection.with_policy(WaitPolicy(settings.uri, min(seconds, settings.retry_seconds)))

    def stage(
        self, iterator: Iterator[pa.RecordBatch], publisher: str, batch: int, epoch: str | None = None
    ) -> StagedTask:
        """Stage the rows of one task attempt."""
        batches = (conform(rows, self.schema) for rows in iterator)
        staged = stage_batches(self.settings, publisher, batch, self.schema, batches, epoch)
        return StagedTask(publisher, staged.token, staged.rows, staged.nbytes, epoch)

    def commit_tasks(
        self,
        tasks: Sequence[StagedTask],
        publisher: str,
        batch: int,
        expected_last: int | None = None,
        epoch: str | None = None,
    ) -> CommitResult:
        """Make the rows of ``tasks`` visible as one batch, in their order."""
        tokens = [task.token for task in tasks]
        part = self.settings.commit_part(self.schema, tokens)
        request = self.settings.commit_request(publisher, batch, [part], expected_last, epoch)
        return self.connect(_COMMIT_SECONDS).commit(request)

    def drop(self, tasks: Sequence[StagedTask]) -> None:
        """Drop the rows that ``tasks`` have staged, if the server can be reached."""
        with contextlib.suppress(BarrageError):
            self.connect(0.0).abort(task.token for task in tasks if task.token)


class BatchWriter(_Writer, DataSourceArrowWriter):  # type: ignore[misc]  # PySpark has no types
    """``df.write.format("barrage")``: each write is one batch, or a sink's batch."""

    def __init__(self, options: Any, schema: pa.Schema, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite)
        if overwrite and self.settings.mode is not PublishMode.REPLACE:
            raise InvalidRequestError(
                f'mode("overwrite") and the option mode={str(self.settings.mode)!r} contradict each other; leave the '
                'option out, or write with mode("append").'
            )
        # Made once on the driver, and pickled, so that all tasks and the commit agree on it.
        self.publisher = self.settings.publisher or single_write_publisher(uuid.uuid4())
        self.batch = int(options.get("batch", 0))
        self.receipt: str | None = options.get("receipt")
        self.expected_last = int(options["expectedlast"]) if "expectedlast" in options else None
        self.epoch: str | None = options.get("epoch")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedTask:
        """On an executor: stage the rows of one partition."""
        return self.stage(iterator, self.publisher, self.batch, self.epoch)

    def commit(self, messages: list[Any]) -> None:
        """On the driver: commit the rows of the successful attempts."""
        tasks = _tasks(messages)
        self.commit_tasks(tasks, self.publisher, self.batch, self.expected_last, self.epoch)
        if self.receipt is not None:
            Receipt(sum(task.rows for task in tasks), sum(task.nbytes for task in tasks)).write(Path(self.receipt))

    def abort(self, messages: list[Any]) -> None:
        """On the driver: drop the rows of a failed job."""
        self.drop(_tasks(messages))


class StreamWriter(_Writer, DataSourceStreamArrowWriter):  # type: ignore[misc]  # PySpark has no types
    """``df.writeStream.format("barrage")``: one batch per micro-batch."""

    def __init__(self, options: Any, schema: pa.Schema, overwrite: bool) -> None:
        if str(options.get("mode", "")).lower() == "update":
            raise UnsupportedOperationError(
                "Spark refuses update mode for data sources written in Python. Publish updates from foreachBatch: "
                'df.writeStream.outputMode("update").foreachBatch(BarrageSink(uri, table="...", key=["..."])).start()'
            )
        super().__init__(options, schema, overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedTask:
        """On an executor: stage the rows of one partition of a micro-batch."""
        context = TaskContext.get()
        query = context.getLocalProperty(QUERY_ID) if context else None
        batch = context.getLocalProperty(BATCH_ID) if context else None
        if query is None or batch is None:
            raise InternalError(
                "Spark did not say which query and batch this task belongs to; use foreachBatch instead."
            )
        return self.stage(iterator, self.settings.publisher or query, int(batch), query)

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        """On the driver: commit the micro-batch, once."""
        tasks = _tasks(messages)
        if tasks:
            self._commit_next(tasks, tasks[0].publisher, tasks[0].epoch, batchId)
        elif self.settings.mode is PublishMode.REPLACE:
            # No task has run, so the query is unknown; replacing all rows by none is safe to repeat.
            self.commit_tasks((), single_write_publisher(uuid.uuid4()), batchId)

    def _commit_next(self, tasks: Sequence[StagedTask], publisher: str, epoch: str | None, batch: int) -> None:
        """Commit the next batch. The server is asked for the last one if it refuses."""
        expected = batch - 1 if batch > 0 else None
        try:
            self.commit_tasks(tasks, publisher, batch, expected, epoch)
        except FencedError:
            self.drop(tasks)
            raise
        except PublishError:
            settings = self.settings
            connection = self.connect(_COMMIT_SECONDS)
            last = connection.last_batch(publisher, settings.table, epoch, takeover=settings.takeover)
            try:
                check_gap(settings, publisher, batch, last, partial(connection.takes_gaps, publisher, settings.table))
            except LostBatchesError:
                self.drop(tasks)
                raise
            if last == expected:
                raise
            self.commit_tasks(tasks, publisher, batch, last, epoch)

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: ARG002, N803
        """On the driver: drop the rows of a failed micro-batch."""
        self.drop(_tasks(messages))


def _tasks(messages: list[Any]) -> list[StagedTask]:
    # Spark puts None where a task has failed.
    return [message for message in messages if isinstance(message, StagedTask)]

"""The tasks of a Spark job, which send the rows of a batch to the server.

Spark's Java side turns each partition into Arrow record batches. The task's Python worker reads them in place and sends
them, and the driver commits. Spark keeps the worker for the next task, so a batch starts no process. Spark's data
source interface starts two processes per batch, and hands rows to its workers in a slower way.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from barrage_server.process import keep_freed_memory
from barrage_server.spark.context import is_classic
from barrage_server.spark.publisher import ServerAccess, publisher_for
from barrage_server.spark.settings import PublishSettings
from barrage_server.spark.waiting import WaitPolicy
from barrage_server.spark.worker import QuickAckSockets, keep_what_is_loaded
from barrage_server.wire.commit_messages import StageRequest
from barrage_server.wire.plain_size import plain_batch_size

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame

__all__ = ["PartitionStager", "StagedPartition", "record_batch_messages", "stage_batches"]

_KEPT_BYTES: Final = 16 << 20
"""Freed bytes that a worker keeps. Without, each message of some 0.3 MB is read into fresh memory."""


@dataclass(frozen=True, slots=True)
class StagedPartition:
    """The staged rows of a successful task; ``token`` is None without rows."""

    token: str | None = field(repr=False)
    rows: int
    nbytes: int


def stage_batches(
    settings: PublishSettings,
    publisher: str,
    batch: int,
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    epoch: str | None,
) -> StagedPartition:
    """Stage the rows of one task over the connection of this process."""
    nbytes = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal nbytes
        for rows in batches:
            sockets.acknowledge()
            nbytes += plain_batch_size(rows)
            yield rows

    keep_freed_memory(_KEPT_BYTES)
    request = StageRequest(publisher, settings.table, batch, uuid.uuid4().hex, epoch)
    connection = publisher_for(ServerAccess.of(settings)).with_policy(WaitPolicy(settings.uri, settings.retry_seconds))
    with QuickAckSockets() as sockets:
        sockets.acknowledge()
        result = connection.stage(request, schema, counted())
    keep_what_is_loaded()
    return StagedPartition(result.token if result else None, result.rows if result else 0, nbytes)


@dataclass(frozen=True, slots=True)
class PartitionStager:
    """The function of each task, pickled with settings that name the publisher."""

    settings: PublishSettings
    schema: pa.Schema
    batch: int
    epoch: str | None = None

    def __call__(self, messages: Iterator[bytes]) -> Iterator[StagedPartition]:
        """Stage one partition, given as encapsulated IPC messages, each a record batch."""
        batches = (pa.ipc.read_record_batch(pa.py_buffer(message), self.schema) for message in messages)
        publisher = self.settings.publisher or ""
        yield stage_batches(self.settings, publisher, self.batch, self.schema, batches, self.epoch)


def record_batch_messages(frame: DataFrame) -> RDD[bytes] | None:
    """The rows of ``frame`` as encapsulated IPC messages, each a record batch.

    None when this Spark does not provide them. Their layout is that of
    :func:`~barrage_server.spark.arrow_types.arrow_schema`. Spark's schema differs in names, zones and nullability, but
    the messages have no schema.
    """
    if not is_classic(frame.sparkSession):
        return None
    from py4j.protocol import Py4JError
    from pyspark import RDD
    from pyspark.serializers import NoOpSerializer

    if frame.sparkSession.conf.get("spark.sql.execution.arrow.useLargeVarTypes", "false") == "true":
        return None  # texts would have 64-bit offsets
    try:
        messages = frame._jdf.toArrowBatchRdd().toJavaRDD()
    except Py4JError as error:
        # Not public, so another Spark may lack it. Errors of Java itself are about the query.
        if "does not exist" in str(error):
            return None
        raise
    return RDD(messages, frame.sparkSession.sparkContext, NoOpSerializer())

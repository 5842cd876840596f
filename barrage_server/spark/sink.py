"""``foreachBatch(BarrageSink(...))``: a streaming query in any output mode, as a live table."""

from __future__ import annotations

import contextlib
import logging
import re
import tempfile
import uuid
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barrage_server import errors
from barrage_server.errors import BarrageError, InvalidRequestError, KeyMismatchError
from barrage_server.spark.context import output_mode, plan_size, publisher_id
from barrage_server.spark.publisher import Publisher, publisher_for
from barrage_server.spark.settings import (
    DEFAULT_SHIP_THRESHOLD,
    PublishSettings,
    Ship,
    no_key_text,
    parse_key,
    parse_kind,
    parse_mode,
    parse_ship,
)
from barrage_server.spark.shipping import Receipt, Shipped, choose, expected_size
from barrage_server.spark.tasks import PartitionStager, StagedPartition, record_batch_messages
from barrage_server.wire.protocol import CommitRequest, PublishMode, StageRequest

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["BarrageSink"]

_log: Final = logging.getLogger("barrage_server.spark")
_TYPED: Final = re.compile(r"barrage_server\.errors\.(\w+): ([^\n]+)")
_ROWS_PER_MESSAGE: Final = 65_536


class BarrageSink:
    """Publishes every micro-batch of a streaming query into one live table: once, however often Spark repeats it.

    ::

        sink = BarrageSink("grpc://host:8815", table="carriers", key=["carrier"])
        df.groupBy("carrier").count().writeStream.outputMode("update").foreachBatch(sink).start()

    The server remembers the last batch per query and table, so a batch that Spark replays after a failure, or after a
    restart from its checkpoint, changes nothing. Two queries may write into one table. One query that writes into one
    table through two sinks must give each its own ``publisher``.

    Rows of a micro-batch have no order among partitions unless ``order_by`` names a column to sort it by. When a key
    comes twice within a batch, the last row wins, in that order.

    A sink holds settings only: it can be pickled, and it connects when the first batch comes.

    Args:
        uri: the server, ``grpc://host:port``, ``grpc+tls://host:port`` or ``host:port``.
        table: the live table's name; the first batch makes it if it is not there.
        key: the columns that say which row is meant. Update mode needs them. They may hold nulls.
        mode: ``append``, ``upsert`` (Spark's ``update``), ``replace`` (``complete``) or ``delete`` (rows with the keys
            of the batch go away). By default what the query's output mode asks for: append without a key, upsert with
            one, and replace in complete mode.
        order_by: sort each batch by this column, ascending, before it is applied.
        ship: ``driver`` collects a batch and sends it from there; ``executors`` lets every task send its own rows;
            ``auto`` takes the driver for batches that are expected to have at most ``ship_threshold`` bytes.
        ship_threshold: bytes of Arrow data, 4 MiB by default.
        kind: ``ring`` (the last ``capacity`` rows) or ``blink`` (rows live for one cycle) instead of an append table.
        capacity: rows that a ring keeps.
        publisher: the name under which the server remembers the last batch; the streaming query's id by default, which
            a restart from the checkpoint keeps. Needed with Spark Connect, which does not tell that id.
        token: for a server that asks for one.
        tls_root_certs: PEM text of the certificates to trust.

    Raises:
        KeyMismatchError: updates without a key; when called, also: other keys than the table's.
        InvalidRequestError: a setting that cannot be.
        UnsupportedTypeError: when called: a column whose type no table can hold.
        SchemaMismatchError: when called: columns that differ from the table's.
        UnavailableError: when called: no server there.
    """

    def __init__(
        self,
        uri: str,
        *,
        table: str,
        key: str | Iterable[str] | None = None,
        mode: str | None = None,
        order_by: str | None = None,
        ship: str = "auto",
        ship_threshold: int = DEFAULT_SHIP_THRESHOLD,
        kind: str | None = None,
        capacity: int | None = None,
        publisher: str | None = None,
        token: str | None = None,
        tls_root_certs: str | None = None,
    ) -> None:
        self.settings = PublishSettings(
            uri=uri,
            table=table,
            key=parse_key(key),
            mode=parse_mode(mode),
            order_by=order_by,
            ship=parse_ship(ship),
            ship_threshold=ship_threshold,
            kind=parse_kind(kind),
            capacity=capacity,
            publisher=publisher,
            token=token,
            tls_root_certs=tls_root_certs,
        )
        self._shipped: dict[str, Shipped] = {}

    def __repr__(self) -> str:
        return f"<BarrageSink {self.settings.table!r} at {self.settings.uri}>"

    def __getstate__(self) -> dict[str, Any]:
        return {"settings": self.settings, "_shipped": {}}

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Publish ``frame`` as batch ``batch_id``: what Spark calls once per micro-batch.

        When the server has that batch already, nothing is sent.
        """
        from barrage_server.spark.arrow_types import arrow_schema

        spark = frame.sparkSession
        query = publisher_id(spark)
        settings = self._resolved(spark, query)
        schema = arrow_schema(frame.schema)
        settings.check_columns(schema)
        publisher = settings.publisher or ""
        connection = publisher_for(settings.uri, settings.token, settings.tls_root_certs)
        last = connection.last_batch(publisher, settings.table)
        if last is not None and batch_id <= last:
            _log.info("batch %d of table %r is there already (last is %d)", batch_id, settings.table, last)
            if query is not None:
                # Computed all the same, and thrown away: a query with state must bring its state to this batch.
                frame.write.format("noop").mode("overwrite").save()
            return
        planned = plan_size(frame) if settings.ship is Ship.AUTO else None
        expected = expected_size(planned, self._shipped.get(publisher))
        way = choose(settings.ship, settings.ship_threshold, expected)
        nbytes: int | None
        if way is Ship.DRIVER:
            nbytes = _through_driver(frame, settings, schema, connection, batch_id)
        else:
            nbytes = _from_executors(frame, settings, schema, connection, batch_id)
        if nbytes is not None:
            self._shipped[publisher] = Shipped(planned, nbytes)
        _log.debug("batch %d of table %r went by %s: %s bytes", batch_id, settings.table, way, nbytes)

    def _resolved(self, spark: SparkSession, query: str | None) -> PublishSettings:
        """The settings with publisher and mode filled in from the query that is running."""
        settings = self.settings
        publisher = settings.publisher or query
        if publisher is None:
            if not hasattr(spark, "sparkContext") or not hasattr(spark, "_jsparkSession"):
                raise InvalidRequestError(
                    "Spark Connect does not tell a sink which query it belongs to; give it a name that stays the same "
                    f'when the query is restarted: BarrageSink(..., table={settings.table!r}, publisher="my-query").'
                )
            publisher = spark.sparkContext.applicationId
        mode = settings.mode
        if mode is None:
            asked = output_mode(spark, query) or PublishMode.APPEND
            if asked is PublishMode.UPSERT and settings.key is None:
                raise KeyMismatchError(no_key_text(settings.table, asked))
            mode = PublishMode.UPSERT if asked is PublishMode.APPEND and settings.key else asked
        return replace(settings, publisher=publisher, mode=mode)


def _through_driver(
    frame: DataFrame, settings: PublishSettings, schema: pa.Schema, connection: Publisher, batch: int
) -> int:
    """Collect the batch, stage it as one, commit it; its size in bytes."""
    from barrage_server.spark.arrow_types import with_nullable_fields

    rows = with_nullable_fields(frame).toArrow().cast(schema)
    request = StageRequest(settings.publisher or "", settings.table, batch, uuid.uuid4().hex)
    staged = connection.stage(request, schema, rows.to_batches(max_chunksize=_ROWS_PER_MESSAGE))
    _commit(connection, settings, schema, batch, (staged.token,) if staged else ())
    return int(rows.nbytes)


def _from_executors(
    frame: DataFrame, settings: PublishSettings, schema: pa.Schema, connection: Publisher, batch: int
) -> int | None:
    """Let the tasks stage their rows, and commit them; the batch's size in bytes, when that is known."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        messages = record_batch_messages(frame)
        if messages is None:
            return _by_data_source(frame, settings, batch)
        # In the order of the partitions.
        stager = PartitionStager(settings, schema, batch)
        parts: list[StagedPartition] = messages.mapPartitions(stager).collect()
    except (PySparkException, Py4JError) as error:
        # The tasks that did not fail have staged their rows, and nobody has heard of their tokens.
        with contextlib.suppress(BarrageError):
            connection.abort_batch(settings.publisher or "", settings.table, batch)
        raise _typed(error) or error from error
    _commit(connection, settings, schema, batch, tuple(part.token for part in parts if part.token))
    return sum(part.nbytes for part in parts)


def _commit(
    connection: Publisher, settings: PublishSettings, schema: pa.Schema, batch: int, tokens: tuple[str, ...]
) -> None:
    """Make what is staged under ``tokens`` visible as one batch, or drop it."""
    commit = CommitRequest(
        publisher=settings.publisher or "",
        table=settings.table,
        batch=batch,
        mode=settings.mode or PublishMode.APPEND,
        tokens=tokens,
        key=settings.key,
        order_by=settings.order_by,
        schema=schema,
        kind=settings.kind,
        capacity=settings.capacity,
    )
    try:
        connection.commit(commit)
    except BarrageError:
        with contextlib.suppress(BarrageError):
            connection.abort(tokens)
        raise


def _by_data_source(frame: DataFrame, settings: PublishSettings, batch: int) -> int | None:
    """The same through the data source, which every Spark has; it commits too."""
    from pyspark.errors import PySparkException

    from barrage_server.spark.source import register

    with tempfile.TemporaryDirectory(prefix="barrage-") as folder:
        receipt = Path(folder) / "receipt.json"
        options = settings.to_options() | {"batch": str(batch), "receipt": str(receipt)}
        writer = frame.write.format("barrage").options(**options).mode("append")
        try:
            writer.save()
        except PySparkException as error:
            # The session of a micro-batch is a clone of the user's; the first batch makes the format known to it.
            if "[DATA_SOURCE_NOT_FOUND]" not in str(error):
                raise
            register(frame.sparkSession)
            writer.save()
        found = Receipt.read(receipt)
    return None if found is None else found.nbytes


def _typed(error: Exception) -> BarrageError | None:
    """Our own error within the text of Spark's, which is all that is left of one raised in another process."""
    found = _TYPED.search(str(error))
    kind = getattr(errors, found[1], None) if found and found[1] in errors.__all__ else None
    return kind(found[2]) if found and isinstance(kind, type) and issubclass(kind, BarrageError) else None

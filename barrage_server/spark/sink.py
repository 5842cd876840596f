"""``foreachBatch(BarrageSink(...))``: a streaming query in any output mode, as a live table."""

from __future__ import annotations

import contextlib
import logging
import re
import tempfile
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barrage_server import errors
from barrage_server.errors import (
    BarrageError,
    DeadlineError,
    DependencyError,
    InvalidRequestError,
    KeyMismatchError,
    PublishError,
    UnavailableError,
)
from barrage_server.pem import Pem
from barrage_server.spark.context import output_mode, plan_size, publisher_id, sleep_for
from barrage_server.spark.gap import check_gap
from barrage_server.spark.publisher import Publisher, publisher_for
from barrage_server.spark.settings import (
    DEFAULT_RETRY_SECONDS,
    DEFAULT_SHIP_THRESHOLD,
    PublishSettings,
    Ship,
    no_key_text,
    parse_certificates,
    parse_key,
    parse_kind,
    parse_mode,
    parse_on_gap,
    parse_retry_seconds,
    parse_ship,
    parse_token,
)
from barrage_server.spark.shipping import Receipt, Shipped, choose, expected_size
from barrage_server.spark.tasks import PartitionStager, StagedPartition, record_batch_messages
from barrage_server.spark.waiting import Wait, WaitPolicy, has_given_up
from barrage_server.spark.workers import Workers, missing_module
from barrage_server.wire.plain_size import plain_batch_size
from barrage_server.wire.protocol import PublishMode, StageRequest

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["BarrageSink"]

_log: Final = logging.getLogger("barrage_server.spark")
_TYPED: Final = re.compile(r"barrage_server\.(\w+Error): ([^\n]+)")
_ROWS_PER_MESSAGE: Final = 65_536


class BarrageSink:
    """Publishes every micro-batch of a streaming query into one live table, once per batch id.

    ::

        sink = BarrageSink("grpc://host:8815", table="carriers", key=["carrier"])
        df.groupBy("carrier").count().writeStream.outputMode("update").foreachBatch(sink).start()

    The server remembers the last batch per query and table, so a batch that Spark replays after a failure, or after a
    restart from its checkpoint, changes nothing. Two queries may write into one table. One query that writes into one
    table through two sinks must give each its own ``publisher``.

    Rows of a micro-batch have no order among partitions unless ``order_by`` names a column to sort it by. Where a key
    occurs twice in a batch, the last row in that order wins.

    A sink holds settings only, so it can be pickled. The constructor checks the address and the token, if the server
    answers; the first batch waits for a server that does not answer yet.

    Args:
        uri: the server, ``grpc://host:port``, ``grpc+tls://host:port`` or ``host:port``.
        table: the live table's name; the first batch creates it if it does not exist.
        key: the columns that identify a row. Update mode needs them. They may hold nulls.
        mode: ``append``, ``upsert`` (Spark's ``update``), ``replace`` (``complete``) or ``delete`` (removes rows with
            the keys of the batch). By default from the query's output mode: append without a key, upsert with one, and
            replace in complete mode.
        order_by: sort each batch by this column, ascending, before it is applied.
        ship: ``driver`` collects a batch and sends it from there; ``executors`` lets every task send its own rows;
            ``auto`` takes the driver for batches of at most ``ship_threshold`` expected bytes, and for all when the
            workers lack this package, which a small job checks before the first batch.
        ship_threshold: bytes of Arrow data, 4 MiB by default.
        kind: ``ring`` (the last ``capacity`` rows) or ``blink`` (rows live for one cycle) instead of an append table.
        capacity: number of rows of a ring.
        publisher: the name under which the server remembers the last batch; the streaming query's id by default, which
            a restart from the checkpoint keeps. Needed with Spark Connect, which does not provide that id.
        retry_seconds: seconds that a batch waits for an unreachable server, 300 by default; infinity for no limit. The
            log names the address. Stopping the query ends the wait.
        on_gap: what to do when the server does not know the batches before this one, because it was restarted or the
            table was dropped: ``fail`` the batch, with a text that says how to replay, or ``warn`` and continue without
            them. Complete mode and blink tables need neither.
        token: the server's token; by default that of the driver's environment variable ``BARRAGE_TOKEN``.
        tls_root_certs: certificates to trust, as PEM text or the path of a file on the driver's machine.

    Raises:
        KeyMismatchError: updates without a key; when called, also: other keys than the table's.
        InvalidRequestError: a wrong setting, or the address of another kind of server.
        AuthenticationError: the token is missing or wrong.
        DependencyError: when called: the workers lack this package, with ``ship="executors"``.
        PublishError: when called: batches before this one are missing on the server.
        UnsupportedTypeError: when called: a column whose type no table can hold.
        SchemaMismatchError: when called: columns that differ from the table's.
        UnavailableError: when called: the server did not answer for ``retry_seconds``.
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
        retry_seconds: float = DEFAULT_RETRY_SECONDS,
        on_gap: str = "fail",
        token: str | None = None,
        tls_root_certs: Pem | None = None,
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
            retry_seconds=parse_retry_seconds(retry_seconds),
            on_gap=parse_on_gap(on_gap),
            token=parse_token(token),
            tls_root_certs=parse_certificates(tls_root_certs),
        )
        self._shipped: dict[str, Shipped] = {}
        self._committed: dict[str, int] = {}  # the last batch of each publisher, as the server has confirmed it
        publisher_for(self.settings.uri, self.settings.token, self.settings.tls_root_certs).check_server()

    def __repr__(self) -> str:
        return f"<BarrageSink {self.settings.table!r} at {self.settings.uri}>"

    def __getstate__(self) -> dict[str, Any]:
        return {"settings": self.settings, "_shipped": {}, "_committed": {}}

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
        policy = WaitPolicy(settings.uri, settings.retry_seconds, sleep_for(spark, query))
        connection = publisher_for(settings.uri, settings.token, settings.tls_root_certs).with_policy(policy)
        batch = _Batch(frame, batch_id, settings, schema, connection)
        wait = Wait(policy)
        # The server is asked once per query: after that each batch follows the one before, which its commit checks.
        last = self._committed.pop(batch.publisher, None)
        if last is None or last != batch_id - 1:
            last = connection.last_batch(batch.publisher, settings.table)
        while True:
            if last is not None and batch_id <= last:
                self._committed[batch.publisher] = last
                _log_repetition(batch, last)
                if query is not None:
                    # Computed and discarded: a stateful query must advance its state to this batch.
                    frame.write.format("noop").mode("overwrite").save()
                return
            check_gap(settings, batch.publisher, batch_id, last)
            try:
                self._ship(batch, last)
            except (UnavailableError, DeadlineError) as error:
                # The connection was lost on the way, and with it what the server had of the batch.
                if has_given_up(error):
                    raise
                wait.pause(error)
                last = connection.last_batch(batch.publisher, settings.table)
            except PublishError:
                # The server may have been restarted between staging and commit. Else the fault is another.
                before, last = last, connection.last_batch(batch.publisher, settings.table)
                if last == before:
                    raise
            else:
                self._committed[batch.publisher] = batch_id
                return

    def _ship(self, batch: _Batch, last: int | None) -> None:
        """Send and commit a batch that follows the server's ``last`` one."""
        settings = batch.settings
        workers = Workers(batch.frame.sparkSession)
        planned = plan_size(batch.frame) if settings.ship is Ship.AUTO else None
        expected = expected_size(planned, self._shipped.get(batch.publisher))
        way = choose(settings.ship, settings.ship_threshold, expected)
        lack = "" if settings.ship is Ship.DRIVER else workers.lack()
        if lack and settings.ship is Ship.EXECUTORS:
            raise DependencyError(workers.text(lack))
        nbytes: int | None
        if way is Ship.DRIVER or lack:
            nbytes = _through_driver(batch, last)
        else:
            try:
                nbytes = _from_executors(batch, last)
            except DependencyError as error:  # not every worker is like the one that was asked
                if settings.ship is Ship.EXECUTORS:
                    raise DependencyError(workers.text(str(error))) from error
                workers.found_lacking(str(error))
                nbytes = _through_driver(batch, last)
        if nbytes is not None:
            self._shipped[batch.publisher] = Shipped(planned, nbytes)
        _log.debug("batch %d of table %r went by %s: %s bytes", batch.number, settings.table, way, nbytes)

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


@dataclass(frozen=True)
class _Batch:
    """One micro-batch on its way. ``settings`` name publisher and mode."""

    frame: DataFrame
    number: int
    settings: PublishSettings
    schema: pa.Schema
    connection: Publisher

    @property
    def publisher(self) -> str:
        """The name under which the server remembers the batch."""
        return self.settings.publisher or ""

    @property
    def impatient(self) -> Publisher:
        """The connection, for what is not worth waiting for: what is staged expires by itself."""
        return self.connection.with_policy(WaitPolicy(self.settings.uri, 0.0))


def _log_repetition(batch: _Batch, last: int) -> None:
    """Log that ``batch`` is committed already."""
    _log.info("batch %d of table %r is there already (last is %d)", batch.number, batch.settings.table, last)
    if batch.number < last:  # Spark replays the last batch alone
        _log.warning(
            "batch %d of table %r counts as a repetition: publisher %r has committed batches up to %d. "
            "A query that restarts with another checkpoint needs another publisher, or a new table.",
            batch.number,
            batch.settings.table,
            batch.publisher,
            last,
        )


def _through_driver(batch: _Batch, last: int | None) -> int:
    """Collect the batch, stage it as one, commit it; its size in bytes."""
    from barrage_server.spark.arrow_types import with_nullable_fields

    rows = with_nullable_fields(batch.frame).toArrow().cast(batch.schema)
    request = StageRequest(batch.publisher, batch.settings.table, batch.number, uuid.uuid4().hex)
    batches = rows.to_batches(max_chunksize=_ROWS_PER_MESSAGE)
    staged = batch.connection.stage(request, batch.schema, batches)
    _commit(batch, (staged.token if staged else None,), last)
    return sum(map(plain_batch_size, batches))


def _from_executors(batch: _Batch, last: int | None) -> int | None:
    """Let the tasks stage their rows, and commit them; the batch's size in bytes, when that is known."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        messages = record_batch_messages(batch.frame)
        if messages is None:
            return _by_data_source(batch, last)
        # In the order of the partitions.
        stager = PartitionStager(batch.settings, batch.schema, batch.number)
        parts: list[StagedPartition] = messages.mapPartitions(stager).collect()
    except (PySparkException, Py4JError) as error:
        # The tasks that did not fail have staged their rows, and nothing here knows their tokens.
        with contextlib.suppress(BarrageError):
            batch.impatient.abort_batch(batch.publisher, batch.settings.table, batch.number)
        raise _typed(error) or missing_module(error) or error from error
    _commit(batch, [part.token for part in parts], last)
    return sum(part.nbytes for part in parts)


def _commit(batch: _Batch, tokens: Sequence[str | None], last: int | None) -> None:
    """Make what is staged under ``tokens`` visible as one batch, or drop it."""
    request = batch.settings.commit_request(batch.publisher, batch.number, batch.schema, tokens, last)
    try:
        batch.connection.commit(request)
    except BarrageError:
        with contextlib.suppress(BarrageError):
            batch.impatient.abort(request.tokens)
        raise


def _by_data_source(batch: _Batch, last: int | None) -> int | None:
    """The same through the data source, which every Spark has; it commits too."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from barrage_server.spark.source import register

    with tempfile.TemporaryDirectory(prefix="barrage-") as folder:
        receipt = Path(folder) / "receipt.json"
        options = batch.settings.to_options() | {"batch": str(batch.number), "receipt": str(receipt)}
        if last is not None:
            options["expectedlast"] = str(last)
        writer = batch.frame.write.format("barrage").options(**options).mode("append")
        try:
            writer.save()
        except (PySparkException, Py4JJavaError) as error:
            # The session of a micro-batch is a clone of the user's; the first batch makes the format known to it.
            # PySpark has no class of its own for what a session raises that knows no data source in Python at all.
            if "[DATA_SOURCE_NOT_FOUND]" not in str(error):
                raise
            register(batch.frame.sparkSession)
            writer.save()
        found = Receipt.read(receipt)
    return None if found is None else found.nbytes


def _typed(error: Exception) -> BarrageError | None:
    """Our own error within the text of Spark's, which is all that is left of one raised in another process."""
    found = _TYPED.search(str(error))
    kind = getattr(errors, found[1], None) if found and found[1] in errors.__all__ else None
    return kind(found[2]) if found and isinstance(kind, type) and issubclass(kind, BarrageError) else None

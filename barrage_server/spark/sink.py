"""``foreachBatch(BarrageSink(...))``: a streaming query as live tables.

All output modes are supported.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barrage_server.arguments import shown
from barrage_server.errors import (
    DeadlineError,
    DependencyError,
    FencedError,
    InvalidRequestError,
    KeyMismatchError,
    PublishError,
    UnavailableError,
)
from barrage_server.pem import Pem
from barrage_server.spark.context import is_classic, output_mode, plan_size, publisher_id, sleep_for
from barrage_server.spark.gap import check_gap
from barrage_server.spark.micro_batch import Lasts, MicroBatch, Part
from barrage_server.spark.publisher import ServerAccess, publisher_for
from barrage_server.spark.settings import (
    DEFAULT_RETRY_SECONDS,
    DEFAULT_SHIP_THRESHOLD,
    PublishSettings,
    Ship,
    no_key_text,
    parse_certificates,
    parse_identity,
    parse_key,
    parse_kind,
    parse_log_in,
    parse_mode,
    parse_retry_seconds,
    parse_ship,
)
from barrage_server.spark.shipping import Shipped, choose, expected_size
from barrage_server.spark.sink_table import SinkTable
from barrage_server.spark.waiting import Wait, WaitPolicy, has_given_up
from barrage_server.spark.workers import Workers
from barrage_server.wire.protocol import PublishMode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["BarrageSink"]

_log: Final = logging.getLogger("barrage_server.spark")


class BarrageSink:
    """Publishes every micro-batch of a streaming query once, into live tables.

    ::

        sink = BarrageSink("grpc://host:8815", table="carriers", key=["carrier"])
        df.groupBy("carrier").count().writeStream.outputMode("update").foreachBatch(sink).start()

    The server remembers the last batch per query and table, so a batch that Spark replays after a failure, or after a
    restart from its checkpoint, changes nothing. Two queries may write into one table. One query that writes into one
    table through two sinks must give each its own ``publisher``.

    One sink publishes a batch into several tables at once; readers see all of them with the batch, or none::

        sink = BarrageSink(uri, tables={
            "flights": SinkTable(lambda batch: batch.select("flight", "carrier", "delay")),
            "worst": SinkTable(lambda batch: batch.groupBy("carrier").agg(max("delay")), key="carrier", mode="upsert"),
        })

    Rows of a micro-batch have no order among partitions unless ``order_by`` names a column to sort it by. Where a key
    occurs twice in a batch, the last row in that order wins.

    A sink holds settings only, so it can be pickled. The constructor checks the address and the token, if the server
    answers; the first batch waits for a server that does not answer yet.

    Args:
        uri: the server, ``grpc://host:port``, ``grpc+tls://host:port`` or ``host:port``.
        table: the live table's name; the first batch creates it if it does not exist.
        tables: several live tables in the place of one, by name: a batch changes all of them in one cycle, or none.
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
            a restart from the checkpoint keeps. Needed with Spark Connect, which does not provide that id. A query with
            a new checkpoint is a new epoch of the name, and refused unless ``takeover``.
        retry_seconds: seconds that a batch waits for an unreachable server, 300 by default; infinity for no limit. The
            log names the address. Stopping the query ends the wait.
        allow_gap: publish a batch although the server does not know those before it, because it was restarted or the
            table was dropped; the log warns. Otherwise the batch fails, with a text that says how to replay. Complete
            mode and blink tables do not need it.
        takeover: let a query with a new checkpoint take over the name ``publisher``: its batches count from 0 again,
            and the query before it is refused from then on.
        token: the server's token; by default that of the driver's environment variable ``BARRAGE_TOKEN``.
        user: name of a user, instead of a token.
        password: the user's password; by default that of the driver's environment variable ``BARRAGE_PASSWORD``.
        tls_root_certs: certificates to trust, as PEM text or the path of a file on the driver's machine.
        tls_certificate: a certificate to show to servers that require one, likewise. The executors show it too.
        tls_key: its private key, likewise.

    Raises:
        KeyMismatchError: updates without a key; when called, also: other keys than the table's.
        InvalidRequestError: a wrong setting, or the address of another kind of server.
        AuthenticationError: the token is missing or wrong.
        DependencyError: when called: the workers lack this package, with ``ship="executors"``.
        LostBatchesError: when called: batches before this one are missing on the server.
        FencedError: when called: another query, or another user, has the publisher's name.
        UnsupportedTypeError: when called: a column whose type no table can hold.
        SchemaMismatchError: when called: columns that differ from the table's.
        UnavailableError: when called: the server did not answer for ``retry_seconds``.
    """

    def __init__(
        self,
        uri: str,
        *,
        table: str | None = None,
        tables: Mapping[str, SinkTable] | None = None,
        key: str | Iterable[str] | None = None,
        mode: str | None = None,
        order_by: str | None = None,
        ship: str = "auto",
        ship_threshold: int = DEFAULT_SHIP_THRESHOLD,
        kind: str | None = None,
        capacity: int | None = None,
        publisher: str | None = None,
        retry_seconds: float = DEFAULT_RETRY_SECONDS,
        allow_gap: bool = False,
        takeover: bool = False,
        token: str | None = None,
        user: str | None = None,
        password: str | None = None,
        tls_root_certs: Pem | None = None,
        tls_certificate: Pem | None = None,
        tls_key: Pem | None = None,
    ) -> None:
        if (table is None) == (tables is None):
            raise InvalidRequestError("Name one table (table=), or several with their rows (tables=).")
        if tables is not None:
            given = {"key": key, "mode": mode, "order_by": order_by, "kind": kind, "capacity": capacity}
            for name, value in given.items():
                if value is not None:
                    raise InvalidRequestError(f"The argument {name} belongs to one table: SinkTable(..., {name}=...).")
            if not isinstance(tables, Mapping) or not tables:
                raise InvalidRequestError("tables must map the names of tables to SinkTable(...).")
        self.tables = None if tables is None else dict(tables)
        log_in = parse_log_in(token, user, password)
        certificate, private_key = parse_identity(tls_certificate, tls_key)
        self.settings = PublishSettings(
            uri=uri,
            table=next(iter(self.tables)) if self.tables else table or "",
            key=parse_key(key),
            mode=parse_mode(mode),
            order_by=order_by,
            ship=parse_ship(ship),
            ship_threshold=ship_threshold,
            kind=parse_kind(kind),
            capacity=capacity,
            publisher=publisher,
            retry_seconds=parse_retry_seconds(retry_seconds),
            allow_gap=allow_gap,
            takeover=takeover,
            token=log_in[0],
            user=log_in[1],
            password=log_in[2],
            tls_root_certs=parse_certificates(tls_root_certs),
            tls_certificate=certificate,
            tls_key=private_key,
        )
        for name, each in (self.tables or {}).items():
            if not isinstance(each, SinkTable):
                raise InvalidRequestError(f"What tables has for {name!r} must be a SinkTable, not {shown(each)}.")
            each.settings(self.settings, name)
        self._shipped: dict[tuple[str, str], Shipped] = {}
        self._committed: dict[str, int] = {}  # by publisher: the last batch that the server has confirmed
        publisher_for(ServerAccess.of(self.settings)).check_server()

    def __repr__(self) -> str:
        names = ", ".join(map(repr, self.tables or (self.settings.table,)))
        return f"<BarrageSink {names} at {self.settings.uri}>"

    def __getstate__(self) -> dict[str, Any]:
        return {"settings": self.settings, "tables": self.tables, "_shipped": {}, "_committed": {}}

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Publish ``frame`` as batch ``batch_id``, once. Called by Spark."""
        spark = frame.sparkSession
        query = publisher_id(spark)
        policy = WaitPolicy(self.settings.uri, self.settings.retry_seconds, sleep_for(spark, query))
        if self.tables is None:
            self._publish(self._batch(frame, batch_id, query, policy), policy)
            return
        frame.persist()  # otherwise the source is read once for each table
        try:
            self._publish(self._batch(frame, batch_id, query, policy), policy)
        finally:
            frame.unpersist()

    def _batch(self, frame: DataFrame, batch_id: int, query: str | None, policy: WaitPolicy) -> MicroBatch:
        """The rows of the micro-batch, by table."""
        spark, settings = frame.sparkSession, self.settings
        if self.tables is None:
            parts = [Part.checked(frame, self._resolved(settings, spark, query))]
        else:
            parts = [
                Part.checked(table.rows_of(frame, name), self._resolved(table.settings(settings, name), spark, query))
                for name, table in self.tables.items()
            ]
        connection = publisher_for(ServerAccess.of(settings)).with_policy(policy)
        return MicroBatch(frame, tuple(parts), batch_id, connection, query)

    def _publish(self, batch: MicroBatch, policy: WaitPolicy) -> None:
        wait = Wait(policy)
        # The server is asked once per query. After that, each commit checks that its batch follows the previous one.
        last = self._committed.pop(batch.publisher, None)
        lasts = batch.lasts() if last is None or last != batch.number - 1 else batch.all_at(last)
        while True:
            missing = [part for part in batch.parts if not batch.is_committed(part, lasts)]
            if not missing:
                last = min(known for known in lasts.values() if known is not None)
                self._committed[batch.publisher] = last
                _log_repetition(batch, last)
                if batch.epoch is not None:
                    # Computed and discarded: a stateful query must advance its state to this batch.
                    batch.frame.write.format("noop").mode("overwrite").save()
                return
            for part in missing:
                takes_gaps = partial(batch.connection.takes_gaps, batch.publisher, part.table)
                check_gap(part.settings, batch.publisher, batch.number, lasts[part.table], takes_gaps)
            try:
                self._ship(batch, missing, lasts)
            except (UnavailableError, DeadlineError) as error:
                # The connection was lost, and the server drops its rows of the batch.
                if has_given_up(error):
                    raise
                wait.pause(error)
                lasts = batch.lasts()
            except FencedError:
                raise
            except PublishError:
                # The server may have been restarted between staging and commit.
                before, lasts = lasts, batch.lasts()
                if lasts == before:
                    raise
            else:
                self._committed[batch.publisher] = batch.number
                return

    def _ship(self, batch: MicroBatch, parts: Sequence[Part], lasts: Lasts) -> None:
        """Stage ``parts`` of the next batch, and commit them together."""
        tokens: list[list[str | None]] = []
        try:
            for part in parts:
                own = self._stage(batch, part, lasts)
                if own is None:  # the data source has committed it
                    return
                tokens.append(own)
        except BaseException:
            batch.drop(tokens)
            raise
        batch.commit(parts, tokens, lasts)

    def _stage(self, batch: MicroBatch, part: Part, lasts: Lasts) -> list[str | None] | None:
        """Stage the rows of one table.

        Returns:
            The tokens of its partitions in their order; None when the rows are committed already.
        """
        settings = part.settings
        workers = Workers(part.frame.sparkSession)
        planned = plan_size(part.frame) if settings.ship is Ship.AUTO else None
        expected = expected_size(planned, self._shipped.get((batch.publisher, part.table)))
        way = choose(settings.ship, settings.ship_threshold, expected)
        lack = "" if settings.ship is Ship.DRIVER else workers.lack()
        if lack and settings.ship is Ship.EXECUTORS:
            raise DependencyError(workers.text(lack))
        if way is Ship.DRIVER or lack:
            staged = batch.through_driver(part)
        else:
            try:
                staged = batch.from_executors(part, lasts)
            except DependencyError as error:  # workers may differ from the one that was asked
                if settings.ship is Ship.EXECUTORS:
                    raise DependencyError(workers.text(str(error))) from error
                workers.found_lacking(str(error))
                staged = batch.through_driver(part)
        if staged.nbytes is not None:
            self._shipped[batch.publisher, part.table] = Shipped(planned, staged.nbytes)
        _log.debug("batch %d of table %r went by %s: %s bytes", batch.number, settings.table, staged.way, staged.nbytes)
        return staged.tokens

    def _resolved(self, settings: PublishSettings, spark: SparkSession, query: str | None) -> PublishSettings:
        """Fill in publisher and mode of a table's settings from the running query."""
        publisher = settings.publisher or query
        if publisher is None:
            if not is_classic(spark):
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


def _log_repetition(batch: MicroBatch, last: int) -> None:
    """Log that ``batch`` is committed already."""
    _log.info("batch %d of %s is there already (last is %d)", batch.number, batch.names, last)
    if batch.number < last:  # Spark replays the last batch alone
        _log.warning(
            "batch %d of %s counts as a repetition: publisher %r has committed batches up to %d. "
            "A query that restarts with another checkpoint needs another publisher, or a new table.",
            batch.number,
            batch.names,
            batch.publisher,
            last,
        )

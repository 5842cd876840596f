"""Files to tables, and tables to files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from barrage_server.arguments import choice, integer, text
from barrage_server.cli.connection import Address
from barrage_server.cli.files import STANDARD, checked_source, checked_target, open_file, write_file
from barrage_server.cli.text import count, rate
from barrage_server.cli.usage import UsageError, usage
from barrage_server.errors import UnknownTableError
from barrage_server.wire.protocol import PublishMode, TableKind
from barrage_server.wire.target import check_target

if TYPE_CHECKING:
    from barrage_server.client import Client

__all__ = ["Batch", "batch_of", "publish_file", "save_snapshot"]

_ROWS_PER_BATCH: Final = 65_536


def save_snapshot(
    address: Address,
    table: str,
    output: Path,
    *,
    written_as: str | None,
    viewport: range | None,
    reverse: bool,
    columns: Sequence[str] | None,
) -> None:
    """Write the content of ``table``, or its viewport, to a file or to ``-``."""
    checked_target(output, written_as)
    started = time.monotonic()
    with address.connect() as client:
        content = client.snapshot(table, columns=columns, viewport=viewport, reverse=reverse)
    write_file(content, output, written_as)
    if output == STANDARD:
        return
    seconds = time.monotonic() - started
    Console(stderr=True, highlight=False).print(
        f"{count(content.num_rows, 'rows')} of {table} written to {output} in {seconds:.2f} s",
        markup=False,
        soft_wrap=True,
    )


@dataclass(frozen=True, slots=True)
class Batch:
    """A numbered batch of a publisher, which applies once.

    Attributes:
        publisher: the name under which the server remembers it.
        number: counted from 0 without gaps.
        epoch: the run of the publisher in which it counts.
        takeover: whether the epoch may be a new one.
        allow_gap: whether batches before it may be missing.
    """

    publisher: str
    number: int
    epoch: str | None = None
    takeover: bool = False
    allow_gap: bool = False


def publish_file(
    address: Address,
    table: str,
    file: Path,
    *,
    written_as: str | None,
    key: Sequence[str] | None,
    mode: str | None,
    kind: str | None,
    capacity: int | None,
    batch: Batch | None = None,
) -> None:
    """Publish all rows of a file, or of ``-``, to ``table`` in one cycle.

    A repetition of ``batch`` changes nothing.
    """
    console = Console(stderr=True, highlight=False)
    started = time.monotonic()
    sent = 0
    name = "standard input" if file == STANDARD else file.name
    checked_source(file, written_as)  # before connecting
    with usage():
        named, wanted = choice(kind, TableKind, "--kind"), choice(mode, PublishMode, "--mode")
        check_target(named, key, capacity, wanted, is_new=False)
    with ExitStack() as stack:
        client = stack.enter_context(address.connect())
        source, rows = stack.enter_context(open_file(file, written_as, _schema_of(client, table)))
        show = stack.enter_context(_progress(console, f"{name} -> {table}", rows))

        def batches() -> Iterator[pa.RecordBatch]:
            nonlocal sent
            for found in source:
                for start in range(0, found.num_rows, _ROWS_PER_BATCH):
                    piece = found.slice(start, _ROWS_PER_BATCH)
                    yield piece
                    sent += piece.num_rows
                    show(sent)

        reader = pa.RecordBatchReader.from_batches(source.schema, batches())
        if batch is None:
            client.publish(table, reader, key=key, mode=mode, kind=kind, capacity=capacity)
        else:
            result = client.publish(
                table,
                reader,
                key=key,
                mode=mode,
                kind=kind,
                capacity=capacity,
                publisher=batch.publisher,
                batch=batch.number,
                epoch=batch.epoch,
                takeover=batch.takeover,
                allow_gap=batch.allow_gap,
            )
            if not result.applied:
                last = f"the last one is {result.last_batch:,}"
                what = f"batch {batch.number:,} of {batch.publisher} was published to {table} before"
                console.print(f"{what}, and nothing changed; {last}", markup=False, soft_wrap=True)
                return
    seconds = time.monotonic() - started
    speed = f", {rate(sent, seconds)}" if sent >= _ROWS_PER_BATCH else ""
    console.print(
        f"{count(sent, 'rows')} of {name} published to {table} in {seconds:.2f} s{speed}", markup=False, soft_wrap=True
    )


def batch_of(
    publisher: str | None, number: int | None, *, epoch: str | None, takeover: bool, allow_gap: bool
) -> Batch | None:
    """The batch of a command's options; ``None`` without any.

    Raises:
        UsageError: options are missing or wrong.
    """
    if publisher is None and number is None:
        if epoch is not None or takeover or allow_gap:
            raise UsageError("--epoch, --takeover and --allow-gap are about a batch: name --publisher and --batch too.")
        return None
    if publisher is None or number is None:
        raise UsageError("--publisher and --batch belong together: the server remembers the publisher's last batch.")
    with usage():
        return Batch(
            text(publisher, "--publisher"),
            integer(number, "--batch"),
            None if epoch is None else text(epoch, "--epoch"),
            takeover,
            allow_gap,
        )


def _schema_of(client: Client, table: str) -> pa.Schema | None:
    try:
        return client.table(table).schema
    except UnknownTableError:
        return None


@contextmanager
def _progress(console: Console, what: str, rows: int | None) -> Iterator[Callable[[int], None]]:
    """Show the number of rows sent, in a terminal only."""
    if not console.is_terminal:
        yield lambda _sent: None
        return
    parts = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*parts, TimeElapsedColumn(), console=console, transient=True) as progress:
        task = progress.add_task(what, total=rows)
        yield lambda sent: progress.update(task, completed=sent)

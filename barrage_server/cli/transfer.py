"""Files to tables, and tables to files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
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

__all__ = ["publish_file", "save_snapshot"]

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
        f"{count(content.num_rows, 'rows')} of {table} written to {output} in {seconds:.2f} s", markup=False
    )


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
    publisher: str | None = None,
    batch: int | None = None,
) -> None:
    """Publish all rows of a file, or of ``-``, to ``table`` in one cycle.

    With ``publisher`` and ``batch``, a repetition changes nothing.
    """
    console = Console(stderr=True, highlight=False)
    started = time.monotonic()
    sent = 0
    name = "standard input" if file == STANDARD else file.name
    checked_source(file, written_as)  # before connecting
    with usage():
        named, wanted = choice(kind, TableKind, "--kind"), choice(mode, PublishMode, "--mode")
        check_target(named, key, capacity, wanted, is_new=False)
        identity = _identity(publisher, batch)
    with ExitStack() as stack:
        client = stack.enter_context(address.connect())
        source, rows = stack.enter_context(open_file(file, written_as, _schema_of(client, table)))
        show = stack.enter_context(_progress(console, f"{name} -> {table}", rows))

        def batches() -> Iterator[pa.RecordBatch]:
            nonlocal sent
            for batch in source:
                for start in range(0, batch.num_rows, _ROWS_PER_BATCH):
                    piece = batch.slice(start, _ROWS_PER_BATCH)
                    yield piece
                    sent += piece.num_rows
                    show(sent)

        reader = pa.RecordBatchReader.from_batches(source.schema, batches())
        if identity is None:
            client.publish(table, reader, key=key, mode=mode, kind=kind, capacity=capacity)
        else:
            called, number = identity
            result = client.publish(
                table, reader, key=key, mode=mode, kind=kind, capacity=capacity, publisher=called, batch=number
            )
            if not result.applied:
                last = f"the last one is {result.last_batch:,}"
                what = f"batch {number:,} of {called} was published to {table} before"
                console.print(f"{what}, and nothing changed; {last}", markup=False)
                return
    seconds = time.monotonic() - started
    speed = f", {rate(sent, seconds)}" if sent >= _ROWS_PER_BATCH else ""
    console.print(f"{count(sent, 'rows')} of {name} published to {table} in {seconds:.2f} s{speed}", markup=False)


def _identity(publisher: str | None, batch: int | None) -> tuple[str, int] | None:
    """Publisher and batch; ``None`` without both."""
    if publisher is None and batch is None:
        return None
    if publisher is None or batch is None:
        raise UsageError("--publisher and --batch belong together: the server remembers the publisher's last batch.")
    return text(publisher, "--publisher"), integer(batch, "--batch")


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

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

from barrage_server.arguments import choice
from barrage_server.cli.connection import Address
from barrage_server.cli.files import STANDARD, checked_source, checked_target, open_file, write_file
from barrage_server.cli.text import count, rate
from barrage_server.cli.usage import usage
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
) -> None:
    """Publish all rows of a file, or of ``-``, to ``table`` in one cycle."""
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
            for batch in source:
                for start in range(0, batch.num_rows, _ROWS_PER_BATCH):
                    piece = batch.slice(start, _ROWS_PER_BATCH)
                    yield piece
                    sent += piece.num_rows
                    show(sent)

        reader = pa.RecordBatchReader.from_batches(source.schema, batches())
        client.publish(table, reader, key=key, mode=mode, kind=kind, capacity=capacity)
    seconds = time.monotonic() - started
    speed = f", {rate(sent, seconds)}" if sent >= _ROWS_PER_BATCH else ""
    console.print(f"{count(sent, 'rows')} of {name} published to {table} in {seconds:.2f} s{speed}", markup=False)


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

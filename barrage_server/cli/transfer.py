"""Files to tables, and tables to files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from barrage_server.cli.connection import Address
from barrage_server.cli.files import checked_target, open_file, write_file
from barrage_server.cli.text import count, rate

__all__ = ["publish_file", "save_snapshot"]

_ROWS_PER_BATCH: Final = 65_536


def save_snapshot(
    address: Address,
    table: str,
    output: Path,
    *,
    viewport: range | None,
    reverse: bool,
    columns: Sequence[str] | None,
) -> None:
    """Write the present content of ``table``, or the part in the window, to ``output``."""
    checked_target(output)
    started = time.monotonic()
    with address.connect() as client:
        content = client.snapshot(table, columns=columns, viewport=viewport, reverse=reverse)
    write_file(content, output)
    seconds = time.monotonic() - started
    Console(stderr=True, highlight=False).print(
        f"{count(content.num_rows, 'rows')} of {table} written to {output} in {seconds:.2f} s", markup=False
    )


def publish_file(
    address: Address,
    table: str,
    file: Path,
    *,
    key: Sequence[str] | None,
    mode: str | None,
    kind: str | None,
    capacity: int | None,
) -> None:
    """Publish all rows of ``file`` to ``table`` in one cycle, showing progress in a terminal."""
    console = Console(stderr=True, highlight=False)
    started = time.monotonic()
    sent = 0
    with open_file(file) as (source, rows), address.connect() as client, _progress(console, file, table, rows) as show:

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
    console.print(f"{count(sent, 'rows')} of {file} published to {table} in {seconds:.2f} s{speed}", markup=False)


@contextmanager
def _progress(console: Console, file: Path, table: str, rows: int | None) -> Iterator[Callable[[int], None]]:
    """Shows in a terminal how many rows have been sent, and nothing elsewhere."""
    if not console.is_terminal:
        yield lambda _sent: None
        return
    parts = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*parts, TimeElapsedColumn(), console=console, transient=True) as progress:
        task = progress.add_task(f"{file.name} -> {table}", total=rows)
        yield lambda sent: progress.update(task, completed=sent)

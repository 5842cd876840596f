"""Listing, creating and dropping tables; versions of this program."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from importlib import metadata
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

import barrage_server as bs
from barrage_server.arguments import choice
from barrage_server.cli.connection import Address
from barrage_server.cli.stats import computed_tables, failed_tables, print_figures, report_console
from barrage_server.cli.text import count
from barrage_server.cli.usage import UsageError, usage
from barrage_server.errors import ForbiddenError, UnsupportedOperationError
from barrage_server.log import one_line
from barrage_server.type_names import parse_type
from barrage_server.wire.protocol import TableKind
from barrage_server.wire.table_spec import TableSpec

if TYPE_CHECKING:
    from barrage_server.client import TableInfo

__all__ = ["create_table", "drop_tables", "list_tables", "print_versions"]

_JSON_SCALARS: Final = (str, int, float, bool)
_STANDS_ON: Final = ("pyarrow", "numpy", "pyroaring", "flatbuffers", "pyspark")


def list_tables(address: Address, *, json_lines: bool) -> None:
    """Print the tables of a server, as a table or as one JSON object per line.

    The table is followed by what the computed ones cost, if the caller may see that.
    """
    with address.connect() as client:
        found = sorted(client.tables(), key=lambda info: info.name)
        computed: Table | None = None
        failed: Collection[str] = ()
        if not json_lines:
            with suppress(UnsupportedOperationError, ForbiddenError):  # Deephaven has no statistics
                figures = client.statistics()
                computed, failed = computed_tables(figures), failed_tables(figures)
    if json_lines:
        for info in found:
            sys.stdout.write(json.dumps(_described(info)) + "\n")
        return
    console = report_console()
    if not found and computed is None:
        console.print(
            "This server has no tables yet that you may see. Publish one: barrage-server publish URI TABLE FILE"
        )
        return
    listing = Table(box=None, pad_edge=False, header_style="bold")
    listing.add_column("table", style="cyan", no_wrap=True)
    listing.add_column("rows", justify="right", no_wrap=True)
    tells_durable = any(info.durable is not None for info in found)
    if tells_durable:  # Deephaven servers do not
        listing.add_column("durable", no_wrap=True)
    listing.add_column("key", no_wrap=True)
    listing.add_column("columns", overflow="fold")
    for info in found:
        columns = ", ".join(f"{field.name} {field.type}" for field in info.schema)
        rows = "?" if info.size < 0 else count(info.size)
        if info.name in failed:
            rows += ", failed"
        durable = [] if not tells_durable else ["yes" if info.durable else "-"]
        key = Text(one_line(", ".join(info.key_columns)) or "-")
        listing.add_row(Text(one_line(info.name)), rows, *durable, key, Text(one_line(columns)))
    if found:
        console.print(listing)
    if computed is not None:
        console.print()
        console.print("computed", style="bold", markup=False)
        print_figures(console, computed)


def create_table(
    address: Address,
    table: str,
    columns: Sequence[str],
    *,
    key: Sequence[str] | None,
    kind: str | None,
    capacity: int | None,
    durable: bool | None = None,
) -> None:
    """Create an empty table with ``columns``, each written ``NAME:TYPE``.

    Raises:
        UsageError: a column has no type, an unknown type, or is given twice; or kind, key and capacity contradict each
            other.
        AlreadyExistsError: there is another table of that name.
    """
    fields: dict[str, pa.DataType] = {}
    with usage():
        for column in columns:
            name, separator, kind_of_values = column.partition(":")
            if not name or not separator:
                raise UsageError(f"{column!r} is not a column: write NAME:TYPE, as in price:double.")
            if name in fields:
                raise UsageError(f"There are two columns {name!r}.")
            fields[name] = parse_type(kind_of_values)
        spec = TableSpec.implied(choice(kind, TableKind, "--kind"), key, capacity, durable=durable)
        for name in key or ():
            if name not in fields:
                raise UsageError(f"The key {name!r} is not a column; there are {', '.join(map(repr, fields))}.")
    with address.connect() as client:
        client.create_table(table, pa.schema(fields), key=key, kind=spec.kind, capacity=capacity, durable=durable)
    told = f"{table} is there, with {count(len(fields), 'columns')}"
    Console(stderr=True, highlight=False).print(told, markup=False, soft_wrap=True)


def drop_tables(address: Address, tables: Sequence[str]) -> None:
    """Drop tables one by one.

    Raises:
        UnknownTableError: a table does not exist. The tables before it are dropped.
    """
    console = Console(stderr=True, highlight=False)
    with address.connect() as client:
        for table in tables:
            client.drop(table)
            console.print(f"{table} is dropped", markup=False, soft_wrap=True)


def _described(info: TableInfo) -> dict[str, object]:
    return {
        "name": info.name,
        "rows": info.size,
        "key": list(info.key_columns),
        "durable": info.durable,
        "columns": {field.name: str(field.type) for field in info.schema},
        "attributes": {name: value for name, value in info.attributes.items() if isinstance(value, _JSON_SCALARS)},
    }


def print_versions() -> None:
    """Print the versions of this program, of Python, and of the main libraries."""
    lines = [
        f"barrage-server {bs.__version__}",
        f"Python {platform.python_version()} ({platform.system()} {platform.machine()})",
    ]
    for name in _STANDS_ON:
        try:
            lines.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            lines.append(f"{name} not installed")
    sys.stdout.write("\n".join(lines) + "\n")

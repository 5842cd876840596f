"""What a server has, and what this program is made of."""

from __future__ import annotations

import json
import platform
import sys
from importlib import metadata
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

import barrage_server as bs
from barrage_server.cli.connection import Address
from barrage_server.cli.text import count

if TYPE_CHECKING:
    from barrage_server.client import TableInfo

__all__ = ["list_tables", "print_versions"]

_NO_WRAPPING: Final = 10_000
_JSON_SCALARS: Final = (str, int, float, bool)
_STANDS_ON: Final = ("pyarrow", "numpy", "pyroaring", "flatbuffers", "pyspark")


def list_tables(address: Address, *, json_lines: bool) -> None:
    """Print the tables of a server, as a table or as one JSON object a line."""
    with address.connect() as client:
        found = sorted(client.tables(), key=lambda info: info.name)
    if json_lines:
        for info in found:
            sys.stdout.write(json.dumps(_described(info)) + "\n")
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _NO_WRAPPING
    if not found:
        console.print("This server has no tables yet. Publish one: barrage-server publish URI TABLE FILE")
        return
    listing = Table(box=None, pad_edge=False, header_style="bold")
    listing.add_column("table", style="cyan", no_wrap=True)
    listing.add_column("rows", justify="right", no_wrap=True)
    listing.add_column("key", no_wrap=True)
    listing.add_column("columns", overflow="fold")
    for info in found:
        columns = ", ".join(f"{field.name} {field.type}" for field in info.schema)
        rows = "?" if info.size < 0 else count(info.size)
        listing.add_row(Text(info.name), rows, Text(", ".join(info.key_columns) or "-"), Text(columns))
    console.print(listing)


def _described(info: TableInfo) -> dict[str, object]:
    return {
        "name": info.name,
        "rows": info.size,
        "key": list(info.key_columns),
        "columns": {field.name: str(field.type) for field in info.schema},
        "attributes": {name: value for name, value in info.attributes.items() if isinstance(value, _JSON_SCALARS)},
    }


def print_versions() -> None:
    """Print this program's version, Python's, and those of the libraries that shape its behaviour."""
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

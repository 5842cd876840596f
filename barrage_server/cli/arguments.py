"""Arguments that several commands have, with their help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from barrage_server.cli.usage import usage

__all__ = [
    "Capacity",
    "Columns",
    "DataDir",
    "Format",
    "Json",
    "Key",
    "Kind",
    "PasswordFile",
    "Reverse",
    "TableName",
    "TableNames",
    "TlsCertificate",
    "TlsKey",
    "TlsRootCerts",
    "Token",
    "Uri",
    "User",
    "Viewport",
]

Uri = Annotated[
    str,
    typer.Argument(metavar="URI", help="The server, as in grpc://127.0.0.1:8815; the port may be omitted."),
]


def _table_names(given: str | list[str]) -> str | list[str]:
    """Check the names of tables in an argument."""
    from barrage_server.wire.tickets import path_of_name

    with usage():
        for name in [given] if isinstance(given, str) else given:
            path_of_name(name)
    return given


TableName = Annotated[str, typer.Argument(metavar="TABLE", help="Name of the table.", callback=_table_names)]
TableNames = Annotated[
    list[str], typer.Argument(metavar="TABLE...", help="Names of the tables.", callback=_table_names)
]
Token = Annotated[
    str | None,
    typer.Option(help="Token to log in with; better given as BARRAGE_TOKEN in the environment.", metavar="TOKEN"),
]
User = Annotated[
    str | None,
    typer.Option(
        help="User to log in as, with --password-file, or with BARRAGE_PASSWORD in the environment.", metavar="NAME"
    ),
]
PasswordFile = Annotated[
    Path | None, typer.Option(help="File with the user's password in its first line.", metavar="FILE")
]
TlsRootCerts = Annotated[Path | None, typer.Option(help="PEM certificates to trust, for grpc+tls.", metavar="FILE")]
TlsCertificate = Annotated[
    Path | None, typer.Option(help="Certificate to show the server, a PEM file, with --tls-key.", metavar="FILE")
]
TlsKey = Annotated[Path | None, typer.Option(help="Private key of that certificate, a PEM file.", metavar="FILE")]
Columns = Annotated[str | None, typer.Option(help="Only these columns, separated by commas.", metavar="A,B")]
Viewport = Annotated[
    str | None, typer.Option(help="Row positions, the end not included, as in 0:50.", metavar="START:STOP")
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        help="parquet, arrow, arrows (a stream), csv or jsonl; by default from the ending.",
        metavar="FORMAT",
    ),
]
Key = Annotated[
    list[str] | None, typer.Option(help="Key column of a new table; repeat it for several.", metavar="COLUMN")
]
Kind = Annotated[
    str | None, typer.Option(help="Kind of a new table: append, keyed, ring, blink or replaced.", metavar="KIND")
]
Capacity = Annotated[int | None, typer.Option(help="Rows that a new ring keeps.", metavar="N", min=1)]
Json = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]
Reverse = Annotated[bool, typer.Option("--reverse", help="Count positions from the last row.")]
DataDir = Annotated[Path, typer.Argument(metavar="DIR", help="The data directory of a server that does not run.")]

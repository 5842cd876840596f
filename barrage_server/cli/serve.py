"""A server in the foreground."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Sized
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final
from urllib.parse import quote

import barrage_server as bs
from barrage_server.address import DEFAULT_WEB_PORT
from barrage_server.cli.boundary import Terminated, end_within, raising_again
from barrage_server.cli.example import EXAMPLE_TABLES, example_tables
from barrage_server.cli.following import follow
from barrage_server.cli.notify import READY, STOPPING, notify
from barrage_server.cli.settings import ServeSettings, TableSettings, changed_settings, load_settings
from barrage_server.cli.text import count
from barrage_server.cli.usage import UsageError, usage
from barrage_server.engine import UpdateGraph
from barrage_server.engine.kinds import make_table
from barrage_server.errors import (
    AlreadyExistsError,
    BarrageError,
    InvalidRequestError,
    JournalError,
    UnavailableError,
)
from barrage_server.log import JsonFormatter, TextFormatter
from barrage_server.process import choose_allocators, collect_new_objects_only, raise_descriptor_limit
from barrage_server.server.authentication import AnyToken
from barrage_server.server.endpoints import listening_uri
from barrage_server.server.front import is_loopback
from barrage_server.server.listening import is_own_address, listening_socket
from barrage_server.server.roles import log_unknown_columns
from barrage_server.wire.table_spec import TableSpec

__all__ = ["serve_until_stopped"]

_POLL_SECONDS: Final = 1.0
"""Seconds of one wait: an unbounded wait cannot be interrupted on some systems."""
_GRACES: Final = 4
"""Graces within the time for stopping: ``close`` waits for one, and the calls that it cuts may take the others."""
_RELOADED: Final = {"token", "tokens", "token_file", "credentials", "web_tokens", "roles", "default_roles"}
"""Settings that SIGHUP applies, besides those of the certificate."""
_AT_ONCE: Final = 0.1
"""Seconds that clients have to leave after Ctrl-C."""

logger = logging.getLogger("barrage_server.cli")


def serve_until_stopped(config: Path | None, flags: Mapping[str, Any]) -> None:
    """Serve until Ctrl-C or SIGTERM.

    Prints the URIs on stdout, one per line, once clients can connect: Flight's first. The log is on stderr. After
    SIGTERM the function returns within ``stop_seconds`` of the settings.
    """
    with suppress(Terminated):  # SIGTERM is the regular end of a server
        with raising_again():
            settings = load_settings(config, flags)
            _begin_log(settings)
            raise_descriptor_limit()
            choose_allocators()
            collect_new_objects_only()
            end_within(settings.stop_seconds)
        present = settings

        def reload(server: bs.Server) -> None:
            nonlocal present
            present = reload_access(server, settings, present, config, flags)

        _serve(settings, reload)


def _begin_log(settings: ServeSettings) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else TextFormatter())
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler])
    logging.captureWarnings(True)


def _serve(settings: ServeSettings, reload: Callable[[bs.Server], None]) -> None:
    asked = threading.Event()
    if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, lambda *_: asked.set())  # before recovery, which may take a while
    check_declarations(settings)
    accepted = settings.authenticators()
    check_anonymous(settings, accepted)
    with ExitStack() as stack:
        with raising_again():
            server = _started(stack, settings, accepted)
        while not server.wait(_POLL_SECONDS):
            if asked.is_set():
                asked.clear()
                with raising_again():  # a library may drop the exception while files are read
                    reload(server)


def _started(stack: ExitStack, settings: ServeSettings, accepted: Sequence[AnyToken]) -> bs.Server:
    """The server with its tables, which says where it is; ``stack`` closes it."""
    identity = settings.follow_identity()
    with usage():
        server = open_server(settings, accepted)
    stack.push(_closing(server, settings.stop_seconds))
    declared = {table.name for table in settings.tables}
    recovered = [table for table in server.tables() if table.name not in declared]
    with server.not_ready("starting"):
        for table in settings.tables:
            declare(server, table)
        log_unknown_columns(settings.access_roles(), {table.name: table.arrow_schema() for table in settings.tables})
        for entry in settings.follow:
            follow(server, entry, settings.follow_token, settings.follow_tls_root_certs, identity)
        example = EXAMPLE_TABLES if settings.example else ()
        if example:
            stack.enter_context(example_tables(server))
    _warn_of_exposure(server, settings)
    served: dict[str, Sized] = {
        "recovered": recovered,
        "declared": settings.tables,
        "followed": settings.follow,
        "of the example": example,
    }
    told = [f"{count(len(tables), 'tables')} {how}" for how, tables in served.items() if tables]
    logger.info("serving %s; Ctrl-C ends", ", ".join(told) or "no tables yet")
    stack.callback(notify, STOPPING)
    uris = (
        server.uri,
        server.deephaven_uri,
        server.deephaven_web_uri,
        page_link(server, settings),
        server.http_uri,
    )
    for uri in uris:
        if uri is not None:
            sys.stdout.write(f"{uri}\n")
    sys.stdout.flush()
    notify(READY)
    return server


def _warn_of_exposure(server: bs.Server, settings: ServeSettings) -> None:
    """Log what the server goes without: credentials, or TLS beyond this machine."""
    place = listening_uri(server.uri, settings.host)
    if server.accepts_everyone:
        logger.warning("no credentials are required: every program that reaches %s may connect", place)
    if settings.tls_certificate is None and not is_loopback(settings.host):
        logger.warning("there is no TLS: credentials and tables can be read and changed in transit to %s", place)


def open_server(settings: ServeSettings, accepted: Sequence[AnyToken]) -> bs.Server:
    """The server of the settings, on its ports.

    It has no page if the settings name no port for it and another server takes the default one meanwhile.

    Args:
        settings: the settings.
        accepted: the ways in.

    Raises:
        UsageError: the data directory is damaged, or something else.
    """
    certificate, key = settings.tls_identity() or (None, None)

    def opened(page: int | None) -> bs.Server:
        return bs.Server(
            settings.host,
            settings.port,
            token=accepted or None,
            roles=settings.access_roles(),
            default_roles=settings.default_roles,
            limits=settings.limits,
            subscriptions=settings.subscriptions,
            writers=settings.writers,
            tls_certificate=certificate,
            tls_key=key,
            tls_client_root_certs=settings.tls_client_root_certs,
            insecure=settings.insecure,
            allow_anonymous=settings.allow_anonymous,
            allow_plaintext=settings.allow_plaintext,
            front=settings.front,
            deephaven_port=settings.deephaven_port,
            deephaven_web_port=settings.deephaven_web_port,
            deephaven_web_origins=settings.deephaven_web_origins,
            console=settings.console,
            data_dir=settings.data_dir,
            fsync=settings.fsync,
            release_publishers=settings.release_publishers,
            http_port=settings.http_port,
            http_host=settings.http_host,
            web_port=page,
            web_hosts=settings.web_hosts,
        )

    page = web_port(settings)
    try:
        return opened(page)
    except JournalError as error:
        raise UsageError(str(error), has_help=False) from error  # another start would not mend the directory
    except UnavailableError:
        if page is None or web_port(settings) is not None:
            raise
        return opened(None)


def web_port(settings: ServeSettings) -> int | None:
    """The port of the page; ``None`` when it is left out, or its port is in use."""
    if not settings.web:
        if settings.web_port is not None:
            raise UsageError("--no-web leaves the page out, and --web-port is its port: leave one of them out.")
        return None
    if settings.web_port is not None:
        return settings.web_port
    if settings.port == 0:
        return 0
    try:
        listening_socket(settings.host, DEFAULT_WEB_PORT, "web_port").close()
    except UnavailableError:
        if not is_own_address(settings.host):
            return DEFAULT_WEB_PORT  # the server says so of its first port
        logger.warning(
            "browsers get no page: port %d is in use; choose another with --web-port, or leave it out with --no-web",
            DEFAULT_WEB_PORT,
        )
        return None
    return DEFAULT_WEB_PORT


def page_link(server: bs.Server, settings: ServeSettings) -> str | None:
    """The address of the page, in a terminal with a token behind ``#``.

    The token logs the terminal's user in, and a browser does not send it with the address.
    """
    uri = server.web_uri
    if uri is None or not sys.stdout.isatty():
        return uri
    tokens = settings.accepted_tokens
    return f"{uri}/#token={quote(tokens[0], safe='')}" if tokens else uri


def reload_access(
    server: bs.Server,
    started: ServeSettings,
    before: ServeSettings,
    config: Path | None,
    flags: Mapping[str, Any],
) -> ServeSettings:
    """Read credentials, roles and certificates again; an error changes nothing.

    Other settings that have changed are named in the log: only a restart applies them.

    Args:
        server: the server.
        started: the settings at its start.
        before: the settings in force.
        config: TOML file, or None.
        flags: values of the command line, by setting name.

    Returns:
        The settings in force: those read now, or ``before``.
    """
    try:
        settings = load_settings(config, flags)
        settings.check_regular_files()
        accepted, roles = settings.authenticators(), settings.access_roles()
        for what, gone in (
            ("credentials", before.names_credentials and not accepted),
            ("roles", before.roles and not roles),
        ):
            if gone:
                raise UsageError(f"The settings have no {what} any more. To serve without {what}, restart the server.")
        certificate, key = settings.tls_identity() or (None, None)
        server.reload(
            token=accepted or None,
            roles=roles,
            default_roles=settings.default_roles,
            tls_certificate=certificate,
            tls_key=key,
        )
    except (UsageError, BarrageError) as error:
        logger.error("credentials, roles and certificates stay as they were: %s", error)
        return before
    except Exception:  # the server goes on serving, whatever is wrong with what it reads
        logger.exception("credentials, roles and certificates could not be read again")
        return before
    ignored = [name for name in changed_settings(started, settings) if not _is_applied(name, settings)]
    if ignored:  # without values, which may be secrets
        logger.warning("these settings have changed, and only a restart applies them: %s", ", ".join(ignored))
    return settings


def _is_applied(name: str, settings: ServeSettings) -> bool:
    """Whether SIGHUP applies the setting ``name`` of ``settings``."""
    if name in ("tls_certificate", "tls_key"):
        return getattr(settings, name) is not None
    return name in _RELOADED and (name != "default_roles" or settings.names_credentials)


def _closing(
    server: bs.Server, stop_seconds: float
) -> Callable[[type[BaseException] | None, BaseException | None, TracebackType | None], None]:
    """An exit callback that closes the server, at once after Ctrl-C."""

    def close(kind: type[BaseException] | None, _error: object, _trace: object) -> None:
        at_once = kind is not None and issubclass(kind, KeyboardInterrupt)
        server.close(min(_AT_ONCE, stop_seconds) if at_once else stop_seconds / _GRACES)

    return close


def check_anonymous(settings: ServeSettings, accepted: Collection[object]) -> None:
    """Check that every caller is accepted on purpose, if no credentials are required.

    The tables of the example are such a purpose, unless the server also keeps tables or runs scripts.

    Raises:
        UsageError: no credentials are required, and no setting allows that.
    """
    is_example = settings.example and settings.data_dir is None and not settings.console
    is_asked_for = settings.allow_anonymous or settings.insecure or is_example
    if not accepted and settings.tls_client_root_certs is None and not is_asked_for:
        raise UsageError(
            "Without credentials every program that reaches the port may do everything. Set a token (--token-file "
            "FILE, or BARRAGE_TOKEN), or allow every caller with --allow-anonymous."
        )


def check_declarations(settings: ServeSettings) -> None:
    """Check the tables of the configuration, before a port or folder is opened.

    Raises:
        UsageError: a table contradicts itself, names an unknown type, cannot be durable, or has the name of another.
    """
    graph = UpdateGraph()
    known: set[str] = set()
    for table in settings.tables:
        with _declaring(table):
            spec = TableSpec.requested(table.kind, table.key or None, table.capacity, table.durable)
            make_table(graph, table.name, table.arrow_schema(), spec)
            if table.durable and settings.data_dir is None:
                raise InvalidRequestError("It cannot be durable without a data directory (data_dir).")
            if table.name in known:
                raise InvalidRequestError("It is declared twice.")
        known.add(table.name)


def declare(server: bs.Server, table: TableSettings) -> None:
    """Create one table of the configuration.

    Raises:
        UsageError: the declaration contradicts itself, names an unknown type, or the data directory has another table
            of that name.
    """
    with _declaring(table):
        try:
            server.create_table(
                table.name,
                table.arrow_schema(),
                key=table.key or None,
                kind=table.kind,
                capacity=table.capacity,
                durable=table.durable,
            )
        except AlreadyExistsError as error:
            raise UsageError(
                f"{error} To drop it, take the entry out of the configuration, start the server, run 'barrage-server "
                f"drop', and put the entry back."
            ) from None


@contextmanager
def _declaring(table: TableSettings) -> Iterator[None]:
    """Raise errors as UsageError with the name of the table."""
    try:
        yield
    except BarrageError as error:
        raise UsageError(f"Table {table.name!r} of the configuration: {error}") from None

"""The checked settings of a sink.

:class:`BarrageSink` and the options of the data source have the same names for them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Final, TypeVar

import pyarrow as pa

from barrage_server.address import ServerAddress
from barrage_server.arguments import flag, integer, shown, unbroken
from barrage_server.errors import InvalidRequestError, KeyMismatchError, UnknownColumnError
from barrage_server.flight.headers import check_header_value, check_text
from barrage_server.pem import Pem, read_certificates, read_identity
from barrage_server.wire.commit_messages import CommitPart, CommitRequest
from barrage_server.wire.protocol import PublishMode, TableKind
from barrage_server.wire.target import check_target

__all__ = [
    "DEFAULT_RETRY_SECONDS",
    "DEFAULT_SHIP_THRESHOLD",
    "PublishSettings",
    "Ship",
    "parse_certificates",
    "parse_flag",
    "parse_identity",
    "parse_key",
    "parse_kind",
    "parse_log_in",
    "parse_mode",
    "parse_retry_seconds",
    "parse_ship",
]

DEFAULT_RETRY_SECONDS: Final = 300.0
"""Most seconds to wait for an unreachable server, as for a client's subscriptions."""
TOKEN_VARIABLE: Final = "BARRAGE_TOKEN"
"""Environment variable of the driver with the server's token, for settings without one."""
PASSWORD_VARIABLE: Final = "BARRAGE_PASSWORD"
"""Environment variable of the driver with the user's password, for settings with a user and without one."""

DEFAULT_SHIP_THRESHOLD: Final = 4 * 1024 * 1024
"""Bytes of Arrow data up to which ``ship="auto"`` sends a batch through the driver."""

_SPARK_MODES: Final = {
    "append": PublishMode.APPEND,
    "upsert": PublishMode.UPSERT,
    "update": PublishMode.UPSERT,
    "replace": PublishMode.REPLACE,
    "complete": PublishMode.REPLACE,
    "delete": PublishMode.DELETE,
}
# Options that Spark itself adds to those of a data source.
_SPARK_OPTIONS: Final = frozenset({"checkpointlocation", "path", "queryname"})
# Options that a BarrageSink adds for the writer of its rows.
_ERRAND_OPTIONS: Final = frozenset({"batch", "receipt", "expectedlast", "epoch"})

# Spark masks options that have this word in name or value where it shows plans. The name of the private key has none.
_MASKED: Final = "secret\n"

_T = TypeVar("_T")


class Ship(StrEnum):
    """The path of a micro-batch's rows to the server."""

    AUTO = "auto"
    DRIVER = "driver"
    EXECUTORS = "executors"


@dataclass(frozen=True, slots=True)
class PublishSettings:
    """The settings of one table, without any state.

    They travel to the executors pickled, or as options of the data source. ``uri`` gets the scheme and the port that it
    lacks.
    """

    uri: str
    table: str
    key: tuple[str, ...] | None = None
    mode: PublishMode | None = None
    order_by: str | None = None
    ship: Ship = Ship.AUTO
    ship_threshold: int = DEFAULT_SHIP_THRESHOLD
    kind: TableKind | None = None
    capacity: int | None = None
    publisher: str | None = None
    retry_seconds: float = DEFAULT_RETRY_SECONDS
    allow_gap: bool = False
    takeover: bool = False
    token: str | None = field(default=None, repr=False)
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls_root_certs: str | None = field(default=None, repr=False)
    tls_certificate: str | None = field(default=None, repr=False)
    tls_key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("uri", "table", "order_by", "publisher"):
            value = getattr(self, name)
            if not (value is None or isinstance(value, str)):
                raise InvalidRequestError(f"{name} must be a string, not {shown(value)}.")
            if value is not None:
                unbroken(value, name)
        if not self.uri or not self.table:
            raise InvalidRequestError("Say where to publish: uri='grpc://host:port' and table='name'.")
        for name in ("order_by", "publisher"):
            if getattr(self, name) == "":
                raise InvalidRequestError(f"{name} is empty; leave it out.")
        address = ServerAddress.parse(self.uri)
        if address.is_deephaven:
            raise InvalidRequestError(
                f"{self.uri!r} is an address for Deephaven's clients; publish to the Arrow Flight port of a "
                "barrage-server instead: grpc://host:8815."
            )
        object.__setattr__(self, "uri", address.uri)
        if self.tls_certificate is not None:
            address.need_tls("tls_certificate and tls_key")
        flag(self.allow_gap, "allow_gap")
        flag(self.takeover, "takeover")
        integer(self.ship_threshold, "ship_threshold")
        if self.capacity is not None:
            integer(self.capacity, "capacity", least=1)
        if self.key is None and self.mode in (PublishMode.UPSERT, PublishMode.DELETE):
            raise KeyMismatchError(no_key_text(self.table, self.mode))
        check_target(self.kind, self.key, self.capacity, self.mode, is_new=True)

    def check_columns(self, schema: pa.Schema) -> None:
        """Check that the rows have the key columns and the column to order by.

        Raises:
            UnknownColumnError: ``schema`` lacks one of them.
        """
        known = frozenset(schema.names)
        for what, names in (("key", self.key or ()), ("order_by", (self.order_by,) if self.order_by else ())):
            absent = [name for name in names if name not in known]
            if absent:
                raise UnknownColumnError(
                    f"Table {self.table!r}: {what} names {', '.join(map(repr, absent))}, but the rows have only "
                    f"{', '.join(map(repr, schema.names))}."
                )

    def commit_part(self, schema: pa.Schema, tokens: Iterable[str | None]) -> CommitPart:
        """The part of a commit that concerns this table.

        Args:
            schema: schema of the rows.
            tokens: tokens of the partitions in the order in which they apply, with None for empty ones.
        """
        return CommitPart(
            table=self.table,
            mode=self.mode or PublishMode.APPEND,
            tokens=tuple(token for token in tokens if token),
            key=self.key,
            order_by=self.order_by,
            schema=schema,
            kind=self.kind,
            capacity=self.capacity,
        )

    def commit_request(
        self,
        publisher: str,
        batch: int,
        parts: Sequence[CommitPart],
        expected_last: int | None,
        epoch: str | None,
    ) -> CommitRequest:
        """The commit of the rows that tasks have staged as ``batch``.

        Args:
            publisher: the name under which the server remembers batches.
            batch: the batch's number.
            parts: its tables.
            expected_last: the last batch of the publisher that the server must know; None does not check.
            epoch: the query's id, if there is a query.
        """
        return CommitRequest.over(
            parts,
            publisher=publisher,
            batch=batch,
            expected_last=expected_last,
            epoch=epoch,
            takeover=self.takeover,
            allow_gap=self.allow_gap,
        )

    def to_options(self) -> dict[str, str]:
        """The options of the data source for these settings."""
        options = {field.name: getattr(self, field.name) for field in fields(self)}
        options["key"] = None if self.key is None else ",".join(name.replace(",", "\\,") for name in self.key)
        if self.tls_key is not None:
            options["tls_key"] = _MASKED + self.tls_key  # text before the PEM text means nothing
        return {name: str(value) for name, value in options.items() if value is not None}

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> PublishSettings:
        """Parse the options of the data source.

        Their names may be in any case, and with or without underscores.

        Raises:
            InvalidRequestError: an option is unknown. A misspelt ``key`` would otherwise make another table.
        """
        given = {name.lower().replace("_", ""): value for name, value in options.items()}
        given.setdefault("uri", given.get("path", ""))
        known = {field.name.replace("_", "") for field in fields(cls)}
        unknown = sorted(given.keys() - known - _SPARK_OPTIONS - _ERRAND_OPTIONS)
        if unknown:
            names = ", ".join(field.name for field in fields(cls))
            raise InvalidRequestError(f"Unknown option {', '.join(unknown)} of format 'barrage'; it has {names}.")
        threshold = _integer("ship_threshold", given.get("shipthreshold"))
        token, user, password = parse_log_in(given.get("token"), given.get("user"), given.get("password"))
        certificate, key = parse_identity(given.get("tlscertificate"), given.get("tlskey"))
        key = None if key is None else key.removeprefix(_MASKED)
        return cls(
            uri=given.get("uri", ""),
            table=given.get("table", ""),
            key=parse_key(given.get("key")),
            mode=parse_mode(given.get("mode")),
            order_by=given.get("orderby"),
            ship=parse_ship(given.get("ship", Ship.AUTO)),
            ship_threshold=DEFAULT_SHIP_THRESHOLD if threshold is None else threshold,
            kind=parse_kind(given.get("kind")),
            capacity=_integer("capacity", given.get("capacity")),
            publisher=given.get("publisher"),
            retry_seconds=parse_retry_seconds(given.get("retryseconds")),
            allow_gap=parse_flag("allow_gap", given.get("allowgap", "false")),
            takeover=parse_flag("takeover", given.get("takeover", "false")),
            token=token,
            user=user,
            password=password,
            tls_root_certs=parse_certificates(given.get("tlsrootcerts")),
            tls_certificate=certificate,
            tls_key=key,
        )


def no_key_text(table: str, mode: PublishMode) -> str:
    """The error text for updates without key columns."""
    return (
        f"Table {table!r} is to take {mode} batches, which change existing rows, so it must be told how "
        'to find them: name the key columns, as in BarrageSink(uri, table="carriers", key=["carrier"]). They are '
        'usually the columns of the groupBy. To keep every change as a row of its own, say mode="append".'
    )


def parse_key(key: str | Iterable[str] | None) -> tuple[str, ...] | None:
    r"""Parse key columns: a list of names, or one text with commas between names.

    ``\,`` stands for a comma within a name.

    Raises:
        InvalidRequestError: ``key`` is something else.
    """
    if isinstance(key, str):
        names = [name.replace("\0", ",").strip() for name in key.replace("\\,", "\0").split(",")]
    else:
        names = list(key) if isinstance(key, Iterable) else [] if key is None else [key]
        if not all(isinstance(name, str) for name in names):
            raise InvalidRequestError(f"The key is a column's name or a list of names, not {shown(key)}.")
    kept = tuple(unbroken(name, f"{shown(name)} in key") for name in names if name)
    return kept or None


def parse_mode(mode: str | PublishMode | None) -> PublishMode | None:
    """Parse a publish mode, by the name here or by Spark's name.

    The names are append, upsert, replace and delete; Spark's are append, update and complete.
    """
    return None if mode is None else _choice("mode", mode, _SPARK_MODES)


def parse_ship(ship: str | Ship) -> Ship:
    """Parse ``auto``, ``driver`` or ``executors``."""
    return _choice("ship", ship, {str(way): way for way in Ship})


def parse_kind(kind: str | TableKind | None) -> TableKind | None:
    """Parse a kind of table; None leaves it to mode and key."""
    return None if kind is None else _choice("kind", kind, {str(each): each for each in TableKind})


def parse_flag(name: str, text: str) -> bool:
    """Parse ``true`` or ``false``, in any case; ``name`` is the option."""
    return _choice(name, text, {"true": True, "false": False})


def parse_retry_seconds(seconds: float | str | None) -> float:
    """Parse a number of seconds, which may be ``inf``; None for the default.

    Raises:
        InvalidRequestError: it is no number, or negative.
    """
    if seconds is None:
        return DEFAULT_RETRY_SECONDS
    try:
        parsed = float(seconds)
    except (TypeError, ValueError):
        parsed = math.nan
    if not parsed >= 0:
        raise InvalidRequestError(
            f"retry_seconds must be a number of seconds, 0 or more ('inf' has no limit), got {seconds!r}."
        )
    return parsed


def parse_log_in(
    token: str | None, user: str | None, password: str | None
) -> tuple[str | None, str | None, str | None]:
    """The token, or the user and the password, to log in with.

    Without a user the token is ``token``, or else ``BARRAGE_TOKEN``. A user's password is ``password``, or else
    ``BARRAGE_PASSWORD``.

    Raises:
        InvalidRequestError: one of them is no text, ``token`` or ``user`` is blank, both are given, or one of user and
            password is missing.
    """
    for value, what in ((token, "token"), (user, "user"), (password, "password")):
        if value is not None:
            check_text(value, what)
    if user is None:
        if password is not None:
            raise InvalidRequestError("A password needs a user: pass user as well, or the secret alone as token.")
        return _token(token), None, None
    if token is not None:
        raise InvalidRequestError("The options token and user are two ways to log in; pass one of them.")
    if not user.strip():
        raise InvalidRequestError("user is empty; leave it out.")
    if password is None:
        password = os.environ.get(PASSWORD_VARIABLE)
    if password is None:
        raise InvalidRequestError(f"A user needs a password: pass password, or set {PASSWORD_VARIABLE} on the driver.")
    return None, user, password


def _token(token: str | None) -> str | None:
    if token is None:
        return os.environ.get(TOKEN_VARIABLE, "").strip() or None
    if not token.strip():
        raise InvalidRequestError(
            f"token is empty. Leave it out, and set {TOKEN_VARIABLE} on the driver, or for a server without a token "
            "neither."
        )
    check_header_value(token, "token")
    return token


def parse_certificates(given: Pem | None) -> str | None:
    """The PEM text of certificates, given as text or as a file of the driver."""
    return None if given is None else read_certificates(given, "tls_root_certs").decode("utf-8", "replace")


def parse_identity(certificate: Pem | None, key: Pem | None) -> tuple[str | None, str | None]:
    """The PEM text of a certificate to show and of its private key.

    They are given as text or as files of the driver.

    Raises:
        InvalidRequestError: one is missing or cannot be read, or they do not fit.
    """
    found = read_identity(certificate, key)
    if found is None:
        return None, None
    return found[0].decode("utf-8", "replace"), found[1].decode("utf-8", "replace")


def _choice(name: str, text: str, choices: Mapping[str, _T]) -> _T:
    found = choices.get(str(text).lower())
    if found is None:
        raise InvalidRequestError(f"{name} {str(text)!r} is unknown; use one of {', '.join(choices)}.")
    return found


def _integer(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise InvalidRequestError(f"Option {name} must be a whole number, got {text!r}.") from error

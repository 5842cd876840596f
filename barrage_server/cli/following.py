"""Tables of other servers that ``barrage-server serve`` follows."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

import barrage_server as bs
from barrage_server.address import TableAddress
from barrage_server.cli.paths import PathText, SecretPathText
from barrage_server.cli.secret import Secret
from barrage_server.cli.usage import UsageError
from barrage_server.errors import BarrageError
from barrage_server.pem import read_certificates

__all__ = ["FollowSettings", "follow"]


class FollowSettings(BaseModel):
    """A table of another server to follow.

    The short form is ``URI=NAME``, or ``URI`` alone.

    Attributes:
        uri: ``grpc://host:port/table`` or ``dh+plain://host:port/scope/table``, with ``+tls`` and ``dh`` for TLS; a
            ``=`` in the table's name is written ``%3D``.
        name: its name here; the upstream name when absent.
        token: token of the upstream; ``follow_token`` of the settings when absent.
        user: user name, with ``password``, instead of a token.
        password: the user's password.
        tls_root_certs: certificates to trust instead of the system's: PEM, or the path of a PEM file;
            ``follow_tls_root_certs`` of the settings when absent.
        tls_certificate: certificate to show upstream: PEM, or the path of a PEM file; ``follow_tls_certificate`` and
            ``follow_tls_key`` of the settings when this and ``tls_key`` are absent.
        tls_key: its private key: PEM, or the path of a PEM file.
        headers: further headers of every call upstream; ``authorization`` is a log-in of another kind.
        columns: columns to follow; all when absent.
        interval_ms: least time between two updates, in milliseconds; 0 for the upstream's default.
        timeout: most seconds of a short call upstream, and most seconds without progress of a longer call.
        max_delay: most seconds between two attempts to reach a lost upstream.
    """

    model_config = ConfigDict(extra="forbid")

    uri: str
    name: str | None = None
    token: Secret | None = None
    user: str | None = None
    password: SecretStr | None = None
    tls_root_certs: PathText | None = None
    tls_certificate: PathText | None = None
    tls_key: SecretPathText | None = None
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    columns: tuple[str, ...] | None = Field(default=None, min_length=1)
    interval_ms: int = Field(default=10, ge=0)
    timeout: float = Field(default=30.0, gt=0, allow_inf_nan=False)
    max_delay: float = Field(default=5.0, gt=0, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _from_line(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        uri, separator, name = value.partition("=")
        if separator and not name:
            raise ValueError(f"{value!r} lacks the name after '='; write URI=NAME, or URI alone")
        return {"uri": uri, "name": name or None}


def follow(
    server: bs.Server,
    table: FollowSettings,
    default_token: SecretStr | None,
    default_tls_root_certs: str | None = None,
    default_identity: tuple[bytes, bytes] | None = None,
) -> bs.FollowedTable:
    """Make ``server`` follow a table, also while its upstream does not answer.

    Args:
        server: the server.
        table: the upstream table, and the credentials.
        default_token: the token if ``table`` has no credentials.
        default_tls_root_certs: certificates to trust if ``table`` names none: PEM, or the path of a PEM file.
        default_identity: certificate and private key for an upstream with TLS, if ``table`` names none.

    Raises:
        UsageError: the settings contradict each other.
    """
    headers = {name: value.get_secret_value() for name, value in table.headers.items()}
    has_log_in = table.token is not None or table.user is not None or any(map(_is_log_in, headers))
    token = table.token if has_log_in else default_token
    try:
        trusted, setting = (
            (table.tls_root_certs, "tls_root_certs")
            if table.tls_root_certs is not None
            else (default_tls_root_certs, "follow_tls_root_certs")
        )
        roots = None if trusted is None else read_certificates(trusted, setting)
        certificate: str | bytes | None = table.tls_certificate
        key: str | bytes | None = _shown(table.tls_key)
        is_mute = certificate is None and key is None
        if is_mute and default_identity is not None and TableAddress.parse(table.uri).server.is_tls:
            certificate, key = default_identity
        return server.follow(
            table.uri,
            name=table.name,
            token=_shown(token),
            user=table.user,
            password=_shown(table.password),
            headers=headers or None,
            tls_root_certs=roots,
            tls_certificate=certificate,
            tls_key=key,
            columns=table.columns,
            interval_ms=table.interval_ms,
            timeout=table.timeout,
            max_delay=table.max_delay,
            wait=None,
        )
    except BarrageError as error:
        raise UsageError(f"Following {table.uri!r}: {error}") from None


def _is_log_in(header: str) -> bool:
    return header.lower() == "authorization"


def _shown(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()

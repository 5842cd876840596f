"""Settings of ``barrage-server serve``.

They come from flags, then the environment, then a TOML file, then defaults.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import tomllib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_type_hints

import pyarrow as pa
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from barrage_server.address import DEFAULT_PORT
from barrage_server.arguments import shown
from barrage_server.cli.following import FollowSettings
from barrage_server.cli.paths import HomePath, PathText, SecretPathText
from barrage_server.cli.secret import Secret
from barrage_server.cli.text import sentence
from barrage_server.cli.usage import UsageError, usage
from barrage_server.errors import BarrageError
from barrage_server.pem import read_identity, read_pem
from barrage_server.server import CredentialFile, Fsync, Limits, Right, Role, TokenFile, WebTokens
from barrage_server.server.authentication import AnyToken
from barrage_server.server.file_stamp import check_regular, is_special
from barrage_server.server.front import Front
from barrage_server.server.roles import misfits
from barrage_server.server.token_file import read_token
from barrage_server.subscription import SubscriptionLimits
from barrage_server.type_names import parse_type
from barrage_server.wire.protocol import TableKind

__all__ = ["DEFAULT_PORT", "ServeSettings", "TableSettings", "changed_settings", "load_settings"]

_PREFIX: Final = "BARRAGE_"
_OTHER_VARIABLES: Final = {"BARRAGE_DEBUG"}
_UNKNOWN: Final = {"extra_forbidden", "unexpected_keyword_argument"}
"""Types of pydantic's errors on unknown settings."""
_MOST_TOLD: Final = 5
"""Most errors on settings in one text."""
_NEAR: Final = 0.85
"""Least similarity (share of equal characters) to a setting of a variable that counts as misspelt."""


def _key(value: object) -> object:
    """The key columns; a string is one column."""
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or not all(isinstance(name, str) and name.strip() for name in found):
        raise ValueError(f"must be the name of a column or a list of names, not {shown(value)}")
    return found


class TableSettings(BaseModel):
    """A table that exists from the start.

    Attributes:
        name: its name for clients.
        columns: Arrow type names by column name, in order, such as ``{sym = "string", price = "double"}``.
        kind: ``append``, ``keyed``, ``ring``, ``blink`` or ``replaced``; by default from ``key`` or ``capacity``.
        key: the key column or a list of them, for ``keyed``.
        capacity: number of rows, for ``ring``.
        durable: whether the data directory keeps it; by default if there is one and the kind can be.
    """

    model_config = ConfigDict(extra="forbid")

    name: str
    columns: dict[str, str] = Field(min_length=1)
    kind: TableKind | None = None
    key: Annotated[tuple[str, ...], BeforeValidator(_key)] = ()
    capacity: int | None = Field(default=None, gt=0)
    durable: bool | None = None

    def arrow_schema(self) -> pa.Schema:
        """The columns as an Arrow schema.

        Raises:
            UnsupportedTypeError: a type name is wrong.
        """
        return pa.schema([(name, parse_type(kind)) for name, kind in self.columns.items()])


class RoleSettings(BaseModel):
    """The rights of a role.

    Attributes:
        tables: patterns of table names, such as ``fx_*``.
        rights: ``list``, ``read``, ``publish``, ``create``, ``drop``, ``statistics``.
        where: the rows that are shown, as a condition such as ``"region == 'EU' and price < 100"``; all when absent.
        columns: the names of the columns that are shown; all when absent.
    """

    model_config = ConfigDict(extra="forbid")

    tables: tuple[str, ...]
    rights: tuple[Right, ...]
    where: str | None = None
    columns: tuple[str, ...] | None = None

    def role(self) -> Role:
        """Make the role.

        Raises:
            InvalidRequestError: it contradicts itself, or its condition is none.
        """
        return Role(self.tables, self.rights, self.where, self.columns)


class WebTokenSettings(BaseModel):
    """Signed web tokens that are accepted; see ``bs.WebTokens``.

    Attributes:
        keys: a JSON web key set: a file's path, or an ``https://`` URL.
        audience: the required audience.
        issuer: the required issuer.
        algorithms: allowed algorithms.
        name_claim: the claim with the caller's name.
        roles_claim: the claim with its roles.
        leeway: seconds by which clocks may differ.
    """

    model_config = ConfigDict(extra="forbid")

    keys: PathText
    audience: str
    issuer: str
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    name_claim: str = "sub"
    roles_claim: str = "roles"
    leeway: float = Field(default=30.0, ge=0)


def _separated(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _closest(name: str, known: Collection[str]) -> list[str]:
    """The nearest valid name, if one is near."""
    return difflib.get_close_matches(name, known, n=1)


def unknown_text(name: str, known: Collection[str]) -> str:
    """The text for an unknown setting, with the nearest valid name."""
    close = _closest(name, known)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(sorted(known))}"
    return f"unknown setting {name!r}; {hint}"


def _folder(value: object) -> object:
    if value == "":  # an empty variable must not mean the current folder
        raise ValueError("is empty; name a folder, or leave it out")
    return value


def _separated_tokens(value: object) -> object:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def _known_fields(of: type) -> BeforeValidator:
    """A validator that refuses unknown names, which pydantic would drop silently."""
    known = {field.name for field in dataclasses.fields(of)}

    def check(value: object) -> object:
        unknown = sorted(set(value) - known) if isinstance(value, Mapping) else []
        if unknown:
            raise ValueError(unknown_text(unknown[0], known))
        return value

    return BeforeValidator(check)


class ServeSettings(BaseSettings):
    """All settings of ``serve``.

    The environment variable of a setting is ``BARRAGE_`` and its name in upper case. Paths may begin with ``~``;
    relative ones are below the current directory.

    Attributes:
        host: address to listen on.
        port: port to listen on; 0 takes a free one.
        front: server of that port: ``pyarrow``, ``grpc``, or ``auto`` for ``grpc`` on addresses beyond this machine.
        deephaven_port: a second port, for stock Deephaven clients; 0 takes a free one, none when absent.
        deephaven_web_port: a third port, for Deephaven's JavaScript client; likewise.
        deephaven_web_origins: origins of web pages that may connect there without a token, separated by commas in the
            environment; ``*`` for all.
        writers: threads that write to subscribers at a time, not counting threads stuck with a slow client.
        console: let Deephaven's clients with every right run Python in this process.
        token: the token that clients must present.
        tokens: further valid tokens, separated by commas in the environment, for replacing one.
        token_file: a file with one more token in it, in its first line.
        credentials: a TOML file of tokens, users and client certificates, with their roles.
        web_tokens: signed web tokens (JWT) that are accepted.
        roles: rights of the roles of callers; with any role, everything else is denied.
        default_roles: roles of callers whose credentials name none.
        allow_anonymous: accept every caller, without credentials; ``example`` alone does so on this machine.
        allow_plaintext: allow an address beyond this machine without TLS.
        insecure: ``allow_anonymous`` and ``allow_plaintext``.
        tls_certificate: certificate chain; serves ``grpc+tls`` together with ``tls_key``. PEM, or a file's path.
        tls_key: private key. PEM, or a file's path.
        tls_client_root_certs: certificates to trust for clients, which must present one. PEM, or a file's path.
        data_dir: the folder that keeps the tables; in memory only when absent.
        fsync: when changes are on disk: ``always`` before the publisher's answer, ``interval`` 10 ms later, ``os``.
        release_publishers: names of publishers, or patterns of them, that no longer belong to the users who published
            under them first, separated by commas in the environment; the next user of one gets it.
        http_port: a port for probes and for Prometheus; 0 takes a free one, none when absent.
        http_host: address for that port to listen on.
        web: whether browsers get a page that shows the tables.
        web_port: the port of that page; 0 takes a free one. When absent, it is a free one if ``port`` is 0, else 8816
            unless that port is in use.
        web_hosts: names under which browsers may ask for the page, besides addresses, separated by commas in the
            environment.
        log_level: level of the log on stderr.
        log_format: form of the log on stderr: ``text``, or ``json``, an object per line.
        stop_seconds: seconds from SIGTERM to the end of the process, whatever clients do.
        limits: see ``bs.Limits``; its ``staging`` too.
        subscriptions: see ``bs.SubscriptionLimits``: update intervals, sizes of first snapshots.
        tables: tables that exist from the start.
        follow: tables of other servers to follow; in the environment short forms separated by commas.
        follow_token: token for upstreams without one of their own.
        follow_tls_root_certs: certificates to trust for upstreams without their own: PEM, or a file's path.
        follow_tls_certificate: certificate to show upstreams with TLS and none of their own: PEM, or a file's path.
        follow_tls_key: its private key. PEM, or a file's path.
        example: also serve example tables that tick.
    """

    model_config = SettingsConfigDict(env_prefix=_PREFIX, env_nested_delimiter="__", extra="forbid")

    host: str = "127.0.0.1"
    port: int = Field(default=DEFAULT_PORT, ge=0, le=65535)
    front: Front = Front.AUTO
    deephaven_port: int | None = Field(default=None, ge=0, le=65535)
    deephaven_web_port: int | None = Field(default=None, ge=0, le=65535)
    deephaven_web_origins: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_separated)] = ()
    writers: int = Field(default=2, ge=1, le=10_000)
    console: bool = False
    token: Secret | None = None
    tokens: Annotated[tuple[Secret, ...], NoDecode, BeforeValidator(_separated_tokens)] = ()
    token_file: HomePath | None = None
    credentials: HomePath | None = None
    web_tokens: WebTokenSettings | None = None
    roles: dict[str, RoleSettings] = Field(default_factory=dict)
    default_roles: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_separated)] = ()
    allow_anonymous: bool = False
    allow_plaintext: bool = False
    insecure: bool = False
    tls_certificate: PathText | None = None
    tls_key: SecretPathText | None = None
    tls_client_root_certs: PathText | None = None
    data_dir: Annotated[HomePath | None, BeforeValidator(_folder)] = None
    fsync: Fsync = Fsync.INTERVAL
    release_publishers: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_separated)] = ()
    http_port: int | None = Field(default=None, ge=0, le=65535)
    http_host: str = "127.0.0.1"
    web: bool = True
    web_port: int | None = Field(default=None, ge=0, le=65535)
    web_hosts: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_separated)] = ()
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["text", "json"] = "text"
    stop_seconds: float = Field(default=8.0, gt=0, le=3600, allow_inf_nan=False)
    limits: Annotated[Limits, _known_fields(Limits)] = Field(default_factory=Limits)
    subscriptions: Annotated[SubscriptionLimits, _known_fields(SubscriptionLimits)] = Field(
        default_factory=SubscriptionLimits
    )
    tables: tuple[TableSettings, ...] = ()
    follow: Annotated[tuple[FollowSettings, ...], NoDecode, BeforeValidator(_separated)] = ()
    follow_token: Secret | None = None
    follow_tls_root_certs: PathText | None = None
    follow_tls_certificate: PathText | None = None
    follow_tls_key: SecretPathText | None = None
    example: bool = False

    @classmethod
    def settings_customise_sources(  # the signature is the library's
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags override the environment, which overrides the file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    @property
    def accepted_tokens(self) -> tuple[str, ...]:
        """All valid shared tokens, but for one out of a pipe.

        A pipe can be read only once.

        Raises:
            UsageError: the file with one cannot be read, or has none.
        """
        found = self._named_tokens()
        if self.token_file is not None and not is_special(self.token_file):
            with usage():
                found.append(read_token(self.token_file))
        return tuple(dict.fromkeys(found))

    def _named_tokens(self) -> list[str]:
        """The tokens of the settings themselves."""
        every = (*(() if self.token is None else (self.token,)), *self.tokens)
        return [token.get_secret_value() for token in every]

    @property
    def names_credentials(self) -> bool:
        """Whether callers need credentials, apart from a certificate."""
        files = (self.token_file, self.credentials, self.web_tokens)
        return bool(self._named_tokens()) or any(one is not None for one in files)

    def authenticators(self) -> list[AnyToken]:
        """All authenticators. An empty list accepts every caller.

        Raises:
            UsageError: a file of credentials or keys cannot be read, or is wrong.
        """
        found: list[AnyToken] = [*self._named_tokens()]
        with usage():
            if self.token_file is not None:
                found.append(TokenFile(self.token_file, self.default_roles))
            if self.credentials is not None:
                found.append(CredentialFile(self.credentials))
            if self.web_tokens is not None:
                found.append(WebTokens(**self.web_tokens.model_dump()))
        return found

    def check_regular_files(self) -> None:
        """Check that credentials and certificates can be read again without waiting.

        Raises:
            UsageError: one is a pipe, a device or a folder.
        """
        given = [self.token_file, self.credentials, self.tls_certificate]
        given.append(None if self.web_tokens is None else self.web_tokens.keys)
        given.append(None if self.tls_key is None else self.tls_key.get_secret_value())
        for file in given:
            with usage(), suppress(OSError, ValueError):  # PEM text is no path: its reader tells what is wrong
                if file is not None:
                    check_regular(Path(file))

    def access_roles(self) -> dict[str, Role]:
        """The roles by name.

        Raises:
            UsageError: a role contradicts itself, or does not fit a table that exists from the start.
        """
        roles: dict[str, Role] = {}
        for name, settings in self.roles.items():
            try:
                roles[name] = settings.role()
            except BarrageError as error:
                raise UsageError(f"Role {name!r}: {error}") from None
        for table in self.tables:
            with usage():
                found = misfits(roles, table.name, table.arrow_schema())
            if found:
                role, reason = found[0]
                raise UsageError(f"Role {role!r} shows nothing of table {table.name!r}: {reason}")
        return roles

    def tls_identity(self) -> tuple[bytes, bytes] | None:
        """Certificate chain and private key; None without TLS.

        Raises:
            UsageError: one is missing or cannot be read.
        """
        if self.tls_certificate is None and self.tls_key is None:
            return None
        if self.tls_certificate is None or self.tls_key is None:
            raise UsageError("TLS needs both tls_certificate and tls_key, two PEM files; one is missing.")
        with usage():
            key = self.tls_key.get_secret_value()
            return read_pem(self.tls_certificate, "tls_certificate"), read_pem(key, "tls_key")

    def follow_identity(self) -> tuple[bytes, bytes] | None:
        """Certificate and private key for the servers that are followed.

        None without.

        Raises:
            UsageError: one is missing or cannot be read, or they do not fit.
        """
        key = None if self.follow_tls_key is None else self.follow_tls_key.get_secret_value()
        with usage():
            return read_identity(self.follow_tls_certificate, key, ("follow_tls_certificate", "follow_tls_key"))


def load_settings(config: Path | None, flags: Mapping[str, Any]) -> ServeSettings:
    """Load the settings.

    Args:
        config: TOML file, or None.
        flags: values of the command line, by setting name.

    Raises:
        UsageError: the file is missing, cannot be read or is not TOML, or a setting is unknown or wrong.
    """
    if config is not None and not config.is_file():
        if config.exists():
            raise UsageError(f"{str(config)!r} is not a file: --config takes a TOML file.")
        raise UsageError(f"There is no configuration file {str(config)!r}.")

    _check_environment()

    class Configured(ServeSettings):
        model_config = SettingsConfigDict(toml_file=config)

    try:
        return Configured(**flags)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{str(config)!r} is not TOML: {error}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{str(config)!r} is not TOML, which is UTF-8 text.") from None
    except OSError as error:
        raise UsageError(f"The configuration file {str(config)!r} cannot be read: {error.strerror}.") from None
    except SettingsError as error:
        raise UsageError(f"Environment: {_unparsed(error)}") from None
    except ValidationError as error:
        found = _by_cause(error.errors(include_url=False, include_input=False))
        more = f" (and {len(found) - _MOST_TOLD} more)" if len(found) > _MOST_TOLD else ""
        told = [_told(one, config, flags) for one in found[:_MOST_TOLD]]
        raise UsageError(" ".join(map(sentence, [*told[:-1], f"{told[-1].removesuffix('.')}{more}"]))) from None
    except BarrageError as error:
        source = "Settings" if config is None else str(config)
        raise UsageError(f"{source}: {error}") from None
    except (ValueError, RecursionError):  # of the parser
        source = "The environment" if config is None else repr(str(config))
        raise UsageError(f"{source} cannot be read: a number is too long, or something is nested too deeply.") from None


def changed_settings(before: ServeSettings, after: ServeSettings) -> list[str]:
    """The names of the settings that differ, such as ``limits.subscriptions``."""
    names = ServeSettings.model_fields
    old, new = (_flat({name: getattr(settings, name) for name in names}) for settings in (before, after))
    return [name for name, value in old.items() if new[name] != value]


def _flat(values: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """The values, with those of dataclasses among them one by one."""
    found: dict[str, object] = {}
    for name, value in values.items():
        if dataclasses.is_dataclass(value):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            found |= _flat(fields, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found


def _unparsed(error: SettingsError) -> str:
    """The text for a variable that must be JSON and is not."""
    name = next((part for part in str(error).split('"')[1::2] if part in ServeSettings.model_fields), None)
    if name is None:
        return str(error)
    return f"{_PREFIX}{name.upper()} must be JSON, as in '[\"a\"]' or '{{\"a\": 1}}'."


def _by_cause(errors: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """``errors``, unknown settings first, without their consequences.

    A misspelt setting that is required is an unknown one and a missing one: the latter is left out.
    """
    unknown = [error for error in errors if error["type"] in _UNKNOWN]
    meant = set[tuple[int | str, ...]]()
    for error in unknown:
        *path, name = error["loc"]
        close = _closest(str(name), _names_at([str(part) for part in path]))
        meant.update((*path, known) for known in close)
    others = [error for error in errors if error["type"] not in _UNKNOWN]
    return unknown + [error for error in others if error["type"] != "missing" or error["loc"] not in meant]


def _told(error: ErrorDetails, config: Path | None, flags: Mapping[str, Any]) -> str:
    """The text for an error on a setting: its source, its name and the nearest one."""
    path = [str(part) for part in error["loc"]]
    message = error["msg"].removeprefix("Value error, ").replace("valid tuple", "list")
    if error["type"] in _UNKNOWN:
        message = unknown_text(path.pop(), _names_at(path))
    name = ".".join(path)
    if path and path[0] in flags:
        return f"--{path[0].replace('_', '-')}: {message}"
    if variable := _variable_of(path):
        source, name = "Environment", variable
    else:
        source = "Settings" if config is None else str(config)
    return f"{source}: {name}: {message}" if name else f"{source}: {message}"


def _names_at(path: Sequence[str]) -> Collection[str]:
    """The names of settings below ``path``."""
    models: dict[str, type] = {
        "": ServeSettings,
        "tables": TableSettings,
        "follow": FollowSettings,
        "roles": RoleSettings,
        "web_tokens": WebTokenSettings,
        "limits": Limits,
        "subscriptions": SubscriptionLimits,
    }
    found: Any = models.get(path[0] if path else "", ServeSettings)
    if issubclass(found, BaseModel):
        return list(found.model_fields)
    for name in path[1:]:
        found = get_type_hints(found)[name]
    return [field.name for field in dataclasses.fields(found)]


def _variable_of(path: Sequence[str]) -> str | None:
    """The environment variable of the setting at ``path``, or of a part of it."""
    names = {f"{_PREFIX}{'__'.join(path[:depth])}".upper() for depth in range(1, len(path) + 1)}
    below = f"{_PREFIX}{'__'.join(path)}__".upper()
    return next(
        (name for name in os.environ if path and (name.upper() in names or name.upper().startswith(below))), None
    )


def _check_environment() -> None:
    """Refuse a variable that is a misspelt setting.

    A server with a misspelt token would accept every caller. Other variables with the prefix are allowed; container
    platforms set some.
    """
    known = {f"{_PREFIX}{name}".upper() for name in ServeSettings.model_fields}
    for name in os.environ:
        upper = name.upper()
        if upper.startswith(_PREFIX) and upper.partition("__")[0] not in known | _OTHER_VARIABLES:
            close = difflib.get_close_matches(upper, known, n=1, cutoff=_NEAR)
            if close:
                raise UsageError(f"Environment: unknown setting {name!r}; did you mean {close[0]!r}?")

"""What a sink is told is checked where it is told, and means the same as an option of the data source."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
import trustme

import barrage_server as bs
from barrage_server.spark import BarrageSink
from barrage_server.spark.settings import DEFAULT_SHIP_THRESHOLD, PublishSettings, Ship, parse_key
from barrage_server.wire.protocol import PublishMode, TableKind

URI = "grpc://127.0.0.1:1"
CERTIFICATE = trustme.CA().cert_pem.bytes().decode()
ISSUED = trustme.CA().issue_cert("job.example.com")
CHAIN, KEY = ISSUED.cert_chain_pems[0].bytes(), ISSUED.private_key_pem.bytes()


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BARRAGE_TOKEN", raising=False)
    monkeypatch.delenv("BARRAGE_PASSWORD", raising=False)


def test_settings_survive_as_options() -> None:
    settings = PublishSettings(
        uri=URI,
        table="t",
        key=("a", "b,c"),
        mode=PublishMode.UPSERT,
        order_by="when",
        ship=Ship.EXECUTORS,
        ship_threshold=5,
        kind=TableKind.KEYED,
        publisher="p",
        retry_seconds=7.5,
        allow_gap=True,
        token="secret",
        tls_root_certs=CERTIFICATE,
    )
    assert PublishSettings.from_options(settings.to_options()) == settings
    ring = PublishSettings(URI, "t", kind=TableKind.RING, capacity=7, ship_threshold=0)
    for other in (PublishSettings(URI, "t"), ring):
        assert PublishSettings.from_options(other.to_options()) == other


def test_option_names_may_be_written_as_spark_users_do() -> None:
    options = {"URI": URI, "Table": "t", "orderBy": "x", "shipthreshold": "9", "checkpointLocation": "somewhere"}
    settings = PublishSettings.from_options(options)
    assert (settings.order_by, settings.ship_threshold) == ("x", 9)


def test_the_uri_may_be_the_path_of_a_save() -> None:
    assert PublishSettings.from_options({"path": URI, "table": "t"}).uri == URI


@pytest.mark.parametrize(
    ("key", "parsed"),
    [
        (None, None),
        ("", None),
        ([], None),
        ("a", ("a",)),
        ("a, b", ("a", "b")),
        ("a\\,b,c", ("a,b", "c")),
        (["x,y"], ("x,y",)),
    ],
)
def test_keys(key: str | list[str] | None, parsed: tuple[str, ...] | None) -> None:
    assert parse_key(key) == parsed


@pytest.mark.parametrize(
    ("mode", "meaning"),
    [
        ("append", PublishMode.APPEND),
        ("update", PublishMode.UPSERT),
        ("Upsert", PublishMode.UPSERT),
        ("complete", PublishMode.REPLACE),
        ("replace", PublishMode.REPLACE),
        ("delete", PublishMode.DELETE),
    ],
)
def test_modes_have_our_names_and_sparks(mode: str, meaning: PublishMode) -> None:
    assert BarrageSink(URI, table="t", key=["k"], mode=mode).settings.mode is meaning


@pytest.mark.parametrize("mode", ["update", "upsert", "delete"])
def test_changing_rows_needs_a_key(mode: str) -> None:
    with pytest.raises(bs.KeyMismatchError, match=r"name the key columns, as in BarrageSink\("):
        BarrageSink(URI, table="t", mode=mode)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"table": ""}, "Say where to publish"),
        ({"mode": "sideways"}, "use one of append"),
        ({"ship": "pigeon"}, "use one of auto, driver, executors"),
        ({"kind": "tree"}, "kind 'tree' is unknown"),
        ({"ship_threshold": -1}, "ship_threshold must be at least 0"),
        ({"ship_threshold": "big"}, "ship_threshold must be an integer"),
        ({"kind": "ring"}, "kind 'ring' needs a capacity"),
        ({"kind": "ring", "capacity": 0}, "capacity must be at least 1"),
        ({"capacity": 2.5}, "capacity must be an integer"),
        ({"kind": "ring", "capacity": 5, "key": "k"}, "kind 'ring' has no key"),
        ({"capacity": 5, "key": "k"}, "kind 'keyed' takes no capacity"),
        ({"kind": "blink", "capacity": 5}, "kind 'blink' takes no capacity"),
        ({"kind": "append", "key": "k"}, "kind 'append' has no key"),
        ({"kind": "keyed"}, "kind 'keyed' needs a key"),
        ({"capacity": 5, "mode": "complete"}, "kind 'ring' cannot be replaced"),
        ({"kind": "blink", "mode": "replace"}, "kind 'blink' cannot be replaced"),
        ({"kind": "ring", "capacity": 5, "mode": "update", "key": "k"}, "kind 'ring' has no key"),
        ({"key": ["k", "k"]}, "names a column twice"),
        ({"order_by": ""}, "order_by is empty"),
        ({"order_by": ["a"]}, "order_by must be a string"),
        ({"publisher": ""}, "publisher is empty"),
        ({"table": 5}, "table must be a string, not 5"),
        ({"retry_seconds": -1}, "retry_seconds must be a number of seconds"),
        ({"retry_seconds": "soon"}, "got 'soon'"),
        ({"retry_seconds": float("nan")}, "got nan"),
        ({"allow_gap": "true"}, "allow_gap must be True or False, not 'true'"),
        ({"token": " "}, "token is empty.*BARRAGE_TOKEN"),
        ({"uri": "http://here:80"}, "address of a web server"),
        ({"uri": "dh+plain://here:10000"}, "for Deephaven's clients; publish to the Arrow Flight port"),
        ({"uri": "grpc://here:1/t"}, "names more than a server"),
        ({"tls_root_certs": "/nowhere/at/all.pem"}, "tls_root_certs.*cannot be read"),
        ({"token": 5}, "token must be a string, not an int"),
        ({"token": "é"}, "token must be printable ASCII"),
        *(
            ({name: "\ud800"}, f"{name}.*half of a surrogate pair")
            for name in ("uri", "table", "order_by", "publisher")
        ),
        ({"key": ["k", "\ud800"]}, "half of a surrogate pair"),
        ({"user": "\ud800", "password": "c"}, "user has half of a surrogate pair"),
        ({"user": "b", "password": "\ud800"}, "password has half of a surrogate pair"),
        ({"tls_root_certs": "\ud800"}, "tls_root_certs.*cannot be read"),
        ({"token": "a", "user": "b", "password": "c"}, "token and user are two ways to log in"),
        ({"user": "b"}, "A user needs a password: pass password, or set BARRAGE_PASSWORD"),
        ({"user": " ", "password": "c"}, "user is empty"),
        ({"password": "c"}, "A password needs a user"),
        ({"tls_key": "-----BEGIN "}, "tls_key needs tls_certificate"),
        ({"tls_certificate": CERTIFICATE}, "tls_certificate needs tls_key"),
        ({"tls_certificate": CERTIFICATE, "tls_key": CERTIFICATE}, "do not fit each other"),
        ({"tls_certificate": CHAIN, "tls_key": KEY}, "for connections with TLS, as in grpc\\+tls://127.0.0.1:1"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, object], text: str) -> None:
    arguments: dict[str, object] = {"uri": URI, "table": "t"} | wrong
    with pytest.raises(bs.InvalidRequestError, match=text):
        BarrageSink(**arguments)  # type: ignore[arg-type]


def test_options_that_cannot_be_are_refused() -> None:
    with pytest.raises(bs.InvalidRequestError, match=r"allow_gap .warn. is unknown; use one of true, false"):
        PublishSettings.from_options({"uri": URI, "table": "t", "allow_gap": "warn"})
    with pytest.raises(bs.InvalidRequestError, match="whole number"):
        PublishSettings.from_options({"uri": URI, "table": "t", "capacity": "many"})
    with pytest.raises(bs.InvalidRequestError, match="Unknown option tabel"):
        PublishSettings.from_options({"uri": URI, "tabel": "t"})


def test_columns_are_checked_against_the_rows() -> None:
    schema = pa.schema([("a", pa.int64())])
    PublishSettings(URI, "t", key=("a",), order_by="a").check_columns(schema)
    with pytest.raises(bs.UnknownColumnError, match="order_by names 'b'"):
        PublishSettings(URI, "t", order_by="b").check_columns(schema)


def test_a_sink_shows_where_it_goes_and_not_its_token() -> None:
    sink = BarrageSink(URI, table="t", token="secret")
    assert "secret" not in repr(sink)
    assert sink.settings.ship_threshold == DEFAULT_SHIP_THRESHOLD
    assert "secret" not in repr(sink.settings)


def test_a_port_that_is_not_named_is_the_usual_one() -> None:
    assert BarrageSink("grpc://here", table="t").settings.uri == "grpc://here:8815"
    assert PublishSettings.from_options({"uri": "here", "table": "t"}).uri == "grpc://here:8815"


def test_the_token_comes_from_the_environment_when_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARRAGE_TOKEN", "from the driver")
    assert BarrageSink(URI, table="t").settings.token == "from the driver"
    assert PublishSettings.from_options({"uri": URI, "table": "t"}).token == "from the driver"
    assert BarrageSink(URI, table="t", token="mine").settings.token == "mine"
    assert PublishSettings.from_options({"uri": URI, "table": "t", "token": "mine"}).token == "mine"
    monkeypatch.setenv("BARRAGE_TOKEN", "  ")
    assert BarrageSink(URI, table="t").settings.token is None


def test_a_server_may_be_waited_for_without_end() -> None:
    assert BarrageSink(URI, table="t", retry_seconds=float("inf")).settings.retry_seconds == float("inf")
    assert PublishSettings.from_options({"uri": URI, "table": "t", "retrySeconds": "inf"}).retry_seconds == float("inf")


def test_settings_of_a_user_survive_as_options() -> None:
    """With the certificate; a token in the environment of the driver is not read beside them."""
    settings = PublishSettings(
        uri="grpc+tls://127.0.0.1:1",
        table="t",
        user="anna",
        password="of,anna",
        tls_certificate=CHAIN.decode(),
        tls_key=KEY.decode(),
    )
    options = settings.to_options()
    assert PublishSettings.from_options(options) == settings
    assert options["tls_key"].startswith("secret")  # by which Spark masks it where it shows plans


def test_the_password_comes_from_the_environment_when_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARRAGE_TOKEN", "not beside a user")
    monkeypatch.setenv("BARRAGE_PASSWORD", "from the driver")
    for settings in (
        BarrageSink(URI, table="t", user="anna").settings,
        PublishSettings.from_options({"uri": URI, "table": "t", "user": "anna"}),
    ):
        assert (settings.token, settings.user, settings.password) == (None, "anna", "from the driver")
    assert BarrageSink(URI, table="t", user="anna", password="mine").settings.password == "mine"
    assert BarrageSink(URI, table="t").settings.password is None


def test_pem_may_be_files_of_the_driver(tmp_path: Path) -> None:
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    chain.write_bytes(CHAIN)
    key.write_bytes(KEY)
    sink = BarrageSink("grpc+tls://127.0.0.1:1", table="t", tls_certificate=chain, tls_key=str(key))
    options = {"uri": "grpc+tls://127.0.0.1:1", "table": "t", "tlsCertificate": str(chain), "tls_key": str(key)}
    for settings in (sink.settings, PublishSettings.from_options(options)):
        assert settings.tls_certificate == chain.read_text()
        assert settings.tls_key == key.read_text()
        assert "PRIVATE" not in repr(settings)

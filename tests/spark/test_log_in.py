"""Servers that know users, and servers that require client certificates, from the driver and from the executors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import argon2
import pytest
import trustme

import barrage_server as bs
from barrage_server.spark import BarrageSink, register
from barrage_server.spark.publisher import Publisher, ServerAccess
from tests.spark.feeding import Drain, Feed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PASSWORD = 'a:password, with "signs" – ü'
AUTHORITY = trustme.CA()
ROOTS = AUTHORITY.cert_pem.bytes()


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BARRAGE_TOKEN", raising=False)
    monkeypatch.delenv("BARRAGE_PASSWORD", raising=False)


@pytest.fixture(params=["pyarrow", "grpc"])
def guarded(request: pytest.FixtureRequest) -> Iterator[bs.Server]:
    """A server that requires client certificates."""
    its = AUTHORITY.issue_cert("127.0.0.1")
    tls = its.cert_chain_pems[0].bytes(), its.private_key_pem.bytes()
    with bs.Server(tls_certificate=tls[0], tls_key=tls[1], tls_client_root_certs=ROOTS, front=request.param) as server:
        yield server


@pytest.fixture
def users(tmp_path: Path) -> Iterator[bs.Server]:
    """A server with one user."""
    hashed = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)
    path = tmp_path / "credentials.toml"
    path.write_text(f"[[users]]\nname = 'job'\npassword = '{hashed}'\n")
    with bs.Server(token=bs.CredentialFile(path)) as server:
        yield server


@pytest.fixture
def pair(tmp_path: Path) -> dict[str, str]:
    """Files with a certificate of the job, and what it trusts."""
    mine = AUTHORITY.issue_cert("job.example.com")
    texts = {
        "tls_root_certs": ROOTS,
        "tls_certificate": mine.cert_chain_pems[0].bytes(),
        "tls_key": mine.private_key_pem.bytes(),
    }
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text)
    return {name: str(tmp_path / name) for name in texts}


def test_a_publisher_shows_its_certificate(guarded: bs.Server, pair: dict[str, str]) -> None:
    texts: dict[str, Any] = {name: Path(path).read_text() for name, path in pair.items()}
    assert Publisher(ServerAccess(guarded.uri, **texts)).last_batch("p", "t") is None
    BarrageSink(guarded.uri, table="t", **texts)
    with pytest.raises(bs.UnavailableError):
        Publisher(ServerAccess(guarded.uri, tls_root_certs=ROOTS.decode())).last_batch("p", "t")


def test_a_publisher_shows_user_and_password(users: bs.Server) -> None:
    assert Publisher(ServerAccess(users.uri, user="job", password=PASSWORD)).last_batch("p", "t") is None
    BarrageSink(users.uri, table="t", user="job", password=PASSWORD)
    with pytest.raises(bs.AuthenticationError, match="or pass user= and password=") as told:
        BarrageSink(users.uri, table="t", user="job", password=PASSWORD + "x")
    assert PASSWORD not in str(told.value)


@pytest.mark.spark
@pytest.mark.parametrize("ship", ["driver", "executors"])
def test_a_sink_publishes_with_a_certificate(
    guarded: bs.Server, pair: dict[str, Any], feed: Feed, drain: Drain, ship: str
) -> None:
    feed.add({"v": [3, 1]})
    sink = BarrageSink(guarded.uri, table="t", ship=ship, **pair)
    drain(feed.stream().writeStream.foreachBatch(sink))
    assert guarded.table("t").size == 2


@pytest.mark.spark
def test_the_format_publishes_with_a_certificate(
    spark: SparkSession, guarded: bs.Server, pair: dict[str, str], feed: Feed, drain: Drain
) -> None:
    register(spark)
    feed.add({"v": [3, 1]})
    drain(feed.stream().writeStream.format("barrage").options(uri=guarded.uri, table="t", **pair))
    assert guarded.table("t").size == 2


@pytest.mark.spark
def test_sink_and_format_publish_as_a_user(spark: SparkSession, users: bs.Server, feed: Feed, drain: Drain) -> None:
    register(spark)
    feed.add({"v": [3, 1]})
    sink = BarrageSink(users.uri, table="t", ship="executors", user="job", password=PASSWORD)
    drain(feed.stream().writeStream.foreachBatch(sink))
    options = {"uri": users.uri, "table": "u", "user": "job", "password": PASSWORD}
    feed.batch().write.format("barrage").options(**options).mode("append").save()
    assert (users.table("t").size, users.table("u").size) == (2, 2)

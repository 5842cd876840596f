"""Tokens and passwords are in no representation: of no object that holds one, and of none that holds such an object."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
import trustme

import barrage_server as bs
from barrage_server.cli.connection import Address
from barrage_server.cli.following import FollowSettings
from barrage_server.cli.settings import load_settings
from barrage_server.cli.usage import UsageError
from barrage_server.client.access import Access
from barrage_server.client.login import Login
from barrage_server.relay.source import Source
from barrage_server.server import Credentials
from barrage_server.spark.settings import PublishSettings
from barrage_server.spark.tasks import PartitionStager
from barrage_server.wire.commit_messages import AbortRequest, CommitRequest, StageResult
from barrage_server.wire.page_messages import Hello

SECRET = "hunter2-of-all-things"
ISSUED = trustme.CA().issue_cert("me.example.com")
KEY = f"{SECRET}\n".encode() + ISSUED.private_key_pem.bytes()
CHAIN = ISSUED.cert_chain_pems[0].bytes()


def holders() -> Iterator[object]:
    yield Credentials("bearer", "", SECRET)
    yield Login(token=SECRET)
    yield Login(user="me", password=SECRET)
    yield Access(token=SECRET, password=SECRET, headers={"authorization": SECRET})
    yield Source.parse("grpc://host:1/t", token=SECRET, password=SECRET, headers={"authorization": SECRET})
    yield Access(tls_certificate=CHAIN, tls_key=KEY)
    yield Source.parse("grpc+tls://host:1/t", tls_certificate=CHAIN, tls_key=KEY)
    yield Address("grpc://host:1", SECRET, None)
    yield Address("grpc://host:1", user="me", password=SECRET)
    yield FollowSettings.model_validate(
        {"uri": "grpc://host:1/t", "token": SECRET, "password": SECRET, "tls_key": SECRET}
    )
    yield load_settings(
        None, {"token": SECRET, "tokens": [SECRET], "follow_token": SECRET, "follow_tls_key": SECRET, "tls_key": SECRET}
    )
    yield PublishSettings("grpc+tls://host:1", "t", user="me", password=SECRET, tls_certificate="", tls_key=SECRET)
    settings = PublishSettings(uri="grpc://host:1", table="t", token=SECRET)
    yield settings
    yield PartitionStager(settings, pa.schema([]), 1)
    yield StageResult(SECRET, 1)
    yield Hello(1, SECRET)
    yield CommitRequest("p", "t", 1, tokens=(SECRET,))
    yield AbortRequest(tokens=(SECRET,))


@pytest.mark.parametrize("holder", list(holders()), ids=lambda holder: type(holder).__name__)
def test_no_representation_shows_a_secret(holder: object) -> None:
    inside = vars(holder) if hasattr(holder, "__dict__") else {}
    for text in (repr(holder), str(holder), f"{holder}"):
        assert SECRET not in text
    if not isinstance(holder, Login):  # whose own attributes nothing prints
        assert SECRET not in repr(inside)


def test_servers_and_clients_show_none_and_errors_neither() -> None:
    with bs.Server(token=SECRET) as server, bs.connect(server.uri, token=SECRET) as client:
        for thing in (server, client, vars(server), vars(client), client.statistics()):
            assert SECRET not in repr(thing)
        with pytest.raises(bs.AuthenticationError) as refused:
            bs.connect(server.uri, token=SECRET + "x")
        assert SECRET not in str(refused.value)
    with pytest.raises(UsageError) as wrong:
        load_settings(None, {"token": SECRET, "port": SECRET})
    assert str(wrong.value).count(SECRET) == 0

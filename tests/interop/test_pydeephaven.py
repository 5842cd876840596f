"""Deephaven's Python client, unmodified: log-in, tables by name, and what cannot be done."""

from __future__ import annotations

import pyarrow as pa
import pytest
import trustme

from barrage_server import AuthenticationError, Server
from barrage_server.engine import KeyedTable
from barrage_server.server import Limits
from barrage_server.server.authentication import Credentials
from tests.waiting import until

from .deephaven import PSK_TYPE
from .peer import PeerError
from .python_client import Pydeephaven, port_of

pytestmark = pytest.mark.interop

SCHEMA = pa.schema([("sym", pa.string()), ("price", pa.float64())])


@pytest.fixture
def quotes(server: Server) -> KeyedTable:
    table = server.keyed_table("quotes", SCHEMA, key=["sym"])
    table.upsert({"sym": ["A", "B"], "price": [1.0, None]})
    return table


# Log-ins.


@pytest.mark.parametrize(
    "login",
    [
        {"auth_type": "Basic", "auth_token": "ann:secret"},
        {"auth_type": PSK_TYPE, "auth_token": "secret"},
        {"auth_type": "Bearer", "auth_token": "secret"},
    ],
    ids=["basic", "psk", "bearer"],
)
def test_a_client_with_the_token_logs_in(pydeephaven: Pydeephaven, login: dict[str, str]) -> None:
    with Server(token="secret", deephaven_port=0) as server:
        server.append_table("t", SCHEMA).append({"sym": ["A"], "price": [1.0]})
        pydeephaven.log_in(server, **login)
        assert pydeephaven.evaluate("session.tables") == ["t"]
        assert pydeephaven.fetch("session.open_table('t').to_arrow()").num_rows == 1
        assert pydeephaven.evaluate("session.import_table(pa.table({'a': [1]})).to_arrow().num_rows") == 1
        assert server.statistics().sessions == 1
        pydeephaven.execute("session.close()")
        assert server.statistics().sessions == 0


@pytest.mark.parametrize(
    "login",
    [
        {},
        {"auth_type": "Basic", "auth_token": "ann:wrong"},
        {"auth_type": PSK_TYPE, "auth_token": "wrong"},
        {"auth_type": "Bearer", "auth_token": "wrong"},
    ],
    ids=["anonymous", "basic", "psk", "bearer"],
)
def test_a_client_without_the_token_is_refused(pydeephaven: Pydeephaven, login: dict[str, str]) -> None:
    with Server(token="secret", deephaven_port=0) as server:
        with pytest.raises(PeerError, match="token is missing or wrong") as caught:
            pydeephaven.log_in(server, **login)
        assert caught.value.kind == "DHError"
        assert server.statistics().sessions == 0


def test_a_server_may_check_users_itself(pydeephaven: Pydeephaven) -> None:
    def authenticate(credentials: Credentials) -> str:
        if (credentials.scheme, credentials.user, credentials.secret) == ("basic", "ann", "secret"):
            return credentials.user
        raise AuthenticationError("Only Ann may come in.")

    with Server(token=authenticate, deephaven_port=0) as server:
        pydeephaven.log_in(server, "Basic", "ann:secret")
        assert pydeephaven.evaluate("session.tables") == []
        pydeephaven.execute("session.close()")
        with pytest.raises(PeerError, match="Only Ann may come in"):
            pydeephaven.log_in(server, "Basic", "bob:secret")


def test_a_server_that_asks_for_nothing_takes_whatever_is_shown(
    server: Server, pydeephaven: Pydeephaven, quotes: KeyedTable
) -> None:
    for login in ({}, {"auth_type": "Basic", "auth_token": "ann:x"}, {"auth_type": PSK_TYPE, "auth_token": "x"}):
        pydeephaven.log_in(server, **login)
        assert pydeephaven.evaluate("session.tables") == ["quotes"]
        pydeephaven.execute("session.close()")


def test_more_sessions_than_the_server_allows(pydeephaven: Pydeephaven) -> None:
    with Server(deephaven_port=0, limits=Limits(sessions=1)) as server:
        pydeephaven.log_in(server)
        with pytest.raises(PeerError, match=r"has 1 sessions open \(sessions\) and takes no more"):
            pydeephaven.log_in(server, name="other")
        pydeephaven.execute("session.close()")
        pydeephaven.log_in(server, name="other", extra_headers={b"x-department": b"trading"})
        pydeephaven.execute("other.close()")


def test_tls(pydeephaven: Pydeephaven) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    chain = b"".join(blob.bytes() for blob in certificate.cert_chain_pems)
    with Server(tls_certificate=chain, tls_key=certificate.private_key_pem.bytes(), deephaven_port=0) as server:
        server.append_table("t", SCHEMA).append({"sym": ["A"], "price": [1.0]})
        root = authority.cert_pem.bytes()
        pydeephaven.log_in(server, use_tls=True, tls_root_certs=root)
        assert pydeephaven.fetch("session.open_table('t').to_arrow()").to_pylist() == [{"sym": "A", "price": 1.0}]
        pydeephaven.execute("session.close()")


def test_a_token_of_a_session_that_has_ended_is_worth_nothing(client: Pydeephaven, quotes: KeyedTable) -> None:
    client.execute("old = session._auth_header_value; port = session.port; session.close()")
    client.execute("session = Session('127.0.0.1', port); new = session._auth_header_value")
    client.execute("session._auth_header_value = old")
    with pytest.raises(PeerError, match="Log in again"):
        client.execute("session.open_table('quotes')")
    client.execute("session._auth_header_value = new")
    assert client.evaluate("session.open_table('quotes').size") == 2


# Tables by name.


def test_tables(server: Server, client: Pydeephaven, quotes: KeyedTable) -> None:
    server.append_table("überall / x", SCHEMA)
    assert client.evaluate("session.tables") == ["quotes", "überall / x"]
    assert client.evaluate("sorted(session.exportable_objects)") == ["quotes", "überall / x"]
    server.drop("quotes")
    assert client.evaluate("session.tables") == ["überall / x"]


def test_open_table(server: Server, client: Pydeephaven, quotes: KeyedTable) -> None:
    client.execute("t = session.open_table('quotes')")
    assert client.fetch("t.schema").schema.equals(SCHEMA)
    assert client.evaluate("[t.size, t.is_refreshing, t.is_closed]") == [2, True, False]
    assert client.fetch("t.to_arrow()").equals(quotes.to_arrow())
    quotes.upsert({"sym": ["C", "A"], "price": [3.0, 9.0]})
    assert client.fetch("t.to_arrow()").equals(quotes.to_arrow())
    assert server.statistics().exports == 1
    client.execute("t.close()")
    assert client.evaluate("t.is_closed")
    assert server.statistics().exports == 0


def test_what_the_client_forgets_is_released(server: Server, client: Pydeephaven, quotes: KeyedTable) -> None:
    client.execute("ts = [session.open_table('quotes') for _ in range(3)]")
    assert server.statistics().exports == 3
    client.execute("del ts[1:]")
    assert server.statistics().exports == 1
    client.execute("ts.clear()")
    assert server.statistics().exports == 0


def test_an_empty_table(server: Server, client: Pydeephaven) -> None:
    server.append_table("empty", SCHEMA)
    client.execute("t = session.open_table('empty')")
    assert client.evaluate("t.size") == 0
    assert client.fetch("t.to_arrow()").equals(SCHEMA.empty_table())


def test_a_large_table_is_read_in_parts(server: Server, client: Pydeephaven) -> None:
    rows = pa.table({"n": range(500_000), "text": [f"row {number}" for number in range(500_000)]})
    server.append_table("large", rows.schema).append(rows)
    client.execute("read = session.open_table('large').to_arrow()")
    assert client.evaluate("[read.num_rows, read['n'].num_chunks > 4, read.nbytes > 4 << 20]") == [500_000, True, True]
    assert client.fetch("read").equals(rows)


# What goes wrong, and what the user sees.


def test_an_unknown_table(client: Pydeephaven, quotes: KeyedTable) -> None:
    with pytest.raises(PeerError, match=r"There is no table 'quote'.* Did you mean 'quotes'") as caught:
        client.execute("session.open_table('quote')")
    assert caught.value.kind == "DHError"


def test_a_dropped_table_can_be_read_by_its_holders(server: Server, client: Pydeephaven, quotes: KeyedTable) -> None:
    client.execute("t = session.open_table('quotes')")
    server.drop("quotes")
    assert client.fetch("t.to_arrow()").equals(quotes.to_arrow())
    with pytest.raises(PeerError, match="There is no table 'quotes'"):
        client.execute("session.open_table('quotes')")


def test_the_server_goes_away(pydeephaven: Pydeephaven) -> None:
    with Server(deephaven_port=0) as server:
        port = port_of(server)
        server.append_table("t", SCHEMA)
        pydeephaven.log_in(server, never_timeout=False)
        pydeephaven.execute("t = session.open_table('t')")
        assert pydeephaven.evaluate("session.is_alive")
    for statement in ("t.to_arrow()", "session.open_table('t')", "session.import_table(pa.table({'a': [1]}))"):
        with pytest.raises(PeerError) as caught:
            pydeephaven.execute(statement)
        assert caught.value.kind == "DHError"
    assert not pydeephaven.evaluate("session.is_alive")
    with Server(deephaven_port=port) as server:
        server.append_table("t", SCHEMA)
        until(lambda: _can_log_in(pydeephaven, server))
        assert pydeephaven.evaluate("session.tables") == ["t"]
        pydeephaven.execute("session.close()")


def _can_log_in(pydeephaven: Pydeephaven, server: Server) -> bool:
    """Whether the client has noticed that the server is back: gRPC tries again after a while."""
    try:
        pydeephaven.log_in(server)
    except PeerError:
        return False
    return True

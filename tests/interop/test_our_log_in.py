"""Our client and the sessions of a real Deephaven server: ways to log in, TLS, and what happens when a session ends."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

import barrage_server as bs
from barrage_server.client.keepalive import PAUSE
from barrage_server.client.login import Login
from tests.waiting import until

from .deephaven import DeephavenServer

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

QUICK = bs.RetryPolicy(first_delay=0.05, max_delay=0.2, deadline=60)
SECRET = "a secret, with words"
PASSWORD = "pass: word"
APPLICATION = {
    "demo.app": "type=script\nscriptType=python\nenabled=true\nid=demo\nname=Demo\nfile_0=./demo.py\n",
    "demo.py": "from deephaven import empty_table\n"
    "from deephaven.appmode import get_app_state\n"
    'get_app_state()["numbers"] = empty_table(3).update("X = ii")\n',
}


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def guarded(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeephavenServer]:
    """A server with TLS, a pre-shared key, a user, an application, and the shortest sessions there are."""
    folder = tmp_path_factory.mktemp("guarded")
    issued = authority.issue_cert("127.0.0.1")
    (folder / "chain.pem").write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    for name, text in APPLICATION.items():
        (folder / name).write_text(text)
    server = DeephavenServer(psk=SECRET, user="ann", password=PASSWORD, jvm_args=_options(folder))
    yield server
    server.close()


def _options(folder: Path) -> list[str]:
    return [
        "-Dssl.identity.type=privatekey",
        f"-Dssl.identity.certChainPath={folder / 'chain.pem'}",
        f"-Dssl.identity.privateKeyPath={folder / 'key.pem'}",
        f"-Ddeephaven.application.dir={folder}",
        "-Dhttp.session.durationMs=10000",
    ]


@pytest.mark.parametrize("scheme", ["dh", "grpc+tls"])
@pytest.mark.parametrize(
    "credentials",
    [{"token": SECRET}, {"user": "ann", "password": PASSWORD}],
    ids=["pre-shared key", "user and password"],
)
def test_ways_to_log_in(
    guarded: DeephavenServer, authority: trustme.CA, scheme: str, credentials: dict[str, Any]
) -> None:
    """The same arguments as for a server of ours, however the address is written. The connection is encrypted."""
    uri = f"{scheme}://127.0.0.1:{guarded.port}"
    with bs.connect(uri, tls_root_certs=authority.cert_pem.bytes(), **credentials) as client:
        assert client.is_deephaven
        assert client.snapshot("app/demo/field/numbers").to_pydict() == {"X": [0, 1, 2]}


def test_a_way_that_is_not_known_here_is_a_header(guarded: DeephavenServer, authority: trustme.CA) -> None:
    header = {"Authorization": f"io.deephaven.authentication.psk.PskAuthenticationHandler {SECRET}"}
    uri = f"dh://127.0.0.1:{guarded.port}"
    with bs.connect(uri, headers=header, tls_root_certs=authority.cert_pem.bytes()) as client:
        assert client.ping() > 0


@pytest.mark.parametrize(
    "credentials",
    [{}, {"token": "wrong"}, {"user": "ann", "password": "wrong"}, {"user": "nobody"}],
    ids=["none", "wrong key", "wrong password", "unknown user"],
)
def test_bad_credentials_are_told(guarded: DeephavenServer, authority: trustme.CA, credentials: dict[str, Any]) -> None:
    uri = f"dh://127.0.0.1:{guarded.port}"
    with pytest.raises(bs.AuthenticationError, match=r"did not accept the log-in. Pass token="):
        bs.connect(uri, tls_root_certs=authority.cert_pem.bytes(), **credentials)


def test_plans_go_over_tls_too(guarded: DeephavenServer, authority: trustme.CA) -> None:
    """Calls of the table service have a connection of their own."""
    uri = f"dh://127.0.0.1:{guarded.port}"
    with bs.connect(uri, token=SECRET, tls_root_certs=authority.cert_pem.bytes()) as client:
        plan = client.table("app/demo/field/numbers").where("X > 0").update("Y = X * 2")
        assert plan.to_arrow().to_pydict() == {"X": [1, 2], "Y": [2, 4]}


def test_a_certificate_that_is_not_trusted_ends_it(guarded: DeephavenServer) -> None:
    with pytest.raises(bs.UnavailableError, match=f"No connection to dh://127.0.0.1:{guarded.port}"):
        bs.connect(f"dh://127.0.0.1:{guarded.port}", tls_root_certs=trustme.CA().cert_pem.bytes(), token=SECRET)


def test_tables_of_applications_have_names_too(guarded: DeephavenServer, authority: trustme.CA) -> None:
    """As in Deephaven's URIs."""
    uri = f"dh://127.0.0.1:{guarded.port}"
    with bs.connect(uri, token=SECRET, tls_root_certs=authority.cert_pem.bytes()) as client:
        name = "app/demo/field/numbers"
        assert [info.name for info in client.tables()] == [name]
        assert client.table(name).size == 3
        with client.subscribe(name, viewport=range(1, 3)) as live:
            assert live.to_arrow().to_pydict() == {"X": [1, 2]}
        with pytest.raises(bs.UnknownTableError, match="field 'app/demo/field/none' not found"):
            client.subscribe("app/demo/field/none")


def test_while_something_is_open_the_session_is_kept_and_its_newest_token_used(
    guarded: DeephavenServer, authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions of ten seconds get a new token every two, with some call."""
    shown, received = list[str](), Login.received

    def noted(login: Login, values: Iterable[str | bytes]) -> None:
        received(login, values)
        shown.append(login.header)

    monkeypatch.setattr(Login, "received", noted)
    uri = f"dh://127.0.0.1:{guarded.port}"
    with bs.connect(uri, token=SECRET, tls_root_certs=authority.cert_pem.bytes()) as client:
        with client.subscribe("app/demo/field/numbers"):
            before = shown[-1]
            until(lambda: shown[-1] != before, timeout=PAUSE + 10)
            assert shown[-1].startswith("Bearer ")
        threads = [thread for thread in threading.enumerate() if thread.name.startswith("barrage-session dh://")]
        until(lambda: not any(thread.is_alive() for thread in threads))
        assert client.ping() > 0


def test_a_session_that_the_server_has_ended_begins_anew(deephaven: DeephavenServer) -> None:
    """Calls log in again by themselves, and subscriptions come back."""
    deephaven.execute(
        "import jpy\n"
        "from deephaven import dtypes, input_table, new_table\n"
        "from deephaven.column import long_col\n"
        'ended = input_table(col_defs={"K": dtypes.long}, key_cols="K")\n'
        'ended.add(new_table([long_col("K", [1])]))'
    )
    states: queue.Queue[bs.LiveState] = queue.Queue()
    with bs.connect(deephaven.uri, retry=QUICK) as client, client.subscribe("ended", interval_ms=1) as live:
        live.on_state(states.put)
        deephaven.end_all_sessions()
        assert client.snapshot("ended").to_pydict() == {"K": [1]}
        assert states.get(timeout=30) is bs.LiveState.RECONNECTING
        assert states.get(timeout=30) is bs.LiveState.LIVE
        deephaven.execute('ended.add(new_table([long_col("K", [2])]))')
        live.wait_until(lambda view: view.to_arrow().to_pydict() == {"K": [1, 2]}, timeout=20)
        deephaven.end_all_sessions()
        with client.subscribe("ended", viewport=range(1)) as window:
            assert window.to_arrow().to_pydict() == {"K": [1]}


def test_a_server_that_restarts_is_found_again_with_its_content() -> None:
    """A whole table and a window stay in view, say that they are lost, and come back in one update each."""
    rows = (
        "from deephaven import dtypes, input_table, new_table\n"
        "from deephaven.column import long_col, string_col\n"
        'kept = input_table(col_defs={"K": dtypes.long, "S": dtypes.string}, key_cols="K")\n'
    )
    first = DeephavenServer()
    second: DeephavenServer | None = None
    try:
        first.execute(rows + 'kept.add(new_table([long_col("K", [1, 2, 3]), string_col("S", ["a", "b", "c"])]))')
        with bs.connect(first.uri, retry=QUICK) as client:
            whole = client.subscribe("kept", interval_ms=1)
            window = client.subscribe("kept", ["S"], range(2), reverse=True, interval_ms=1)
            table = whole.table
            second = first.restarted()
            for live in (whole, window):
                live.wait_until(lambda view: view.state is bs.LiveState.RECONNECTING, timeout=30)
            assert whole.to_arrow()["S"].to_pylist() == ["a", "b", "c"]
            updates = whole.updates(timeout=60)
            second.execute(rows + 'kept.add(new_table([long_col("K", [1, 2, 4]), string_col("S", ["a", "x", "d"])]))')
            update = next(updates)
            assert update.is_snapshot
            whole.wait_until(lambda view: view.to_arrow()["S"].to_pylist() == ["a", "x", "d"], timeout=30)
            window.wait_until(lambda view: view.to_arrow().to_pydict() == {"S": ["x", "d"]}, timeout=30)
            assert whole.table is table
            second.execute('kept.add(new_table([long_col("K", [5]), string_col("S", ["e"])]))')
            whole.wait_until(lambda view: view.size == 4)
            window.wait_until(lambda view: view.to_arrow().to_pydict() == {"S": ["d", "e"]})
            assert whole.state is window.state is bs.LiveState.LIVE
            assert [info.name for info in client.tables()] == ["kept"]
    finally:
        for server in (first, second):
            if server is not None:
                server.close()

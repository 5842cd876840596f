"""Records are one line each, whatever the texts in them say."""

from __future__ import annotations

import ast
import io
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.flight as fl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import barrage_server as bs
from barrage_server.flight.errors import from_flight
from barrage_server.log import LOGGERS, Throttle, one_line, printable

HOSTILE = "x\n2026-01-01 00:00:00,000 INFO barrage_server.server: forged\r\x1b[31mred\x85\u2028\u202e\x00\x7f\ud800"
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


@pytest.fixture
def log() -> Iterator[Callable[[], list[str]]]:
    """The lines that a program's own handler has written, as any embedding program sets one up."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter(FORMAT))
    logger = logging.getLogger("barrage_server")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield lambda: stream.getvalue().split("\n")[:-1]
    logger.removeHandler(handler)
    logger.setLevel(level)


@given(st.text())
def test_a_line_is_printable_and_keeps_what_was(text: str) -> None:
    line = one_line(text)
    assert line.isprintable()
    assert line == text or not text.isprintable()
    lines = printable(text)
    assert all(part.isprintable() for line in lines.split("\n") for part in line.split("\t"))
    assert lines.count("\n") == text.count("\n")


def test_a_long_line_is_cut() -> None:
    assert one_line("x" * 1000, 10) == "x" * 10 + "... (990 more characters)"


@pytest.mark.parametrize("name", LOGGERS)
def test_a_record_is_one_line(name: str, log: Callable[[], list[str]]) -> None:
    logger = logging.getLogger(name)
    logger.error("table %s: %r %d", HOSTILE, HOSTILE, 5)
    logger.error(HOSTILE)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logger.exception("a fault of %s", HOSTILE)
    lines = log()
    assert all(line.isprintable() for line in lines)
    heads = [line for line in lines if not line.startswith("  ")]
    assert len(heads) == 3, "every other line is a traceback's, and indented"
    assert all(f"ERROR {name}: " in line for line in heads)


def test_every_logger_of_the_package_is_guarded() -> None:
    package = Path(bs.__file__).parent
    named = {
        node.args[0].value
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "getLogger"
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    }
    library = "barrage_server.server.websockets"  # of the library's texts, errors only
    assert named - {library} <= set(LOGGERS)


def test_names_of_clients_forge_no_records(log: Callable[[], list[str]]) -> None:
    """Of tables, columns, users, actions and headers, at both endpoints."""
    name = HOSTILE.replace("\ud800", "").replace("\x00", "")
    with bs.Server(token="good", deephaven_port=0) as server:
        assert server.deephaven_uri is not None
        for uri in (server.uri, server.deephaven_uri):
            with bs.connect(uri, token="good") as client:
                calls: list[Callable[[], object]] = [
                    lambda client=client: client.snapshot(name),  # type: ignore[misc]
                    lambda client=client: client.subscribe(name),  # type: ignore[misc]
                    lambda client=client: client.append("t", pa.table({name: [1]})),  # type: ignore[misc]
                    lambda client=client: client.drop(name),  # type: ignore[misc]
                ]
                for call in calls:
                    try:
                        call()
                    except bs.BarrageError as error:
                        assert all(part.isprintable() for part in str(error).split("\n"))
            with pytest.raises(bs.AuthenticationError):
                bs.connect(uri, user=name, password="wrong")
        with fl.connect(server.uri) as plain:
            options = fl.FlightCallOptions(headers=[(b"authorization", b"Bearer good")])
            with pytest.raises(pa.ArrowException):
                list(plain.do_action((name, b""), options))
    lines = log()
    assert lines
    assert all(line.isprintable() for line in lines)
    assert not any(line.startswith("2026-01-01") for line in lines)


def test_errors_of_servers_bring_no_escapes_to_a_terminal() -> None:
    for error in (fl.FlightInternalError("a\x1b[2Jb"), pa.ArrowInvalid("a\x1b[2Jb [UnknownTableError]")):
        assert str(from_flight(error)) == "a\\x1b[2Jb"


def test_a_throttle_lets_a_burst_through_and_counts_the_rest() -> None:
    now = [0.0]
    throttle = Throttle(3, 0.5, lambda: now[0])
    assert [throttle.admit() for _ in range(5)] == [0, 0, 0, None, None]
    now[0] = 2.0
    assert [throttle.admit() for _ in range(2)] == [2, None]
    now[0] = 1000.0
    assert [throttle.admit() for _ in range(4)] == [1, 0, 0, None]


@pytest.mark.parametrize("endpoint", ["Flight", "Deephaven"])
def test_refused_log_ins_are_warned_of_with_their_address_and_fill_no_disk(
    endpoint: str, log: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barrage_server.server.translate._LOG_INS", Throttle(3, 0.001))
    with bs.Server(token="good", deephaven_port=0) as server:
        assert server.deephaven_uri is not None
        uri = server.uri if endpoint == "Flight" else server.deephaven_uri.replace("dh+plain", "grpc")
        with fl.connect(uri) as client:
            for _ in range(50):
                with pytest.raises(fl.FlightUnauthenticatedError):
                    list(client.list_flights())
    refused = [line for line in log() if "authentication" in line]
    assert len(refused) == 3
    assert all(" WARNING " in line and "authentication of 127.0.0.1:" in line for line in refused)

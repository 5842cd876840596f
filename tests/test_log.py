"""Records are one line each, whatever the texts in them say."""

from __future__ import annotations

import ast
import io
import json
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import barrage_server as bs
from barrage_server.flight.errors import from_flight
from barrage_server.log import (
    LOGGERS,
    JsonFormatter,
    TextFormatter,
    Throttle,
    about,
    note,
    one_line,
    printable,
    serving_call,
)
from barrage_server.server.workers import Workers
from tests.waiting import until

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
    # of the texts of libraries: errors only, and a filter
    libraries = {"barrage_server.server.websockets", "grpc._cython.cygrpc"}
    assert named - libraries <= set(LOGGERS)


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


def test_a_throttled_log_says_how_many_messages_it_has_suppressed(caplog: pytest.LogCaptureFixture) -> None:
    """Messages below the logger's level take nothing of the burst."""
    now = [0.0]
    throttle, logger = Throttle(1, 0.5, lambda: now[0]), logging.getLogger("barrage_server.server")
    with caplog.at_level(logging.WARNING, logger.name):
        throttle.log(logger, logging.INFO, "not shown")
        for number in range(3):
            throttle.log(logger, logging.WARNING, "number %d", number)
        now[0] = 2.0
        throttle.log(logger, logging.WARNING, "number %d", 3)
    assert caplog.messages == ["number 0", "number 3 (and 2 more, not shown)"]


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


# What records say of the call that they are about, and lines of JSON.


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def of(self, text: str) -> Any:
        """The one record whose message has ``text``."""
        [found] = [record for record in self.records if text in record.getMessage()]
        return found


@pytest.fixture
def kept(whole_log: None) -> Iterator[Kept]:
    handler, logger = Kept(), logging.getLogger("barrage_server")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.fixture
def json_lines() -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """What the lines of a log in JSON say. Each must be one object."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("barrage_server")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield lambda: [json.loads(line) for line in stream.getvalue().split("\n")[:-1]]
    logger.removeHandler(handler)
    logger.setLevel(level)


def _record(text: str, *args: object, error: BaseException | None = None, **facts: Any) -> logging.LogRecord:
    info = None if error is None else (type(error), error, error.__traceback__)
    record = logging.LogRecord(text, logging.ERROR, __file__, 1, text, args, info)
    vars(record).update(facts)
    return record


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()], ids=["json", "text"])
@given(text=st.text(), name=st.text(), step=st.integers())
@example(text=HOSTILE, name=HOSTILE, step=1)
def test_a_formatted_record_is_one_line_whatever_is_in_it(
    formatter: logging.Formatter, text: str, name: str, step: int
) -> None:
    """Also one of a library, whose logger escapes nothing, with a traceback behind it, and with wrong arguments."""
    facts: dict[str, Any] = {"request_id": name, "principal": name, "peer": name, "table": name, "step": step}
    for record in (
        _record(text.replace("%", "%%"), **facts),
        _record("%s", text, error=ValueError(text), **facts),
        _record(text, text, text, text, **facts),
    ):
        head, *trace = formatter.format(record).split("\n")
        assert head.isprintable()
        assert all(line.isprintable() and line.startswith("  ") for line in trace)
        if isinstance(formatter, JsonFormatter):
            assert not trace
            assert head.isascii()
            entry = json.loads(head)
            assert (entry["step"], entry["table"]) == (step, one_line(name))
            assert all(part.isprintable() for value in entry.values() for part in str(value).split("\n"))


def test_a_json_line_has_what_is_known_and_nothing_else() -> None:
    entry = json.loads(JsonFormatter().format(_record("told", table="t", step=7, principal=None)))
    assert {name: value for name, value in entry.items() if name != "time"} == {
        "level": "ERROR",
        "logger": "told",
        "message": "told",
        "table": "t",
        "step": 7,
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry["time"])


def test_names_of_clients_break_no_line_of_json(json_lines: Callable[[], list[dict[str, Any]]]) -> None:
    """Names of tables are printable, those of users need not be; missing tables are told by any name."""
    user, name = HOSTILE.replace("\ud800", "").replace("\x00", "").replace(":", ""), 'x", "level": "{}\\'
    with bs.Server(deephaven_port=0) as server:
        table = server.append_table(name, {"n": "int64"})
        table.append({"n": [1]})
        for uri in (server.uri, str(server.deephaven_uri)):
            client = bs.connect(uri, user=user, password="any")
            with client, client.subscribe(name), pytest.raises(bs.BarrageError):
                client.snapshot(f"{name} is missing")
    found = json_lines()
    assert {entry.get("table") for entry in found} >= {name}
    assert {entry.get("principal") for entry in found} >= {one_line(user)}
    assert all(part.isprintable() for entry in found for value in entry.values() for part in str(value).split("\n"))


@pytest.mark.parametrize("endpoint", ["flight", "deephaven"])
def test_records_say_which_call_they_are_about(endpoint: str, kept: Kept) -> None:
    """One id per call; the same in all of its records, also in those of other threads."""
    with bs.Server(token="good", deephaven_port=0) as server:
        uri = server.uri if endpoint == "flight" else str(server.deephaven_uri).replace("dh+plain", "grpc")
        with bs.connect(uri, user="ann", password="good") as client:
            client.create_table("made", {"n": "int64"})
            client.append("made", {"n": [1, 2]})
            client.append("made", {"n": [3]})
            with client.subscribe("made"):
                pass
            with pytest.raises(bs.UnknownTableError):
                client.snapshot("missing")
            client.drop("made")
        left = until(lambda: [record for record in kept.records if " left made" in record.getMessage()])
        with pytest.raises(bs.AuthenticationError):
            bs.connect(uri, user="eve", password="wrong")
    put, again = kept.of("committed into made, 2 rows"), kept.of("committed into made, 1 row")
    subscribed, refused = kept.of("subscribes to made"), kept.of("refused: UnknownTableError")
    calls: list[Any] = [kept.of("table made: made"), put, again, subscribed, refused, kept.of("table made: dropped")]
    assert len({record.request_id for record in calls}) == len(calls)
    assert all(re.fullmatch("[0-9a-f]{16}", record.request_id) for record in calls)
    assert {record.principal for record in calls} == {"ann"}
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+", record.peer) for record in calls)
    assert [record.table for record in calls] == ["missing" if record is refused else "made" for record in calls]
    assert (put.step, again.step) == (1, 2)
    assert left[0].request_id == subscribed.request_id
    wrong: Any = next(record for record in kept.records if "authentication" in record.getMessage())
    assert wrong.principal is None
    assert re.fullmatch("[0-9a-f]{16}", wrong.request_id)


def test_a_fault_is_found_in_the_log_by_the_id_that_the_client_was_told(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a fault")

    with bs.Server(deephaven_port=0) as server:
        server.append_table("t", {"n": "int64"})
        monkeypatch.setattr("barrage_server.server.catalog.Catalog.find", fail)
        monkeypatch.setattr("barrage_server.server.catalog.Catalog.get", fail)
        for uri in (server.uri, str(server.deephaven_uri).replace("dh+plain", "grpc")):
            with fl.connect(uri) as client, pytest.raises(pa.ArrowException) as caught:
                client.do_get(fl.Ticket(b"s/t")).read_all()
            found = re.search("under the id ([0-9a-f]+)", str(caught.value))
            assert found is not None
            assert kept.of(f"error id {found[1]}").request_id == found[1]


def test_records_outside_of_calls_are_about_none(kept: Kept) -> None:
    with bs.Server() as server:
        server.append_table("t", {"n": "int64"})
    record = kept.of("table t: made")
    assert (record.request_id, record.principal, record.peer, record.table) == (None, None, None, "t")


def test_facts_end_with_their_call_and_follow_work_to_other_threads(kept: Kept) -> None:
    workers = Workers(1, "test")
    logger = logging.getLogger("barrage_server.server")
    with serving_call("peer-1") as first:
        note(table="one")
        workers.submit(logger.info, "in the first call").result(30)
        with about(None):
            logger.info("about no call")
    with serving_call("peer-2"):
        workers.submit(logger.info, "in the second call").result(30)
    note(table="nowhere")
    workers.submit(logger.info, "in none").result(30)
    workers.shutdown()
    assert (kept.of("first").request_id, kept.of("first").table) == (first["request_id"], "one")
    assert (kept.of("second").peer, kept.of("second").table) == ("peer-2", None)
    assert kept.of("no call").request_id is None
    assert (kept.of("in none").request_id, kept.of("in none").table) == (None, None)

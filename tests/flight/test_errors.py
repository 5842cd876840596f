"""Every error of this package crosses a connection with its class, text and gRPC status, and with nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from barrage_server import errors
from barrage_server.errors import BarrageError, InternalError, UnavailableError
from barrage_server.flight.errors import decode_end, encode_end, from_flight, to_flight
from barrage_server.server.translate import boundary, guarded

grpc: Any = import_module("grpc")  # it has no types
ALL = [getattr(errors, name) for name in errors.__all__]
STATUS = {
    "INVALID_ARGUMENT": "INVALID_ARGUMENT",
    "ALREADY_EXISTS": "INVALID_ARGUMENT",
    "FAILED_PRECONDITION": "INVALID_ARGUMENT",
    "NOT_FOUND": "NOT_FOUND",
    "UNAUTHENTICATED": "UNAUTHENTICATED",
    "PERMISSION_DENIED": "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED": "UNAVAILABLE",
    "UNAVAILABLE": "UNAVAILABLE",
    "DEADLINE_EXCEEDED": "DEADLINE_EXCEEDED",
    "INTERNAL": "INTERNAL",
    "UNKNOWN": "INTERNAL",
}
FAILURES = (pa.ArrowException, OSError)


class Thrower(fl.FlightServerBase):  # type: ignore[misc]
    """Raises what it is told to, in every kind of call."""

    error: Exception = BarrageError("unset")

    def _raise(self) -> Any:
        with boundary("a test", "a peer"):
            try:
                raise ZeroDivisionError("cause=42")
            except ZeroDivisionError as cause:
                raise self.error from cause

    def do_get(self, context: Any, ticket: Any) -> Any:
        if ticket.ticket != b"late":
            self._raise()

        def batches() -> Iterator[pa.RecordBatch]:
            yield pa.record_batch({"a": [1]})
            raise self.error

        schema = pa.schema([("a", pa.int64())])
        return fl.RecordBatchStream(
            pa.RecordBatchReader.from_batches(schema, guarded(batches(), "a test", "a peer", {}))
        )

    def list_flights(self, context: Any, criteria: Any) -> Any:
        self._raise()

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        self._raise()

    def get_schema(self, context: Any, descriptor: Any) -> Any:
        self._raise()

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        self._raise()

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        self._raise()

    def do_action(self, context: Any, action: Any) -> Any:
        self._raise()


@pytest.fixture(scope="module")
def thrower() -> Iterator[Thrower]:
    with Thrower("grpc://127.0.0.1:0") as server:
        yield server


DESCRIPTOR = fl.FlightDescriptor.for_command(b"x")


def put(client: fl.FlightClient) -> None:
    writer, reader = client.do_put(DESCRIPTOR, pa.schema([("a", pa.int8())]))
    try:
        writer.done_writing()
        reader.read()
    finally:
        writer.close()


def exchange(client: fl.FlightClient) -> None:
    writer, reader = client.do_exchange(DESCRIPTOR)
    try:
        reader.read_chunk()
    finally:
        writer.close()


CALLS: dict[str, Callable[[fl.FlightClient], Any]] = {
    "get": lambda client: client.do_get(fl.Ticket(b"x")).read_all(),
    "get, late": lambda client: client.do_get(fl.Ticket(b"late")).read_all(),
    "list": lambda client: list(client.list_flights()),
    "info": lambda client: client.get_flight_info(DESCRIPTOR),
    "schema": lambda client: client.get_schema(DESCRIPTOR),
    "put": put,
    "exchange": exchange,
    "action": lambda client: list(client.do_action("x")),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", ALL)
def test_the_class_and_the_text_arrive(thrower: Thrower, kind: type[BarrageError], call: str) -> None:
    text = "Column 'a' [of many]. Detail: see there; use\nanother."
    thrower.error = kind(text)
    with fl.connect(f"grpc://127.0.0.1:{thrower.port}") as client, pytest.raises(FAILURES) as caught:
        CALLS[call](client)
    rebuilt = from_flight(caught.value)
    assert type(rebuilt) is kind
    told, _, error_id = str(rebuilt).partition(" The server's log has the details under the id ")
    assert told == text
    assert bool(error_id) == issubclass(kind, InternalError), "faults have an id of the log, and nothing else has one"


@pytest.mark.parametrize("kind", ALL)
def test_the_status_and_the_trailers_tell_no_traceback(thrower: Thrower, kind: type[BarrageError]) -> None:
    thrower.error = kind("what is wrong")
    with grpc.insecure_channel(f"127.0.0.1:{thrower.port}") as channel:
        call = channel.unary_stream("/arrow.flight.protocol.FlightService/DoGet")
        with pytest.raises(grpc.RpcError) as caught:
            list(call(b"\x0a\x01x"))
    expected = "INTERNAL" if kind is errors.DependencyError else STATUS[kind.code]
    if issubclass(kind, errors.PublishError):
        expected = "INVALID_ARGUMENT"
    assert caught.value.code().name == expected
    everything = repr((caught.value.details(), caught.value.trailing_metadata()))
    assert "what is wrong" in everything
    for leak in ("Traceback", ".py", "line ", "cause=42", "File"):
        assert leak not in everything


@pytest.mark.parametrize("call", CALLS)
def test_a_fault_becomes_an_id_and_the_log_has_the_rest(
    thrower: Thrower, call: str, caplog: pytest.LogCaptureFixture
) -> None:
    thrower.error = KeyError("secret=42")
    with fl.connect(f"grpc://127.0.0.1:{thrower.port}") as client, pytest.raises(FAILURES) as caught:
        CALLS[call](client)
    error = from_flight(caught.value)
    assert type(error) is InternalError
    assert "secret" not in str(caught.value)
    assert "Traceback" not in str(caught.value)
    error_id = str(error).rstrip(".").rpartition(" ")[2]
    assert error_id in caplog.text
    assert "secret=42" in caplog.text


@pytest.mark.parametrize("kind", ALL)
def test_the_reason_for_an_end_travels_ahead(kind: type[BarrageError]) -> None:
    error = decode_end(encode_end(kind("Bye, [dear].")))
    assert type(error) is kind
    assert str(error) == "Bye, [dear]."
    assert decode_end(b"dphn") is None


def test_a_subclass_that_the_other_end_does_not_know_arrives_as_the_nearest_one() -> None:
    class Special(errors.LimitError):
        pass

    assert type(from_flight(to_flight(Special("no")))) is errors.LimitError


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (fl.FlightUnavailableError("gone"), UnavailableError),
        (fl.FlightTimedOutError("late"), errors.DeadlineError),
        (fl.FlightUnauthenticatedError("who"), errors.AuthenticationError),
        (fl.FlightUnauthorizedError("not you"), errors.AuthenticationError),
        (fl.FlightCancelledError(""), UnavailableError),
        (fl.FlightInternalError("oops"), InternalError),
        (fl.FlightServerError("oops"), InternalError),
        (fl.FlightWriteSizeExceededError("big", 1, 2), errors.MessageTooLargeError),
        (pa.ArrowKeyError("no such"), errors.NotFoundError),
        (pa.ArrowInvalid("bad"), errors.InvalidRequestError),
        (pa.ArrowNotImplementedError("not here"), errors.UnsupportedOperationError),
        (pa.ArrowCancelled("stopped"), UnavailableError),
        (OSError("broken pipe"), UnavailableError),
        (KeyboardInterrupt(), UnavailableError),
        (UnavailableError("as it is"), UnavailableError),
    ],
)
def test_errors_of_other_servers_get_the_class_that_fits(error: BaseException, kind: type[BarrageError]) -> None:
    assert type(from_flight(error)) is kind


def test_what_arrow_adds_to_a_text_is_taken_off() -> None:
    error = fl.FlightUnavailableError("No one there. Detail: Unavailable. gRPC client debug context: UNKNOWN:x")
    assert str(from_flight(error)) == "No one there"

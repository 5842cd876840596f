"""Every failure of pyarrow.flight becomes an error of this package."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.flight as flight
import pytest

from barrage_server.client.failures import is_passing, translated, typed_error
from barrage_server.errors import (
    AlreadyExistsError,
    AuthenticationError,
    BarrageError,
    DeadlineError,
    InternalError,
    InvalidRequestError,
    LimitError,
    MessageTooLargeError,
    NotFoundError,
    UnavailableError,
    UnknownTableError,
    UnsupportedOperationError,
)

FLIGHT_ERRORS: dict[type[Exception], type[BarrageError]] = {
    flight.FlightError: InternalError,
    flight.FlightInternalError: InternalError,
    flight.FlightServerError: InternalError,
    flight.FlightTimedOutError: DeadlineError,
    flight.FlightCancelledError: UnavailableError,
    flight.FlightUnavailableError: UnavailableError,
    flight.FlightUnauthenticatedError: AuthenticationError,
    flight.FlightUnauthorizedError: AuthenticationError,
    flight.FlightWriteSizeExceededError: MessageTooLargeError,
    pa.ArrowKeyError: NotFoundError,
    pa.ArrowInvalid: InvalidRequestError,
    pa.ArrowNotImplementedError: UnsupportedOperationError,
    OSError: UnavailableError,
}
SAID = " error, with message: "


def test_no_error_class_of_flight_is_forgotten() -> None:
    there = {
        entry for entry in vars(flight).values() if isinstance(entry, type) and issubclass(entry, flight.FlightError)
    }
    assert there <= set(FLIGHT_ERRORS)


@pytest.mark.parametrize(("theirs", "ours"), list(FLIGHT_ERRORS.items()), ids=lambda kind: kind.__name__)
def test_each_is_mapped(theirs: type[Exception], ours: type[BarrageError]) -> None:
    error = (
        theirs("what went wrong", 1, 2) if theirs is flight.FlightWriteSizeExceededError else theirs("what went wrong")
    )
    with pytest.raises(ours) as caught, translated():
        raise error
    assert type(caught.value) is ours
    assert caught.value.__context__ is error
    assert caught.value.__suppress_context__, "one traceback is enough"


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("gRPC returned RESOURCE_EXHAUSTED", LimitError),
        ("Socket closed", UnavailableError),
        ("Stream removed", UnavailableError),
        ("Connection reset by peer", UnavailableError),
        ("Method not found: UNIMPLEMENTED", UnsupportedOperationError),
        ("something else", InternalError),
    ],
)
def test_a_connection_that_breaks_without_a_class_is_told_by_its_text(text: str, ours: type[BarrageError]) -> None:
    assert type(typed_error(flight.FlightInternalError(text))) is ours


@pytest.mark.parametrize(
    ("theirs", "ours", "words"),
    [
        (
            pa.ArrowKeyError(
                "Flight returned not found error, with message: Could not resolve 'x: variable 't' not found"
            ),
            UnknownTableError,
            "There is no table 't' on the Deephaven server",
        ),
        (
            pa.ArrowKeyError(
                f"Flight returned not found{SAID}Could not resolve 'request': no application exists with the "
                "identifier: a. gRPC client debug context: NOT_FOUND:Could not resolve. Client context: OK"
            ),
            UnknownTableError,
            "There is no such table on the Deephaven server: no application exists with the identifier: a. client",
        ),
        (
            flight.FlightUnauthenticatedError(
                "Flight returned unauthenticated error, with message: Authentication details invalid"
            ),
            AuthenticationError,
            "Pass token= for a pre-shared key",
        ),
        (
            pa.ArrowInvalid("Details Logged w/ID '12ab-34'"),
            InternalError,
            "Its log says why, under the id 12ab-34",
        ),
        (
            pa.ArrowInvalid("gRPC returned precondition failed error, with message: no resolver for command"),
            InvalidRequestError,
            "no resolver for command",
        ),
        (
            pa.ArrowKeyError("Flight returned not found error, with message: no table [UnknownTableError]. Detail: x"),
            UnknownTableError,
            "no table",
        ),
        (
            pa.ArrowException(f"Unknown: Flight returned already exists{SAID}There is one [AlreadyExistsError]"),
            AlreadyExistsError,
            "There is one",
        ),
    ],
    ids=["table", "application", "log-in", "failure", "other", "of ours, over a gRPC endpoint", "of no class of Arrow"],
)
def test_what_other_servers_say_becomes_ours(theirs: Exception, ours: type[BarrageError], words: str) -> None:
    error = typed_error(theirs)
    assert type(error) is ours
    assert words in str(error)
    assert SAID not in str(error)


def test_an_error_of_this_package_goes_through() -> None:
    error = UnknownTableError("no")
    assert typed_error(error) is error
    with pytest.raises(UnknownTableError) as caught, translated("grpc://here:1"):
        raise error
    assert caught.value is error


def test_a_lost_connection_names_the_address() -> None:
    assert "grpc://here:1" in str(typed_error(flight.FlightUnavailableError("gone"), "grpc://here:1"))


def test_a_cancelled_read_is_not_taken_for_ctrl_c() -> None:
    with pytest.raises(UnavailableError), translated():
        try:
            raise flight.FlightCancelledError("")
        except flight.FlightCancelledError as error:
            raise KeyboardInterrupt from error


def test_ctrl_c_stays_ctrl_c() -> None:
    with pytest.raises(KeyboardInterrupt), translated():
        raise KeyboardInterrupt


def test_only_what_may_pass_is_tried_again() -> None:
    assert is_passing(UnavailableError("x"))
    assert is_passing(LimitError("x"))
    assert not is_passing(AuthenticationError("x"))
    assert not is_passing(UnknownTableError("x"))

"""Calls of one principal in a second: counted, refused beyond the limit, and no concern of others."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.flight as fl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.errors import LimitError
from barrage_server.flight.errors import from_flight
from barrage_server.server import Limits, Principal, Server
from barrage_server.server.principal import OPEN
from barrage_server.server.request_rate import RequestRate
from tests.server.conftest import address, endpoints


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def refusal(rate: RequestRate, principal: Principal) -> str | None:
    try:
        rate.admit(principal)
    except LimitError as error:
        return str(error)
    return None


def is_admitted(rate: RequestRate, name: str) -> bool:
    text = refusal(rate, Principal(name))
    assert text is None or "(requests_per_second)" in text
    return text is None


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 12)), max_size=60), st.integers(1, 5))
def test_no_more_than_the_limit_and_what_it_allows(calls: list[tuple[str, int]], limit: int) -> None:
    """In every span of time at most the burst and the rate; and a call is refused only if they are used up."""
    clock = Clock()
    rate = RequestRate(limit, 1_000_000, clock)
    left = dict.fromkeys("ab", 8 * limit)  # in eighths of a call
    for name, eighths in calls:
        clock.now += eighths / 8
        left = {each: min(8 * limit, value + eighths * limit) for each, value in left.items()}
        expected = left[name] >= 8
        assert is_admitted(rate, name) == expected
        left[name] -= 8 if expected else 0


@given(st.lists(st.tuples(st.sampled_from("abo"), st.integers(0, 12)), max_size=60), st.integers(1, 5))
def test_all_callers_together_make_no_more_calls_than_the_limit(calls: list[tuple[str, int]], limit: int) -> None:
    """A call that its caller's own limit refuses takes nothing from the others. ``o``: a caller of an open server."""
    clock = Clock()
    rate = RequestRate(2, limit, clock)
    own, left = dict.fromkeys("ab", 16), 8 * limit  # in eighths of a call
    for name, eighths in calls:
        clock.now += eighths / 8
        own = {each: min(16, value + eighths * 2) for each, value in own.items()}
        left = min(8 * limit, left + eighths * limit)
        text = refusal(rate, Principal(name, credential=OPEN) if name == "o" else Principal(name))
        if own.get(name, 16) < 8:
            assert text is not None and f"'{name}' makes more than 2 calls a second (req" in text
        elif left < 8:
            assert text is not None and f"takes {limit} calls a second (total_requests_per_second)" in text
        else:
            assert text is None
            left -= 8
            if name in own:
                own[name] -= 8


def test_callers_of_an_open_server_are_not_counted() -> None:
    rate = RequestRate(1, 1_000_000, Clock())
    for _ in range(10):
        rate.admit(Principal("anyone", credential=OPEN))


def test_the_oldest_of_many_principals_is_forgotten() -> None:
    rate = RequestRate(1, 1_000_000, Clock())
    assert is_admitted(rate, "first") and not is_admitted(rate, "first")
    for number in range(10_000):
        assert is_admitted(rate, str(number))
    assert is_admitted(rate, "first")


def test_a_caller_with_too_many_calls_is_refused_at_every_endpoint(endpoint: str) -> None:
    """With the status of limits, and another caller goes on."""
    limits = Limits(requests_per_second=5)
    with (
        Server(token=lambda shown: shown.secret, limits=limits, **endpoints(endpoint)) as server,
        fl.connect(address(server, endpoint)) as client,
    ):

        def call(name: str) -> None:
            options = fl.FlightCallOptions(headers=[(b"authorization", f"Bearer {name}".encode())], timeout=20)
            list(client.do_action(fl.Action("barrage.health", b""), options))

        with pytest.raises((pa.ArrowException, OSError)) as caught:  # more than any pause between them allows
            for _ in range(10_000):
                call("eager")
        error = from_flight(caught.value)
        assert type(error) is LimitError and "'eager' makes more than 5 calls a second" in str(error)
        call("other")


def test_callers_with_too_many_calls_together_are_refused_at_every_endpoint(endpoint: str) -> None:
    """Also those of a server that accepts every caller."""
    limits = Limits(total_requests_per_second=5)
    with Server(limits=limits, **endpoints(endpoint)) as server, fl.connect(address(server, endpoint)) as client:
        with pytest.raises((pa.ArrowException, OSError)) as caught:
            for _ in range(10_000):
                list(client.do_action(fl.Action("barrage.health", b""), fl.FlightCallOptions(timeout=20)))
        error = from_flight(caught.value)
        assert type(error) is LimitError and "takes 5 calls a second (total_requests_per_second)" in str(error)

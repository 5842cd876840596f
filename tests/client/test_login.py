"""What is shown to be let in: credentials first, then the server's newest token, then credentials again."""

from __future__ import annotations

import base64

import pytest

from barrage_server.client.login import Login
from barrage_server.errors import InvalidRequestError

PSK = "io.deephaven.authentication.psk.PskAuthenticationHandler"


def test_without_credentials_the_log_in_is_anonymous() -> None:
    login = Login()
    assert login.header == "Anonymous"
    assert not login.next_way()
    assert login.header == "Anonymous"


def test_user_and_password_are_basic_credentials() -> None:
    assert Login(user="ann", password="a:b").header == "Basic " + base64.b64encode(b"ann:a:b").decode()
    assert Login(user="ännä").header == "Basic " + base64.b64encode("ännä:".encode()).decode()


@pytest.mark.parametrize("is_deephaven", [False, True])
def test_a_token_is_tried_as_a_bearer_token_and_as_a_pre_shared_key(is_deephaven: bool) -> None:
    """What the kind of address suggests comes first."""
    ways = ["Bearer secret", f"{PSK} secret"]
    if is_deephaven:
        ways.reverse()
    login = Login(token="secret", is_deephaven=is_deephaven)
    assert login.header == ways[0]
    assert login.next_way()
    assert login.header == ways[1]
    assert not login.next_way()
    assert login.header == ways[0]


def test_any_other_way_is_the_whole_header() -> None:
    assert Login(authorization="some.company.Handler secret").header == "some.company.Handler secret"


@pytest.mark.parametrize(
    "credentials",
    [{"token": "a", "user": "b"}, {"token": "a", "authorization": "b"}, {"password": "a"}],
    ids=["two", "header too", "password without a user"],
)
def test_one_way_to_log_in_is_enough(credentials: dict[str, str]) -> None:
    with pytest.raises(InvalidRequestError):
        Login(**credentials)  # type: ignore[arg-type]


def test_the_newest_token_is_shown_whatever_order_answers_come_in() -> None:
    assert not Login().has_session
    login = Login()
    login.received([b"Bearer one"])
    assert login.has_session
    login.received(["Bearer two"])
    login.received(["Bearer one"])  # an answer that was overtaken
    login.received(["Basic realm", b"nonsense"])
    assert login.header == "Bearer two"


def test_a_refused_session_is_forgotten_and_credentials_are_shown_again() -> None:
    login = Login(token="secret")
    login.received(["Bearer one"])
    assert login.sessions_lost == 0
    assert login.refused("Bearer one")
    assert login.sessions_lost == 1
    assert login.header == "Bearer secret"
    login.received(["Bearer one"])  # said before it was refused
    assert login.header == "Bearer secret"
    login.received(["Bearer two"])
    assert login.refused("Bearer one")  # by then there is another
    assert (login.header, login.sessions_lost) == ("Bearer two", 1)


def test_refused_credentials_are_not_worth_another_try() -> None:
    login = Login(token="wrong")
    assert not login.refused("Bearer wrong")
    assert login.sessions_lost == 0
    login.received(["Bearer one"])
    assert login.refused("Bearer wrong")  # another call has logged in meanwhile


def test_a_certificate_is_tried_alone_and_then_beside_the_anonymous_header() -> None:
    """A server of this project takes its identity where no header has another; Deephaven wants a header."""
    login = Login(has_certificate=True)
    assert login.header == ""
    assert not login.refused("")
    assert login.next_way()
    assert login.header == "Anonymous"
    assert not login.next_way()
    assert Login(token="secret", has_certificate=True).header == "Bearer secret"

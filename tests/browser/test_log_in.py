"""The token: asked for, kept for the tab, never in the address."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import barrage_server as bs
from tests.browser.tab import Tab
from tests.waiting import until

TOKEN = "a token with ?&#=+% and ünïcode"


@pytest.fixture
def server() -> Iterator[bs.Server]:
    with bs.Server(web_port=0, token=TOKEN) as made:
        made.append_table("t", {"x": "int64"}).append({"x": [1, 2, 3]})
        yield made


def enter(tab: Tab, token: str) -> None:
    tab.page.get_by_label("Token").fill(token)
    tab.page.get_by_role("button", name="Log in").click()


def test_a_wrong_token_is_refused_in_words_and_a_right_one_opens_the_view(tab: Tab, server: bs.Server) -> None:
    tab.open(server, "t", row="2")
    refusal, field = tab.page.get_by_role("alert"), tab.page.get_by_label("Token")
    for token in ("wrong", TOKEN.upper()):
        enter(tab, token)
        until(lambda: not field.input_value() and refusal.inner_text().endswith("."), what="an answer")
        assert tab.page.locator("canvas").count() == 0
    enter(tab, TOKEN)
    tab.agrees(server.table("t"))
    assert "t" in tab.page.title()


def test_a_link_with_the_token_leaves_none_in_the_address(tab: Tab, server: bs.Server) -> None:
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(f"{request.url.partition('#')[0]} {request.headers}"))
    tab.page.on("websocket", lambda socket: asked.append(socket.url))
    tab.open(server, "t", token=TOKEN)
    tab.agrees(server.table("t"))
    assert tab.page.url.startswith(f"{server.web_uri}/#table=t")
    seen = [tab.page.url, *asked, *map(tab.page.evaluate, ["document.referrer", "document.cookie", "localStorage"])]
    assert not [text for text in seen if "token" in str(text).lower()]
    assert "token" in tab.page.evaluate("JSON.stringify(sessionStorage)")
    tab.page.reload()
    tab.agrees(server.table("t"))
    # Another tab of the same browser knows nothing of it.
    with tab.page.context.new_page() as other:
        other.goto(f"{server.web_uri}/")
        other.get_by_label("Token").wait_for()


def test_a_token_in_the_fragment_of_an_open_page_is_taken_too(tab: Tab, server: bs.Server) -> None:
    tab.open(server)
    tab.page.get_by_label("Token").wait_for()
    tab.page.evaluate("token => { location.hash = '#' + new URLSearchParams({ table: 't', token }) }", TOKEN)
    tab.agrees(server.table("t"))
    assert "token" not in tab.page.url


def test_a_revoked_token_ends_the_view(tab: Tab, server: bs.Server) -> None:
    tab.open(server, "t", token=TOKEN)
    tab.agrees(server.table("t"))
    server.reload(token="another")
    tab.page.get_by_label("Token").fill("another")
    assert tab.page.locator("canvas").count() == 0
    tab.page.evaluate("dispatchEvent(new HashChangeEvent('hashchange'))")  # whatever has the page look anew
    assert tab.page.get_by_label("Token").input_value() == "another", "what was entered stays"
    tab.page.get_by_role("button", name="Log in").click()
    tab.agrees(server.table("t"))


def test_no_token_is_asked_for_where_none_is_needed(tab: Tab) -> None:
    with bs.Server(web_port=0) as server:
        server.append_table("t", {"x": "int64"})
        tab.open(server)
        tab.page.get_by_role("link", name="t", exact=True).wait_for()

"""A browser for the session, a tab for each test, and what no test may bring about."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import barrage_server as bs
from tests.browser.chromium import FLAGS, find_chromium
from tests.browser.tab import Tab

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

WATCH = Path(__file__).with_name("watch.js")
SIZE = {"width": 1200, "height": 600}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Fails where there is none: a test that is skipped proves nothing."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.fail("playwright is missing: run `make browser`, which installs it.", pytrace=False)
    try:
        chromium = find_chromium()
    except RuntimeError as error:
        pytest.fail(str(error), pytrace=False)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=chromium.path, args=FLAGS, env=dict(os.environ) | chromium.environment
        )
        yield launched
        launched.close()


@pytest.fixture
def context_options() -> dict[str, Any]:
    """Tests that need another window override this."""
    return {}


@pytest.fixture
def context(browser: Browser, context_options: dict[str, Any]) -> Iterator[BrowserContext]:
    with browser.new_context(**{"viewport": SIZE, "reduced_motion": "reduce", **context_options}) as made:
        made.set_default_timeout(20_000)
        yield made


@pytest.fixture
def tab(context: BrowserContext, request: pytest.FixtureRequest) -> Iterator[Tab]:
    """A tab in which nothing may fail: no error on the console, no report of the policy, no rejection, no dialogue."""
    if "server" in request.fixturenames:
        request.getfixturevalue("server")  # so that it ends after the tab, which would miss it
    with context.new_page() as page:
        made = watched(Tab(page))
        yield made
        assert made.seen() == []


def watched(tab: Tab) -> Tab:
    page = tab.page
    page.on("console", lambda message: tab.note(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: tab.note(str(error)))
    page.on("crash", lambda _: tab.note("the tab crashed"))

    def dialogue(found: Any) -> None:
        tab.note(f"a dialogue: {found.message}")
        found.dismiss()

    page.on("dialog", dialogue)
    page.expose_function("reportProblem", tab.note)
    page.add_init_script(path=WATCH)
    return tab


@pytest.fixture
def server() -> Iterator[bs.Server]:
    with bs.Server(web_port=0) as made:
        yield made

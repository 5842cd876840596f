"""The page's code passes its own tests, and what is committed is what it makes."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from tests.web.node import WEB, node, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_the_code_passes_its_own_tests() -> None:
    """Types, and the tests of ``web/tests``."""
    node()
    run("scripts/build-web", "--test")


def test_the_committed_page_is_what_the_code_makes() -> None:
    node()
    run("scripts/build-web", "--check")


def test_the_packages_are_pinned_and_name_no_host() -> None:
    lock = (WEB / "package-lock.json").read_text(encoding="utf-8")
    assert "://" not in lock
    assert "integrity" in lock
    versions = re.findall(r'^    "@?[\w./-]+": "([^"]+)"', (WEB / "package.json").read_text(encoding="utf-8"), re.M)
    assert len(versions) >= 3
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions)


def test_page_and_widget_name_no_other_host() -> None:
    """All that the page loads comes from the server that it came from; the widget loads nothing."""
    for room in ("server.web", "notebook"):
        for file in resources.files(f"barrage_server.{room}").joinpath("static").iterdir():
            if not file.name.endswith(".txt"):
                text = file.read_text(encoding="utf-8")
                assert set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+", text)) == set(), file.name


def test_the_widget_is_one_file() -> None:
    """A notebook has no place to load another one from."""
    text = (WEB.parent / "barrage_server" / "notebook" / "static" / "widget.js").read_text(encoding="utf-8")
    assert not re.search(r"\bimport\s*[({\"']|\bfrom\s*[\"']\./", text)
    assert "u-over" in text, "the chart"
    assert ":host" in text, "the styles"

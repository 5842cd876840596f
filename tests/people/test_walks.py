"""The walks through the code, in the page on the architecture: each names modules that exist, and none twice."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from .markdown import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text()
PACKAGE = ROOT / "barrage_server"
LINKED = re.compile(r"\]\(\.\./barrage_server/([\w/]+\.py)\)")
BARE = re.compile(r"`([\w/]+\.py)`(?!\])")
NO_WALKS = {"Words", "The rooms", "What always holds", "Kinds of tables", "Two dialects of a viewport"}
WALKS = {
    title: text
    for title, _, text in (section.partition("\n") for section in PAGE.split("\n## ")[1:])
    if title not in NO_WALKS
}


def modules(text: str) -> list[str]:
    """The modules that a walk names, by their paths in the package, in no order."""
    linked = LINKED.findall(text)
    return [*linked, *(_meant(name, linked) for name in BARE.findall(text))]


def _meant(name: str, linked: list[str]) -> str:
    """The module of a name without a link: its path, or the end of one that the walk links, or one of the server."""
    if "/" in name:
        return name
    return next((path for path in linked if path.endswith(f"/{name}")), f"server/{name}")


def test_there_are_walks() -> None:
    assert len(WALKS) >= 6
    assert sum(len(modules(text)) for text in WALKS.values()) > 60


@pytest.mark.parametrize("title", WALKS)
def test_a_walk_enters_modules_that_exist_and_none_twice(title: str) -> None:
    found = modules(WALKS[title])
    assert [path for path in found if not (PACKAGE / path).is_file()] == []
    assert [path for path, times in Counter(found).items() if times > 1] == []

"""What tests of pages share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import barrage_server as bs


@pytest.fixture
def server() -> Iterator[bs.Server]:
    """A server with the page's port, which asks for no credentials."""
    with bs.Server(web_port=0) as made:
        yield made

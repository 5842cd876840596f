"""Reading the next item on another thread while this one is used."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import wait
from typing import TypeVar

from barrage_server.server.workers import Workers

__all__ = ["read_ahead"]

Item = TypeVar("Item")


def read_ahead(items: Iterator[Item]) -> Generator[Item, None, None]:
    """The items in their order, ``None`` excepted; each is taken while the caller works on the one before.

    It pays where taking one releases the interpreter lock, as Arrow does while it decodes.

    Raises:
        LimitError: the process can start no thread.
        Exception: what taking an item raises.

    """
    worker = Workers(1, "barrage-read-ahead")
    following = worker.submit(next, items, None)
    try:
        while (item := following.result()) is not None:
            following = worker.submit(next, items, None)
            yield item
    finally:
        wait([following])
        worker.shutdown()

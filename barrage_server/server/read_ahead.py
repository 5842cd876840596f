"""Reading of the next item on another thread while the present one is used."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import wait
from typing import TypeVar

from barrage_server.server.workers import Workers

__all__ = ["read_ahead"]

Item = TypeVar("Item")


def read_ahead(items: Iterator[Item]) -> Generator[Item, None, None]:
    """The items up to the first ``None``, each read while the last one is used.

    It pays where reading an item releases the interpreter lock, as Arrow does while it decodes.

    Raises:
        LimitError: the process can start no thread.
        Exception: any error of reading an item.

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

"""Items that are taken ahead come in their order, one ahead at a time, and the thread ends with them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from barrage_server.errors import JournalError
from barrage_server.server.read_ahead import read_ahead
from tests.waiting import until

NAME = "barrage-read-ahead"


def threads() -> int:
    return sum(thread.name == NAME for thread in threading.enumerate())


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    until(lambda: not threads())


def test_all_items_in_their_order() -> None:
    assert list(read_ahead(iter(range(1, 500)))) == list(range(1, 500))
    assert list(read_ahead(iter([]))) == []


def test_the_next_item_and_no_more_is_taken_meanwhile() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1, 10):
            taken.append(number)
            yield number

    ahead = read_ahead(items())
    assert next(ahead) == 1
    until(lambda: taken == [1, 2])
    assert next(ahead) == 2
    until(lambda: taken == [1, 2, 3])
    ahead.close()
    assert taken == [1, 2, 3]


def test_an_error_comes_at_its_place() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise JournalError("The checkpoint is damaged.")

    ahead = read_ahead(items())
    assert next(ahead) == 1
    with pytest.raises(JournalError, match=r"The checkpoint is damaged\."):
        next(ahead)


def test_items_are_taken_on_another_thread_which_closing_waits_for() -> None:
    may_end, ended = threading.Event(), threading.Event()
    names: list[str] = []

    def items() -> Iterator[int]:
        names.append(threading.current_thread().name)
        yield 1
        may_end.wait(10)
        ended.set()

    ahead = read_ahead(items())
    next(ahead)
    assert names == [NAME]
    may_end.set()
    ahead.close()
    assert ended.is_set()

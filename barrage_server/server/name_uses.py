"""Names of tables that one caller has for itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from barrage_server.errors import AlreadyExistsError
from barrage_server.wire.tickets import path_of_name

__all__ = ["NameUses"]


class NameUses:
    """Names that are reserved, published, or of tables that are being made.

    Args:
        lock: the lock of the catalog, so that it can check a name and use it at once.
        is_served: whether a table of that name is served; called with the lock.

    """

    def __init__(self, lock: threading.Lock, is_served: Callable[[str], bool]) -> None:
        self._lock = lock
        self._is_served = is_served
        self._made = threading.Condition(lock)
        self._in_making: dict[str, object] = {}  # each with the caller that makes a table of that name
        self._published: set[str] = set()
        self._reserved: dict[str, str] = {}

    def check_free(self, name: str) -> None:
        """Raise AlreadyExistsError if a caller has the name for itself.

        To be called with the lock.
        """
        reason = self._reserved.get(name)
        if reason is None and name in self._in_making:
            reason = f"Table '{name}' is being made by another publisher; use another name, or try again."
        if reason is not None:
            raise AlreadyExistsError(reason)

    @contextmanager
    def making(self, names: Collection[str]) -> Iterator[None]:
        """Exclude other makers of tables of these names during the ``with`` body.

        Waits for callers that make such a table now.

        Raises:
            AlreadyExistsError: a name is reserved.

        """
        with self._lock:
            while not self._in_making.keys().isdisjoint(names):
                self._made.wait()
            for name in names:
                self.check_free(name)
            caller = object()
            self._in_making.update(dict.fromkeys(names, caller))
        try:
            yield
        finally:
            with self._lock:
                for name in names:
                    if self._in_making.get(name) is caller:
                        del self._in_making[name]
                self._made.notify_all()

    def end_making(self, name: str) -> None:
        """End :meth:`making` for a name before its body ends. To be called with the lock."""
        self._in_making.pop(name, None)
        self._made.notify_all()

    @contextmanager
    def publisher(self, name: str) -> Iterator[None]:
        """Be the only publisher of a table that follows a publication.

        Raises:
            AlreadyExistsError: the table has another publisher.

        """
        with self._lock:
            self.check_free(name)
            if name in self._published:
                raise AlreadyExistsError(f"Table '{name}' is being published already; use another name.")
            self._published.add(name)
        try:
            yield
        finally:
            with self._lock:
                self._published.discard(name)

    def reserve(self, name: str, reason: str) -> Callable[[], None]:
        """Reserve a name for a table to add later; return a function that releases it.

        Args:
            name: an unused name.
            reason: text of the error for other callers: a sentence.

        Raises:
            InvalidRequestError: the name is impossible.
            AlreadyExistsError: a table has that name, or it is reserved.

        """
        path_of_name(name)  # checks the name
        with self._lock:
            self.check_free(name)
            if self._is_served(name) or name in self._published:
                raise AlreadyExistsError(f"There is a table '{name}' already; drop it first, or use another name.")
            self._reserved[name] = reason

        def give_back() -> None:
            with self._lock:
                self._reserved.pop(name, None)

        return give_back

"""The content of a file, which is read again when the file changes."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from barrage_server.arguments import as_path
from barrage_server.errors import BarrageError
from barrage_server.server.file_stamp import check_regular, file_stamp

__all__ = ["WatchedFile"]

logger = logging.getLogger("barrage_server.server")

Content = TypeVar("Content")


class WatchedFile(Generic[Content]):
    """The content of a file of secrets. Methods may be called from any thread.

    Args:
        path: the file.
        read: reads it; raises InvalidRequestError, without secrets in the text.
        what: the content, for the log: a noun in the plural.

    Attributes:
        path: the file.
        content: what was read last.

    Raises:
        InvalidRequestError: ``path`` is no path, or what ``read`` raises.

    """

    def __init__(self, path: str | os.PathLike[str], read: Callable[[Path], Content], what: str) -> None:
        self.path = as_path(path, "path", "file")
        self._read = read
        self._what = what
        self._lock = threading.Lock()
        self._seen = file_stamp(self.path)
        self.content = read(self.path)

    def refresh(self, *, force: bool = False) -> None:
        """Read the file again if it has changed, or in any case with ``force``.

        The content stays if the file cannot be read. At first a pipe may be read; to wait for one here would hold up
        other work.
        """
        with self._lock:
            stamp = file_stamp(self.path)
            if stamp == self._seen and not force:
                return
            self._seen = stamp
            try:
                self.content = self._read_regular()
            except BarrageError as error:
                logger.error("the %s stay as they were: %s", self._what, error)
            else:
                logger.info("%s read from %s", self._what, self.path)

    def reread(self) -> tuple[Content, Callable[[], None]]:
        """Read the file again, without applying it.

        Returns:
            What it contains, and a function that makes this the content.

        Raises:
            InvalidRequestError: what ``read`` raises, or the file is a pipe or a device.

        """
        stamp, content = file_stamp(self.path), self._read_regular()

        def apply() -> None:
            with self._lock:
                self._seen, self.content = stamp, content
            logger.info("%s read from %s", self._what, self.path)

        return content, apply

    def _read_regular(self) -> Content:
        check_regular(self.path)
        return self._read(self.path)

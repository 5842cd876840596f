"""The files of a data directory, shown to a test before they are written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barrage_server.journal.files import JournalFile, OsDirectory

__all__ = ["watch_files"]


def watch_files(monkeypatch: pytest.MonkeyPatch, watch: Callable[[JournalFile, str], object]) -> None:
    """Show each file that is written to, with its name, to ``watch`` first."""

    def watched(whole: Callable[[OsDirectory, str], JournalFile]) -> Callable[[OsDirectory, str], JournalFile]:
        def opened(directory: OsDirectory, name: str) -> JournalFile:
            file = whole(directory, name)
            watch(file, name)
            return file

        return opened

    for operation in ("create", "open"):
        monkeypatch.setattr(OsDirectory, operation, watched(getattr(OsDirectory, operation)))

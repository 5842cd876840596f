"""The check of a data directory, and the repair of a damaged journal."""

from __future__ import annotations

import sys
from pathlib import Path

from barrage_server.cli.text import count
from barrage_server.cli.usage import UsageError
from barrage_server.engine import UpdateGraph
from barrage_server.errors import JournalError, ReadOnlyError
from barrage_server.journal.files import OsDirectory, reason_of
from barrage_server.journal.lineage import forget_segment
from barrage_server.journal.recovery import IDENTITY, Recovered, read_identity, recover
from barrage_server.journal.segments import cut_journal, replace_segment, segment_names
from barrage_server.wire.commit_messages import is_single_write

__all__ = ["check_directory", "repair_directory"]


def check_directory(path: Path) -> None:
    """Read all files, and list the tables.

    Raises:
        UsageError: there is no data directory.
        JournalError: it is damaged.
        ReadOnlyError: it cannot be used.
    """
    root, identity = _opened(path)
    try:
        lock = root.lock_for_reading()
    except OSError as error:
        raise _unusable(error) from error
    try:
        _tell(_read(root, identity))
        if lock is None:
            _say("The folder is read-only and has no lock file: no server used it when the check began.")
    finally:
        if lock is not None:
            lock.close()


def repair_directory(path: Path, *, yes: bool) -> None:
    """Cut the journal off where the damage begins, or say that ``yes`` would.

    A last segment that is missing is done without. In place of the only one, there is an empty segment then.

    Raises:
        UsageError: there is no data directory.
        JournalError: the damage cannot be cut off.
        ReadOnlyError: the directory cannot be used.
    """
    root, identity = _opened(path)
    try:
        lock = root.lock()
    except OSError as error:
        raise ReadOnlyError(f"The data directory must be writable for its repair: {reason_of(error)}.") from error
    try:
        try:
            _tell(_read(root, identity))
        except JournalError as error:
            if error.segment is None:
                raise
            _say(str(error))
            journal = root.folder("journal")
            names = segment_names(journal)
            if error.segment not in names:
                what = "ends before" if names else "goes on with an empty segment"
                if not yes:
                    _say(f"With --yes, the journal {what} {error.segment}.")
                    return
                forget_segment(root)
                replace_segment(journal, error.segment)
                root.sync()
                _say(f"The journal {what} {error.segment}.")
                _tell(_read(root, identity))
                return
            if not yes:
                _say(f"With --yes, {error.segment} is cut at byte {error.offset:,}, and later files are taken away.")
                return
            forget_segment(root)  # first: what is cut off may be all of the last segment
            kept = cut_journal(journal, error.segment, error.offset)
            _say(f"Cut. What was cut off is in {', '.join(kept)}.")
            _tell(_read(root, identity))
        else:
            _say("Nothing is damaged.")
    finally:
        lock.close()


def _opened(path: Path) -> tuple[OsDirectory, str]:
    """A data directory, and its identity."""
    if not path.is_dir():
        raise UsageError(f"There is no folder {str(path)!r}.")
    try:
        root = OsDirectory(path)
        names = root.names()
        identity = read_identity(root, path) if IDENTITY in names else None
    except OSError as error:
        raise _unusable(error) from error
    if identity is None:
        lacking = f"has no {IDENTITY}" if names else "is empty"
        raise UsageError(f"{str(path)!r} is not the data directory of a server, or not all of it: it {lacking}.")
    return root, identity


def _read(root: OsDirectory, identity: str) -> Recovered:
    try:
        return recover(root, identity, UpdateGraph(), repair=False)
    except OSError as error:
        raise _unusable(error) from error


def _unusable(error: OSError) -> ReadOnlyError:
    return ReadOnlyError(f"The data directory cannot be used: {reason_of(error)}.")


def _tell(found: Recovered) -> None:
    for number, table in sorted(found.tables.items(), key=lambda entry: entry[1].name):
        _say(f"{table.name}: {found.records[number].spec.kind}, {count(table.size, 'rows')}")
    if found.torn:
        _say(found.torn)
    saved = "no checkpoint" if found.checkpoint is None else f"a checkpoint of step {found.checkpoint.step:,}"
    cycles, tables = count(found.cycles, "cycles"), count(len(found.tables), "tables")
    named = {publisher for publisher, _, _ in (entry.commit for entry in found.ledger.values())}
    publishers = count(sum(not is_single_write(name) for name in named), "publishers")
    _say(f"{tables}, step {found.step:,}: {saved}, {cycles}, last batches of {publishers}.")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")

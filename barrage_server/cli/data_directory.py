"""The check of a data directory, and the repair of a damaged journal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from barrage_server.cli.text import count
from barrage_server.cli.usage import UsageError
from barrage_server.engine import UpdateGraph
from barrage_server.errors import AlreadyExistsError, JournalError, ReadOnlyError
from barrage_server.journal.files import OsDirectory, reason_of
from barrage_server.journal.lineage import forget_segment
from barrage_server.journal.recovery import IDENTITY, Recovered, naming, read_identity, recover
from barrage_server.journal.segments import cut_journal, cut_off, replace_segment, segment_names
from barrage_server.wire.commit_messages import is_single_write

__all__ = ["check_directory", "repair_directory"]


def check_directory(path: Path) -> None:
    """Read all files, and list the tables.

    Raises:
        UsageError: there is no data directory.
        JournalError: it is damaged.
        ReadOnlyError: it cannot be used.
        AlreadyExistsError: a server uses it.
    """
    root, identity = _opened(path)
    try:
        with _unused(path, "Stop it first, or check a backup."):
            lock = root.lock_for_reading()
    except OSError as error:
        raise _unusable(error) from error
    try:
        _tell(_read(root, identity, path))
        if lock is None:
            _say("The folder is read-only and has no lock file: no server used it when the check began.")
    finally:
        if lock is not None:
            lock.close()


def repair_directory(path: Path, *, yes: bool) -> bool:
    """Cut the journal off where the damage begins, or say that ``yes`` would.

    A last segment that is missing is done without. In place of the only one, there is an empty segment then.

    Returns:
        Whether the directory is whole now.

    Raises:
        UsageError: there is no data directory.
        JournalError: the damage cannot be cut off.
        ReadOnlyError: the directory cannot be used.
        AlreadyExistsError: a server uses it.
    """
    root, identity = _opened(path)
    try:
        with _unused(path, "Stop it first."):
            lock = root.lock()
    except OSError as error:
        raise ReadOnlyError(f"The data directory must be writable for its repair: {reason_of(error)}.") from error
    try:
        try:
            _tell(_read(root, identity, path))
        except JournalError as error:
            if error.segment is None:
                raise
            _say(str(error))
            if error.segment in segment_names(root.folder("journal")):
                _cut(root, path, error.segment, error.offset, yes=yes)
            else:
                _do_without(root, error.segment, yes=yes)
            if yes:
                _tell(_read(root, identity, path))
            return yes
        _say("Nothing is damaged.")
        return True
    finally:
        lock.close()


def _cut(root: OsDirectory, path: Path, segment: str, offset: int, *, yes: bool) -> None:
    """Cut the journal at the damage, or say what ``yes`` would cut off."""
    journal = root.folder("journal")
    lost = cut_off(journal, segment, offset)
    cycles = "an unknown number of cycles" if lost.cycles is None else count(lost.cycles, "whole cycles")
    others = len(lost.segments) - 1
    later = f", {count(others, 'later segments')} included" if others else ""
    what = f"{count(lost.nbytes, 'bytes')} with {cycles}{later}"
    if not yes:
        _say(f"With --yes, {segment} is cut at byte {offset:,}. The tables lose {what}.")
        _say(f"What is cut off is kept in {path / 'journal'}, as cut-{segment}{' and so on' if others else ''}.")
        return
    forget_segment(root)  # first: what is cut off may be all of the last segment
    kept = cut_journal(journal, segment, offset)
    _say(f"Cut. The tables have lost {what}, kept in {path / 'journal'}: {', '.join(sorted(kept))}.")


def _do_without(root: OsDirectory, segment: str, *, yes: bool) -> None:
    """Go on without a segment that is missing, or say that ``yes`` would."""
    journal = root.folder("journal")
    what = f"{'ends before' if segment_names(journal) else 'goes on with an empty segment'} {segment}"
    lost = "What was committed to the missing segment is lost; how much, the directory does not say."
    if not yes:
        _say(f"With --yes, the journal {what}. {lost}")
        return
    forget_segment(root)
    replace_segment(journal, segment)
    root.sync()
    _say(f"The journal {what}. {lost}")


@contextmanager
def _unused(path: Path, advice: str) -> Iterator[None]:
    """Raise the error of a locked directory with ``advice`` for these commands."""
    try:
        yield
    except AlreadyExistsError:
        raise AlreadyExistsError(
            f"A server uses the data directory {path}, or another command does. {advice}"
        ) from None


def _opened(path: Path) -> tuple[OsDirectory, str]:
    """A data directory, and its identity."""
    if not path.is_dir():
        raise UsageError(f"There is no folder {str(path)!r}.")
    try:
        root = OsDirectory(path)
        names = root.names()
        with naming(path):
            identity = read_identity(root, path) if IDENTITY in names else None
    except OSError as error:
        raise _unusable(error) from error
    if identity is None:
        lacking = f"has no {IDENTITY}" if names else "is empty"
        raise UsageError(f"{str(path)!r} is not the data directory of a server, or not all of it: it {lacking}.")
    return root, identity


def _read(root: OsDirectory, identity: str, path: Path) -> Recovered:
    try:
        with naming(path):
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

"""Checkpoints: the content of all durable tables at one record of the journal.

The journal before that record is then not needed. A checkpoint is a folder in ``state/``, whose name is the number of
the first record that is not in it. Its ``manifest.json`` is written last, before the folder gets its name: a folder
with that name is complete. The manifest's first line is the XXH3-64 of the rest, in hexadecimal.

Rows of tables that only grow at their end are kept in pieces, each in files of its own: a checkpoint writes the new
rows only, and links the files of earlier ones. All files of an unchanged table are linked.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from barrage_server.engine import TableVersion
from barrage_server.errors import JournalError
from barrage_server.journal.checked_text import with_checksum, without_checksum
from barrage_server.journal.columns_file import read_rows, unreadable, write_rows
from barrage_server.journal.content import LedgerRecord, TableRecord, with_repeated, without_repeated
from barrage_server.journal.files import Directory
from barrage_server.journal.json_form import MALFORMED, whole_number
from barrage_server.rowset import RowSet
from barrage_server.rowset.codec import decode_row_set, encode_row_set
from barrage_server.wire.protocol import TableKind

__all__ = [
    "Checkpoint",
    "Piece",
    "TableState",
    "Unsaved",
    "load_checkpoint",
    "read_manifest",
    "restored_rows",
    "save_checkpoint",
]

_MANIFEST: Final = "manifest.json"
_PARTIAL: Final = "partial-"
_GROWING: Final = (TableKind.APPEND, TableKind.RING)
_MOST_PIECES: Final = 32
"""The number of pieces from which a table is written as one piece again."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Files with consecutive rows of a table.

    Attributes:
        checksums: the files, by name, each with its XXH3-64.
        stem: the common start of their names.
        first: the row key of the first row, if the table only grows at its end; otherwise 0.
        rows: number of rows.
        nbytes: bytes of the files.
    """

    checksums: Mapping[str, str]
    stem: str
    first: int
    rows: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class TableState:
    """A table in a checkpoint.

    Attributes:
        table: the table.
        step: the cycle of its content.
        row_set: its rows.
        next_key: the state that decides about new row keys.
        pieces: its files, in the order of the rows.
    """

    table: TableRecord
    step: int
    row_set: RowSet
    next_key: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The content of a checkpoint.

    Attributes:
        directory: the identity of its data directory.
        number: the number of the first record that is not in it.
        step: the last cycle that is in it.
        next_id: the id of the next new table.
        tables: the tables.
        ledger: the committed batches.
    """

    directory: str
    number: int
    step: int
    next_id: int
    tables: tuple[TableState, ...] = ()
    ledger: tuple[LedgerRecord, ...] = ()

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.number:020d}"

    @property
    def nbytes(self) -> int:
        """Bytes of its files."""
        return sum(piece.nbytes for table in self.tables for piece in table.pieces)


@dataclass(frozen=True, slots=True)
class Unsaved:
    """A held version of a table, to be saved.

    Attributes:
        table: the table.
        version: its content.
        next_key: the state that decided about new row keys at that version.
    """

    table: TableRecord
    version: TableVersion
    next_key: int


def save_checkpoint(
    state: Directory,
    before: Checkpoint | None,
    goal: Checkpoint,
    tables: Sequence[Unsaved],
    abandons: Callable[[], bool] = lambda: False,
) -> Checkpoint:
    """Write a checkpoint, and remove the previous one.

    Args:
        state: the folder of checkpoints.
        before: the previous checkpoint, whose files are linked if they are still valid.
        goal: directory, number, step, next id and ledger of the new checkpoint.
        tables: its tables.
        abandons: whether to give up; called between pieces of work.

    Raises:
        OSError: the checkpoint cannot be written, or was abandoned (InterruptedError). The previous one remains valid.
        JournalError: what was written cannot be read again. The previous one remains valid.
    """
    partial = _PARTIAL + goal.name
    state.remove(partial)
    try:
        done = _write_all(state.folder(partial), state, before, goal, tables, abandons)
        state.rename(partial, goal.name)
    except BaseException:
        with suppress(OSError):
            state.remove(partial)  # what is left takes room that the journal may need
        raise
    state.sync()
    for name in _names(state):
        if name < done.name:
            state.remove(name)
    return done


def _write_all(
    folder: Directory,
    state: Directory,
    before: Checkpoint | None,
    goal: Checkpoint,
    tables: Sequence[Unsaved],
    abandons: Callable[[], bool],
) -> Checkpoint:
    """Write a checkpoint into ``folder``, and sync the folder."""
    old = {} if before is None else {saved.table.id: saved for saved in before.tables}
    source = None if before is None else state.folder(before.name)
    found = []
    for unsaved in tables:
        kept = _kept(old.get(unsaved.table.id), unsaved)
        for piece in kept:
            for name in piece.checksums:
                assert source is not None
                folder.link(source, name)
        found.append(_save(folder, goal.number, unsaved, kept, abandons))
    done = replace(goal, tables=tuple(found))
    text = json.dumps(_to_json(done), indent=1).encode()
    folder.write(_MANIFEST, with_checksum(text))
    if len(read_manifest(folder, goal.name).tables) != len(found):
        raise JournalError(f"The file {goal.name}/{_MANIFEST} was written and has other tables when it is read again.")
    folder.sync()
    return done


def load_checkpoint(state: Directory, directory: str, *, repair: bool = True) -> Checkpoint | None:
    """Read the newest checkpoint; ``None`` if there is none.

    Args:
        state: the folder of checkpoints.
        directory: the identity of the data directory.
        repair: whether to remove the remains of earlier attempts.

    Raises:
        JournalError: it is damaged, or belongs to another data directory.
    """
    if repair:
        for name in state.names():
            if name.startswith(_PARTIAL):
                state.remove(name)
    names = _names(state)
    if not names:
        return None
    name = names[-1]
    found = read_manifest(state.folder(name), name)
    if found.directory != directory:
        raise JournalError(
            f"The checkpoint {name} belongs to the data directory {found.directory}, and this one is {directory}. "
            f"Restore the data directory from a backup, as a whole."
        )
    if found.name != name:
        raise JournalError(f"The checkpoint {name} was written as {found.name}. Give the folder this name again.")
    return found


def read_manifest(folder: Directory, name: str) -> Checkpoint:
    """The content of the manifest of the checkpoint ``name``.

    Raises:
        JournalError: it is missing or damaged.
    """
    try:
        text = without_checksum(folder.read(_MANIFEST))
        if text is None:
            raise JournalError(
                f"The checkpoint {name} is damaged: the checksum of {_MANIFEST} differs. Restore a backup."
            )
        return _from_json(json.loads(text))
    except JournalError:
        raise
    except MALFORMED as error:
        raise unreadable(f"{name}/{_MANIFEST}", error) from error


def restored_rows(folder: Directory, saved: TableState) -> Iterator[list[pa.Array]]:
    """The rows of a table in a checkpoint, in parts, in key order.

    Columns that are no keys may have dictionaries.

    Raises:
        JournalError: a file is missing or damaged.
    """
    first = saved.row_set.first_key if saved.row_set and saved.table.spec.kind in _GROWING else 0
    spec = saved.table.spec  # only keyed tables keep equal values once
    encoded = [name for name in saved.table.schema.names if name not in spec.key] if spec.key else []
    for piece in saved.pieces:
        skip = max(0, first - piece.first)
        for batch in read_rows(folder, piece.stem, saved.table.schema, piece.checksums, encoded):
            count = len(batch[0])
            if skip < count:
                yield [values.slice(skip) for values in batch] if skip else batch
            skip = max(0, skip - count)


def _kept(before: TableState | None, unsaved: Unsaved) -> tuple[Piece, ...]:
    """The pieces of the previous checkpoint that are valid for the new one."""
    if before is None:
        return ()
    if before.step == unsaved.version.step:
        return before.pieces
    rows = unsaved.version.row_set
    if unsaved.table.spec.kind not in _GROWING or not rows or len(before.pieces) >= _MOST_PIECES:
        return ()
    return tuple(piece for piece in before.pieces if piece.first + piece.rows > rows.first_key)


def _save(
    folder: Directory, number: int, unsaved: Unsaved, kept: tuple[Piece, ...], abandons: Callable[[], bool]
) -> TableState:
    version, table = unsaved.version, unsaved.table
    rows = version.row_set
    pieces = list(kept)
    if table.spec.kind in _GROWING:
        saved = kept[-1].first + kept[-1].rows if kept else 0
        rest = rows.restrict(saved, rows.last_key) if rows and rows.last_key >= saved else RowSet.empty()
    else:
        rest = RowSet.empty() if kept else rows
    if rest:
        stem = f"{table.id}-{number:020d}"
        numbers = range(len(table.schema))

        def parts() -> Iterator[list[pa.Array]]:
            for part in version.pieces(rest, numbers):
                if abandons():
                    raise InterruptedError("The checkpoint is abandoned.")
                for _, arrays in version.read_parts(part):
                    yield arrays

        checksums, nbytes = write_rows(folder, stem, table.schema, parts)
        first = rest.first_key if table.spec.kind in _GROWING else 0
        pieces.append(Piece(checksums, stem, first, rest.size, nbytes))
    return TableState(table, version.step, rows, unsaved.next_key, tuple(pieces))


def _names(state: Directory) -> list[str]:
    return [name for name in state.names() if name.isdecimal()]


def _to_json(checkpoint: Checkpoint) -> dict[str, Any]:
    tables = [
        {
            **saved.table.to_json(),
            "step": saved.step,
            "row_set": base64.b64encode(encode_row_set(saved.row_set)).decode(),
            "next_key": saved.next_key,
            "pieces": [
                {
                    "files": dict(piece.checksums),
                    "stem": piece.stem,
                    "first": piece.first,
                    "rows": piece.rows,
                    "bytes": piece.nbytes,
                }
                for piece in saved.pieces
            ],
        }
        for saved in checkpoint.tables
    ]
    ledger = sorted(checkpoint.ledger, key=lambda one: one.publisher)
    shared = without_repeated(one.entry for one in ledger)
    return {
        "directory": checkpoint.directory,
        "number": checkpoint.number,
        "step": checkpoint.step,
        "next_id": checkpoint.next_id,
        "tables": tables,
        "ledger": [{"table": one.table, "entry": entry} for one, entry in zip(ledger, shared, strict=True)],
    }


def _piece(found: dict[str, Any]) -> Piece:
    checksums = {str(name): str(checksum) for name, checksum in found["files"].items()}
    return Piece(
        checksums,
        str(found["stem"]),
        whole_number(found["first"]),
        whole_number(found["rows"]),
        whole_number(found["bytes"]),
    )


def _from_json(found: dict[str, Any]) -> Checkpoint:
    tables = [
        TableState(
            TableRecord.from_json(saved),
            whole_number(saved["step"]),
            decode_row_set(base64.b64decode(saved["row_set"])),
            whole_number(saved["next_key"]),
            tuple(map(_piece, saved["pieces"])),
        )
        for saved in found["tables"]
    ]
    entries = with_repeated(one["entry"] for one in found["ledger"])
    ledger = tuple(
        LedgerRecord(whole_number(one["table"]), entry) for one, entry in zip(found["ledger"], entries, strict=True)
    )
    number, step, next_id = (whole_number(found[name]) for name in ("number", "step", "next_id"))
    return Checkpoint(str(found["directory"]), number, step, next_id, tuple(tables), ledger)

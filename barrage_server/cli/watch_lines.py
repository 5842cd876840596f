"""The output of ``watch`` without a terminal.

A line describes the table, and further lines every change.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from barrage_server.cli.cells import change_text, row_texts
from barrage_server.cli.text import count
from barrage_server.log import one_line
from barrage_server.rowset import RowSet

if TYPE_CHECKING:
    from barrage_server.client import LiveTable, Update
    from barrage_server.engine import TableVersion

__all__ = ["content_lines", "update_lines"]

_ROWS_PRINTED: Final = 50
"""Most rows printed per message; the rest is counted."""


def content_lines(name: str, live: LiveTable) -> list[str]:
    """The rows in view: a headline, then ``  column=value ...`` for each row."""
    version = live.version
    headline = f"{name}: {count(live.table_size, 'rows')}, {count(version.size, 'rows')} in view"
    return [headline, *_rows("  ", version, version.row_set), *_left_out(version.size)]


def update_lines(update: Update, live: LiveTable) -> list[str]:
    """One update: a headline with counts, then one line per row.

    ``+`` is an added row, ``-`` a removed one, ``~`` a modified one. A modified row shows its key columns, or else its
    position in view, and the old and new values of changed cells.
    """
    modified = update.modified_rows
    counts = f"+{update.added.size} -{update.removed.size} ~{modified.size}"
    headline = f"step {update.step}: {counts}, {count(live.table_size, 'rows')}"
    changes = (
        *_rows("- ", update.before, update.removed),
        *_rows("+ ", update.after, update.added),
        *_modified(update, live.key_columns),
    )
    total = update.added.size + update.removed.size + modified.size
    return [headline, *islice(changes, _ROWS_PRINTED), *_left_out(total)]


def _rows(mark: str, version: TableVersion, rows: RowSet) -> Iterator[str]:
    names = _names(version)
    for texts in row_texts(version.read(rows.slice(0, _ROWS_PRINTED))):
        yield mark + " ".join(f"{name}={text}" for name, text in zip(names, texts, strict=True))


def _modified(update: Update, key_columns: tuple[str, ...]) -> Iterator[str]:
    rows = update.modified_rows.slice(0, _ROWS_PRINTED)
    if not rows:
        return
    after = update.after.read(rows)
    before = update.before.read(update.shifted.unapply(rows))
    texts = row_texts(after)
    names, columns = _names(update.after), update.after.schema.names
    keys = rows.keys()
    changed = [update.change.modified[number].contains(keys) for number in range(len(names))]
    positions: np.ndarray[tuple[int], np.dtype[np.int64]] = update.after.row_set.find(keys)
    for index, row in enumerate(texts):
        words = [] if key_columns else [f"[{positions[index]}]"]
        for number, name in enumerate(names):
            if changed[number][index]:
                words.append(f"{name}={change_text(before[number][index], after[number][index])}")
            elif columns[number] in key_columns:
                words.append(f"{name}={row[number]}")
        yield "~ " + " ".join(words)


def _names(version: TableVersion) -> list[str]:
    """The names of the columns, escaped for a terminal."""
    return [one_line(name) for name in version.schema.names]


def _left_out(total: int) -> list[str]:
    rest = total - _ROWS_PRINTED
    return [f"  ... and {count(rest, 'rows')} more"] if rest > 0 else []

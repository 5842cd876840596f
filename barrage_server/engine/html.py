"""Tables as HTML, for notebooks: a bounded part of each, with texts escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from barrage_server.engine.version import TableVersion
from barrage_server.rowset import RowSet

__all__ = ["grid_html", "shape_in_words", "table_html"]

_ROWS: Final = 10
_COLUMNS: Final = 20
_LIST_ROWS: Final = 100
_CELL: Final = 60  # letters of a cell, a name or a type
_CAPTION: Final = 300
_ITEMS: Final = 8  # of a nested value, on each of its levels
_DEPTH: Final = 3
_NULL: Final = "∅"


def shape_in_words(rows: int, columns: int) -> str:
    """The size of a table as text: ``"1,234 rows × 3 columns"``."""
    return f"{rows:,} {'row' if rows == 1 else 'rows'} × {columns:,} {'column' if columns == 1 else 'columns'}"


def table_html(title: str, version: TableVersion, *, key_columns: Sequence[str] = (), notes: Iterable[str] = ()) -> str:
    """The first rows and columns of a version as HTML.

    Args:
        title: the beginning of the caption.
        version: the content. At most 10 rows and 20 columns of it are read.
        key_columns: columns to be named as the key.
        notes: further words of the caption.
    """
    names = version.schema.names
    shown = range(min(len(names), _COLUMNS))
    rows = version.row_set.slice(0, _ROWS)
    words = [shape_in_words(version.size, len(names)), *notes]
    if key_columns:
        words.append(f"key {', '.join(key_columns)}")
    left_out = []
    if rows.size < version.size:
        left_out.append(f"the first {rows.size} rows")
    if len(shown) < len(names):
        left_out.append(f"the first {len(shown)} columns")
    if left_out:
        words.append(f"{' and '.join(left_out)} are shown")
    header = [(names[number], str(version.schema.field(number).type)) for number in shown]
    body = zip(*_texts(version, rows, shown), strict=True) if shown else ()
    return grid_html(f"{title}: {', '.join(words)}", header, body)


def grid_html(caption: str, header: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]]) -> str:
    """Texts as an HTML table of at most 100 rows.

    Args:
        caption: the line above it.
        header: name and description of each column; the description may be empty.
        rows: one text per column each.
    """
    listed = list(rows)
    more = len(listed) - _LIST_ROWS
    caption = caption if more <= 0 else f"{caption}, the first {_LIST_ROWS} are shown"
    heads = "".join(
        f"<th>{_safe(name)}{f'<br/><small>{_safe(kind)}</small>' if kind else ''}</th>" for name, kind in header
    )
    lines = "".join(f"<tr>{''.join(f'<td>{_safe(cell)}</td>' for cell in row)}</tr>" for row in listed[:_LIST_ROWS])
    return (
        f"<table><caption>{_safe(caption, _CAPTION)}</caption>"
        f"<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"
    )


def _safe(text: str, longest: int = _CELL) -> str:
    """``text`` on one line, escaped, and cut to ``longest`` letters."""
    cut = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return escape("".join(letter if letter.isprintable() else " " for letter in cut))


def _texts(version: TableVersion, rows: RowSet, columns: Iterable[int]) -> list[list[str]]:
    return [_column_texts(array) for array in version.read(rows, tuple(columns))]


def _column_texts(array: pa.Array) -> list[str]:
    while isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    kind = array.type
    try:
        if pat.is_string(kind) or pat.is_large_string(kind):
            return _listed(pc.utf8_slice_codeunits(array, 0, _CELL + 1))
        if pat.is_binary(kind) or pat.is_large_binary(kind):
            return [_bytes_text(value) for value in pc.binary_slice(array, 0, _CELL).to_pylist()]
        if pat.is_fixed_size_binary(kind):
            return [_bytes_text(value) for value in array.to_pylist()]
        if not pat.is_nested(kind) and not pat.is_null(kind):
            return _listed(array.cast(pa.string()))
    except (pa.ArrowException, ValueError):
        pass  # a type that Arrow cannot print, or not here: one by one
    return [_scalar_text(scalar, 0) for scalar in array]


def _bytes_text(value: bytes | None) -> str:
    return _NULL if value is None else value[:_CELL].hex()


def _listed(texts: pa.Array) -> list[str]:
    return [_NULL if text is None else text for text in texts.to_pylist()]


def _scalar_text(scalar: pa.Scalar, depth: int) -> str:
    """The text of one value; of a nested value, the first items of the first levels."""
    if not scalar.is_valid:
        return _NULL
    kind = scalar.type
    if depth > _DEPTH:
        return "…"
    if pat.is_struct(kind):
        fields = [kind.field(number).name for number in range(min(kind.num_fields, _ITEMS))]
        parts = [f"{name}: {_scalar_text(scalar[number], depth + 1)}" for number, name in enumerate(fields)]
        return f"{{{', '.join(parts)}{', …' if kind.num_fields > _ITEMS else ''}}}"
    if pat.is_nested(kind) and getattr(scalar, "values", None) is not None:
        items = scalar.values
        parts = [_scalar_text(items[number], depth + 1) for number in range(min(len(items), _ITEMS))]
        return f"[{', '.join(parts)}{', …' if len(items) > _ITEMS else ''}]"
    try:
        return str(scalar.as_py())[:_CELL]
    except (pa.ArrowException, ValueError, OverflowError):  # times beyond Python's, for instance
        return f"<{kind}>"

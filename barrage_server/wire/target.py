"""Valid combinations of the mode of publishing and the kind of table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from barrage_server.errors import InvalidRequestError, KeyMismatchError
from barrage_server.wire.protocol import PublishMode, TableKind
from barrage_server.wire.table_spec import TableSpec

__all__ = ["check_target"]

_REPLACEABLE: Final = (TableKind.KEYED, TableKind.REPLACED)


def check_target(
    kind: TableKind | None,
    key: Sequence[str] | None,
    capacity: int | None,
    mode: PublishMode | None = None,
    *,
    is_new: bool,
) -> None:
    """Refuse contradictory arguments.

    Args:
        kind: the given kind, or None.
        key: names of the key columns.
        capacity: rows that a ring keeps.
        mode: how rows are applied, or None for the default of the table.
        is_new: whether the table is new: a new ring needs its capacity, a new keyed table its key.

    Raises:
        InvalidRequestError: the kind does not allow the capacity or the mode.
        KeyMismatchError: the kind does not allow the key, or the key is missing or names a column twice.
    """
    if key and len(set(key)) < len(key):
        raise KeyMismatchError(f"The key names a column twice: {', '.join(key)}.")
    named = kind
    if is_new or key or capacity is not None:
        named = TableSpec.implied(kind, key, capacity).kind
    if kind is None and capacity is None:
        return  # the mode implies the kind of a new table, or fits the existing one
    if mode in (PublishMode.UPSERT, PublishMode.DELETE) and named is not TableKind.KEYED:
        raise InvalidRequestError(f"A table of kind '{named}' has no key, and takes no {mode}.")
    if mode is PublishMode.REPLACE and named not in _REPLACEABLE:
        raise InvalidRequestError(f"The rows of a table of kind '{named}' cannot be replaced; use the kind 'replaced'.")

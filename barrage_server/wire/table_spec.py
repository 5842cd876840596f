"""What a source table is beside its name and its columns, and which of that goes together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from barrage_server.errors import InvalidRequestError, KeyMismatchError
from barrage_server.wire.protocol import TableKind

__all__ = ["TableSpec"]


@dataclass(frozen=True, slots=True)
class TableSpec:
    """The kind of a table, with what that kind needs.

    Attributes:
        kind: what may happen to its rows.
        key: key columns; just for the kind ``keyed``, which needs some.
        capacity: rows that are kept; just for the kind ``ring``, which needs it.

    Raises:
        KeyMismatchError: a key is missing, or the kind has none.
        InvalidRequestError: a capacity is missing, or the kind has none.

    """

    kind: TableKind
    key: tuple[str, ...] = ()
    capacity: int | None = None

    def __post_init__(self) -> None:
        """Check that it goes together."""
        if self.key and self.kind is not TableKind.KEYED:
            raise KeyMismatchError(
                f"A table of kind '{self.kind}' has no key; leave the key out, or use the kind 'keyed'."
            )
        if self.kind is TableKind.KEYED and not self.key:
            raise KeyMismatchError(
                "A table of kind 'keyed' needs a key: name the key columns that rows are matched by."
            )
        if (self.kind is TableKind.RING) != (self.capacity is not None):
            wanted = "needs a capacity: how many rows it keeps" if self.capacity is None else "takes no capacity"
            raise InvalidRequestError(f"A table of kind '{self.kind}' {wanted}.")

    @classmethod
    def implied(
        cls,
        kind: TableKind | None = None,
        key: Sequence[str] | None = None,
        capacity: int | None = None,
        otherwise: TableKind = TableKind.APPEND,
    ) -> TableSpec:
        """Of the kind that is named, or else that a key or a capacity needs; without them that of ``otherwise``."""
        if kind is None:
            kind = TableKind.KEYED if key else TableKind.RING if capacity is not None else otherwise
        return cls(kind, tuple(key or ()), capacity)

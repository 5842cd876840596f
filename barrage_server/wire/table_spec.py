"""Kind, key and capacity of a source table, and their valid combinations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from barrage_server.arguments import choice, integer, optional_names
from barrage_server.errors import InvalidRequestError, KeyMismatchError
from barrage_server.wire.protocol import TableKind

__all__ = ["TableSpec"]


@dataclass(frozen=True, slots=True)
class TableSpec:
    """The kind of a table, with its key or capacity.

    Attributes:
        kind: how rows change.
        key: key columns; required for the kind ``keyed``, empty for others.
        capacity: number of rows of a ring; required for the kind ``ring``, None for others.
        durable: whether it is kept in the data directory; None: if the server has one and the kind allows. It applies
            to the making of a table only, and does not count in comparisons.

    Raises:
        KeyMismatchError: a key is missing, or the kind has none.
        InvalidRequestError: a capacity is missing, or the kind has none.

    """

    kind: TableKind
    key: tuple[str, ...] = ()
    capacity: int | None = None
    durable: bool | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Check the combination."""
        if self.key and self.kind is not TableKind.KEYED:
            raise KeyMismatchError(f"A table of kind '{self.kind}' has no key; omit the key, or use the kind 'keyed'.")
        if self.kind is TableKind.KEYED and not self.key:
            raise KeyMismatchError(
                "A table of kind 'keyed' needs a key: name the key columns that rows are matched by."
            )
        if (self.kind is TableKind.RING) != (self.capacity is not None):
            wanted = "needs a capacity: how many rows it keeps" if self.capacity is None else "takes no capacity"
            raise InvalidRequestError(f"A table of kind '{self.kind}' {wanted}.")
        if self.durable and self.kind is TableKind.BLINK:
            raise InvalidRequestError("A table of kind 'blink' cannot be durable: its rows live for one cycle.")

    @classmethod
    def implied(
        cls,
        kind: TableKind | None = None,
        key: Sequence[str] | None = None,
        capacity: int | None = None,
        otherwise: TableKind = TableKind.APPEND,
        durable: bool | None = None,
    ) -> TableSpec:
        """Make a spec of the named kind, or of the kind that the other arguments imply.

        Without a key and a capacity it is ``otherwise``.
        """
        if kind is None:
            kind = TableKind.KEYED if key else TableKind.RING if capacity is not None else otherwise
        return cls(kind, tuple(key or ()), capacity, durable)

    @classmethod
    def requested(
        cls,
        kind: TableKind | str | None,
        key: Sequence[str] | str | None,
        capacity: int | None,
        durable: bool | None = None,
    ) -> TableSpec:
        """Make a spec from a user's arguments, such as those of ``create_table``.

        Raises:
            InvalidRequestError: an argument is invalid, or the arguments contradict each other.
            KeyMismatchError: a key is missing, or the kind has none.

        """
        return cls.implied(
            choice(kind, TableKind, "kind"),
            optional_names(key, "key", single=True),
            None if capacity is None else integer(capacity, "capacity", least=1),
            durable=durable,
        )

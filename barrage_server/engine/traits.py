"""Promises about the rows of a table that hold in every version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from barrage_server.arguments import flag, integer
from barrage_server.public import public

__all__ = ["ROUTE", "TableTraits"]

ROUTE: Final = "BarrageRoute"
"""The attribute with the relays that a table has passed, separated by commas."""

_Stated: TypeAlias = tuple[tuple[str, object], ...]

_FLAGS: Final = {
    "AppendOnly": "append_only",
    "AddOnly": "add_only",
    "BlinkTable": "is_blink",
    "InputTable": "is_input",
    "IsFlat": "is_flat",
}
_CAPACITY: Final = "RingCapacity"


@public
@dataclass(frozen=True, slots=True)
class TableTraits:
    """Promises that hold for every version of a table.

    Clients get them as attributes; in the engine they decide about storage.

    Attributes:
        append_only: rows are added at the end, and never change.
        add_only: rows are added, and never change.
        is_blink: rows live for one cycle.
        is_input: clients of Deephaven may write to the table.
        is_flat: row keys are 0, 1, 2 and so on.
        ring_capacity: most rows; ``None``: no limit.
        stated: further attributes, by name, from the server of a followed table. They are forwarded, and have no effect
            in the engine.
    """

    append_only: bool = False
    add_only: bool = False
    is_blink: bool = False
    is_input: bool = False
    is_flat: bool = False
    ring_capacity: int | None = None
    stated: _Stated = ()

    def __post_init__(self) -> None:
        for name in _FLAGS.values():
            flag(getattr(self, name), f"The trait {name}")
        if self.ring_capacity is not None:
            integer(self.ring_capacity, "The trait ring_capacity", least=-(1 << 63))  # a server may state any

    @classmethod
    def of(cls, attributes: Mapping[str, object]) -> TableTraits:
        """The traits that ``attributes`` state.

        An attribute whose value has the wrong type is forwarded, and has no effect.
        """
        flags = {trait: True for name, trait in _FLAGS.items() if attributes.get(name) is True}
        capacity = attributes.get(_CAPACITY)
        if not isinstance(capacity, int) or isinstance(capacity, bool):
            capacity = None
        known = {name for name, trait in _FLAGS.items() if trait in flags}
        if capacity is not None:
            known.add(_CAPACITY)
        stated = tuple((name, value) for name, value in attributes.items() if name not in known)
        return cls(**flags, ring_capacity=capacity, stated=stated)

    @property
    def attributes(self) -> dict[str, object]:
        """The traits that hold as attributes, by their names on the wire."""
        found: dict[str, object] = {name: True for name, trait in _FLAGS.items() if getattr(self, trait)}
        if self.ring_capacity is not None:
            found[_CAPACITY] = self.ring_capacity
        return {**found, **dict(self.stated)}

    @property
    def rows_come_once(self) -> bool:
        """Whether rows are written only once, so that interning saves little."""
        return self.append_only or self.add_only or self.is_blink or self.ring_capacity is not None

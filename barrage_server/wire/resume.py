"""The points from which subscribers resume, and the lineages that check them.

A client of this project names the point in the header ``barrage-resume`` of a subscription. The metadata of the
answer's schema has the lineage of the table. Other clients send no header, and get no lineage.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

__all__ = ["LINEAGE_KEY", "RESUME_HEADER", "Era", "Lineage", "ResumePoint", "lineage_of", "with_lineage"]

RESUME_HEADER: Final = "barrage-resume"
"""The header of a subscription: ``?``, or a lineage and a step, separated by a space."""
LINEAGE_KEY: Final = b"barrage:lineage"
"""Key of the table's lineage in the metadata of a stream's schema."""
MOST_ERAS: Final = 100
"""The most eras that are kept; a client of an earlier one gets a snapshot."""

_ASK: Final = "?"
_POINT: Final = re.compile(r"([!-~]{1,200}) ([0-9]{1,18})")
_MOST_TEXT: Final = 200


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The point at which a client's stream ended.

    Attributes:
        lineage: the lineage of the table, as the server has told it; empty when there is nothing to resume from.
        step: the server's step of the last message.

    """

    lineage: str = ""
    step: int = -1

    def encode(self) -> str:
        """Encode the value of the header."""
        return f"{self.lineage} {self.step}" if self.lineage else _ASK

    @classmethod
    def decode(cls, header: str | None) -> ResumePoint | None:
        """Decode a header; ``None`` without a header.

        The point has no lineage if the header has none, or is malformed.
        """
        if header is None:
            return None
        found = _POINT.fullmatch(header)
        return cls() if found is None else cls(found[1], int(found[2]))


@dataclass(frozen=True, slots=True)
class Era:
    """The time from one start of a server to its end.

    Attributes:
        id: a random identifier.
        step: the last step that was recovered at the start.

    """

    id: str
    step: int


@dataclass(frozen=True, slots=True)
class Lineage:
    """The eras of a server with its data directory, the present one last."""

    eras: tuple[Era, ...]

    def followed_by(self, era: Era) -> Lineage:
        """Return the lineage with one more era."""
        return Lineage((*self.eras, era)[-MOST_ERAS:])

    @property
    def present(self) -> Era:
        """The present era."""
        return self.eras[-1]

    def holds(self, era: str, step: int) -> bool:
        """Whether ``step`` of an era belongs to the present history.

        It does unless a later recovery began before that step.
        """
        for number, one in enumerate(self.eras):
            if one.id == era:
                return all(step <= later.step for later in self.eras[number + 1 :])
        return False


def with_lineage(schema: pa.Schema, lineage: str) -> pa.Schema:
    """Return ``schema`` with the lineage of its table."""
    return schema.with_metadata({**(schema.metadata or {}), LINEAGE_KEY: lineage.encode()})


def lineage_of(schema: pa.Schema) -> str:
    """Return the lineage of the table; empty where the server has not told one."""
    told = (schema.metadata or {}).get(LINEAGE_KEY, b"")
    text: str = told.decode("ascii", "replace")
    return text if len(text) <= _MOST_TEXT and text.isprintable() and " " not in text else ""

"""How a subscriber comes back to where it was: the point that it names, and the lineage that the point is checked with.

A client of this project says in the header ``barrage-resume`` of a subscription that it would come back, and from which
point. The schema of the answer says in its metadata of which lineage the table is. Other clients send no header, and
are told nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

__all__ = ["LINEAGE_KEY", "RESUME_HEADER", "Era", "Lineage", "ResumePoint", "lineage_of", "with_lineage"]

RESUME_HEADER: Final = "barrage-resume"
"""The header of a subscription: ``?``, or a lineage and a step with a space between."""
LINEAGE_KEY: Final = b"barrage:lineage"
"""The lineage of the table, in the metadata of the schema that a stream begins with."""
MOST_ERAS: Final = 100
"""Eras that are known; a client of an earlier one gets a snapshot."""

_ASK: Final = "?"
_POINT: Final = re.compile(r"([!-~]{1,200}) ([0-9]{1,18})")
_MOST_TEXT: Final = 200


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """What a client had when its stream ended.

    Attributes:
        lineage: that of the table, as the server has told it; empty when there is nothing to resume from.
        step: the server's step of the last message.

    """

    lineage: str = ""
    step: int = -1

    def encode(self) -> str:
        """The value of the header."""
        return f"{self.lineage} {self.step}" if self.lineage else _ASK

    @classmethod
    def decode(cls, header: str | None) -> ResumePoint | None:
        """The point in a header: without a lineage if there is none, or what stands there is no point; ``None`` without
        a header.
        """
        if header is None:
            return None
        found = _POINT.fullmatch(header)
        return cls() if found is None else cls(found[1], int(found[2]))


@dataclass(frozen=True, slots=True)
class Era:
    """The time from one start of a server to its end.

    Attributes:
        id: random; no other start has it.
        step: the last step that was recovered at its beginning.

    """

    id: str
    step: int


@dataclass(frozen=True, slots=True)
class Lineage:
    """The eras of a server with its data directory, the present one last."""

    eras: tuple[Era, ...]

    def followed_by(self, era: Era) -> Lineage:
        """The lineage with one more era."""
        return Lineage((*self.eras, era)[-MOST_ERAS:])

    @property
    def present(self) -> Era:
        """The present era."""
        return self.eras[-1]

    def holds(self, era: str, step: int) -> bool:
        """Whether what was true at ``step`` of an era is a part of the present history: no later recovery began before
        that step.
        """
        for number, one in enumerate(self.eras):
            if one.id == era:
                return all(step <= later.step for later in self.eras[number + 1 :])
        return False


def with_lineage(schema: pa.Schema, lineage: str) -> pa.Schema:
    """``schema`` with the lineage of its table."""
    return schema.with_metadata({**(schema.metadata or {}), LINEAGE_KEY: lineage.encode()})


def lineage_of(schema: pa.Schema) -> str:
    """The lineage of the table; empty where the server has not told one."""
    told = (schema.metadata or {}).get(LINEAGE_KEY, b"")
    text: str = told.decode("ascii", "replace")
    return text if len(text) <= _MOST_TEXT and text.isprintable() and " " not in text else ""

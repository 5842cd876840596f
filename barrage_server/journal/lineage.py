"""The lineage of a data directory: the starts of servers with it.

Each start has an entry with the step at which it began. The file also has the number of the journal's last segment:
nothing else tells that this segment is missing. Its first line is the XXH3-64 of the rest in hexadecimal; JSON follows.
It is replaced, and synced, before a start serves anything. If it is damaged, subscribers of earlier starts get a
snapshot; nothing else is lost.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Final

from barrage_server.journal.checked_text import with_checksum, without_checksum
from barrage_server.journal.files import Directory
from barrage_server.journal.json_form import MALFORMED, whole_number
from barrage_server.wire.resume import Era, Lineage

__all__ = ["LINEAGE", "forget_segment", "last_segment", "read_lineage", "write_lineage"]

logger = logging.getLogger("barrage_server.journal")

LINEAGE: Final = "lineage.json"
"""The file with the lineage of the directory."""


def read_lineage(root: Directory, era: str = "") -> Lineage:
    """The eras of earlier starts.

    There are none if the file is missing, damaged, or older than the journal.

    Args:
        root: the data directory.
        era: the id of the last era that the journal knows; empty if it knows none. A lineage without this era is older
            than the journal, or of another directory: it does not know which steps were lost later.
    """
    if LINEAGE not in root.names():
        return Lineage(())
    found = _read(root)
    if found is None:
        logger.warning("%s of the data directory is damaged: subscribers from before get a snapshot", LINEAGE)
        return Lineage(())
    if not era or any(one.id == era for one in found.lineage.eras):
        return found.lineage
    logger.warning("%s is not of this journal: subscribers from before get a snapshot", LINEAGE)
    return Lineage(())


def write_lineage(root: Directory, lineage: Lineage, directory: str = "", segment: int = 0) -> None:
    """Write the eras, and sync them.

    Args:
        root: the data directory.
        lineage: the eras.
        directory: the identity of the data directory.
        segment: the number of the last segment of its journal, whose name is synced. From then on, a journal without
            this segment has lost it, unless a checkpoint is later.

    Raises:
        OSError: they cannot be written.
    """
    eras = [{"id": era.id, "step": era.step} for era in lineage.eras]
    text = json.dumps({"eras": eras, "directory": directory, "segment": segment}).encode()
    root.replace(LINEAGE, with_checksum(text))


def last_segment(root: Directory, directory: str) -> int:
    """The number of the last segment that the lineage names; 0 if it is unknown.

    It is unknown if the file is missing, damaged, or of another directory than ``directory``, or if a server of an
    earlier version has written it.
    """
    found = _read(root) if LINEAGE in root.names() else None
    return found.segment if found is not None and found.directory == directory else 0


def forget_segment(root: Directory) -> None:
    """Write the eras without the number of a segment.

    Raises:
        OSError: they cannot be written.
    """
    if LINEAGE in root.names() and (found := _read(root)) is not None:
        write_lineage(root, found.lineage)


@dataclass(frozen=True, slots=True)
class _Content:
    lineage: Lineage
    directory: str
    segment: int


def _read(root: Directory) -> _Content | None:
    """The content of the file; ``None`` if it is damaged."""
    try:
        text = without_checksum(root.read(LINEAGE))
        if text is not None:
            found = json.loads(text)
            lineage = Lineage(tuple(Era(str(one["id"]), whole_number(one["step"])) for one in found["eras"]))
            return _Content(lineage, str(found.get("directory", "")), whole_number(found.get("segment", 0)))
    except MALFORMED as error:
        logger.debug("%s cannot be read: %s", LINEAGE, error)
    return None

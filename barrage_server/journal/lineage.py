"""The lineage of a data directory: the starts of servers with it.

Each start has an entry with the step at which it began. The file has the XXH3-64 of the rest in hexadecimal in its
first line, then JSON. It is replaced, and synced, before a start serves anything. If it is damaged, subscribers of
earlier starts get a snapshot; nothing else is lost.
"""

from __future__ import annotations

import json
import logging
from typing import Final

import xxhash

from barrage_server.journal.files import Directory
from barrage_server.journal.json_form import MALFORMED, whole_number
from barrage_server.wire.resume import Era, Lineage

__all__ = ["LINEAGE", "read_lineage", "write_lineage"]

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
    try:
        checksum, _, text = bytes(root.read(LINEAGE)).partition(b"\n")
        if xxhash.xxh3_64_hexdigest(text).encode() == checksum:
            found = json.loads(text)
            lineage = Lineage(tuple(Era(str(one["id"]), whole_number(one["step"])) for one in found["eras"]))
            if not era or any(one.id == era for one in lineage.eras):
                return lineage
            logger.warning("%s is not of this journal: subscribers from before get a snapshot", LINEAGE)
            return Lineage(())
    except MALFORMED as error:
        logger.debug("%s cannot be read: %s", LINEAGE, error)
    logger.warning("%s of the data directory is damaged: subscribers from before get a snapshot", LINEAGE)
    return Lineage(())


def write_lineage(root: Directory, lineage: Lineage) -> None:
    """Write the eras, and sync them.

    Raises:
        OSError: they cannot be written.
    """
    text = json.dumps({"eras": [{"id": era.id, "step": era.step} for era in lineage.eras]}).encode()
    root.replace(LINEAGE, [f"{xxhash.xxh3_64_hexdigest(text)}\n".encode(), text])

"""The lineage of a data directory: an entry for each start of a server with it, and the step at which it began.

The file has the XXH3-64 of the rest in hexadecimal in its first line, then JSON. It is written anew, and synced, before
a start serves anything. A damaged one costs the subscribers of earlier starts a snapshot, and nothing else.
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
_NEW_LINEAGE: Final = f"{LINEAGE}.new"


def read_lineage(root: Directory, era: str = "") -> Lineage:
    """The eras of earlier starts; none where there is no file, a damaged one, or that of another time.

    Args:
        root: the data directory.
        era: the id of the last era that the journal knows; empty where it knows none. A lineage without it is older
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
    """Write the eras down. OSError when they cannot be."""
    text = json.dumps({"eras": [{"id": era.id, "step": era.step} for era in lineage.eras]}).encode()
    root.remove(_NEW_LINEAGE)
    file = root.create(_NEW_LINEAGE)
    try:
        file.write([f"{xxhash.xxh3_64_hexdigest(text)}\n".encode(), text])
        file.sync()
    finally:
        file.close()
    root.rename(_NEW_LINEAGE, LINEAGE)
    root.sync()

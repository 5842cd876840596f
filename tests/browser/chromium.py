"""Which browser the tests drive."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

PLACE = Path(__file__).resolve().parents[2] / ".web" / "chromium"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
MISSING = "There is no Chromium: run `make browser`, which installs one, or name one with CHROMIUM=/path/of/chromium."


@dataclass(frozen=True)
class Chromium:
    """A browser's program, and what it needs in its environment."""

    path: str
    environment: dict[str, str] = field(default_factory=dict)


def find_chromium() -> Chromium:
    """The one that ``CHROMIUM`` names, else an installed one, else that of ``scripts/make-browser-env``.

    Raises:
        RuntimeError: there is none; the text says what to do.

    """
    wanted = os.environ.get("CHROMIUM", "")
    if wanted not in ("", "npm"):
        return Chromium(wanted)
    if not wanted:
        for name in NAMES:
            if path := shutil.which(name):
                return Chromium(path)
    unpacked = PLACE / "unpacked"
    if not (PLACE / ".installed").exists():
        raise RuntimeError(MISSING)
    environment = {
        "LD_LIBRARY_PATH": str(unpacked / "al2023" / "lib"),
        "FONTCONFIG_FILE": str(PLACE / "fonts.conf"),
    }
    return Chromium(str(unpacked / "chromium"), environment)

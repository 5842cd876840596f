"""The environments of the peers.

``scripts/make-bench-env`` installs each peer into an environment of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from benchmarks.process import ROOT

__all__ = ["FOLDER", "MissingPeerError", "modules_of", "python_of", "version_of"]

FOLDER: Final = ROOT / ".bench"


class MissingPeerError(Exception):
    """A peer is not installed."""


def python_of(peer: str) -> str:
    """The interpreter of an environment.

    Its name is ``deephaven``, ``ticking``, ``perspective`` or ``perspective-page``.

    Raises:
        MissingPeerError: it is not installed.
    """
    return str(_installed(peer) / "bin" / "python")


def modules_of(peer: str) -> str:
    """The folder of the packages from npm of ``perspective-js``.

    Raises:
        MissingPeerError: they are not installed.
    """
    return str(_installed(peer) / "node_modules")


def _installed(peer: str) -> Path:
    if not (FOLDER / peer / ".installed").exists():
        raise MissingPeerError(f"{peer} is not installed: run make bench-env")
    return FOLDER / peer


def version_of(peer: str, package: str) -> str:
    """The version of a package of a peer that is installed."""
    pins = dict(line.split("==") for line in (FOLDER / peer / ".installed").read_text().splitlines() if "==" in line)
    return pins[package]

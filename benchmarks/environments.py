"""Where the peers are installed. ``scripts/make-bench-env`` puts each into an environment of its own."""

from __future__ import annotations

from typing import Final

from benchmarks.process import ROOT

__all__ = ["FOLDER", "MissingPeerError", "python_of", "version_of"]

FOLDER: Final = ROOT / ".bench"


class MissingPeerError(Exception):
    """A peer is not installed."""


def python_of(peer: str) -> str:
    """The interpreter of ``deephaven``, ``ticking`` or ``perspective``.

    Raises:
        MissingPeerError: it is not installed.
    """
    if not (FOLDER / peer / ".installed").exists():
        raise MissingPeerError(f"{peer} is not installed: run make bench-env")
    return str(FOLDER / peer / "bin" / "python")


def version_of(peer: str, package: str) -> str:
    """The version of a package of a peer that is installed."""
    pins = dict(line.split("==") for line in (FOLDER / peer / ".installed").read_text().splitlines() if "==" in line)
    return pins[package]

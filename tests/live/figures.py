"""What must hold of a live server's figures and log, whatever was done to it."""

from __future__ import annotations

import re

from tests.live.process import Figures

_FAULTS = re.compile(r"Traceback|Fatal Python|terminate called|\bERROR\b|\bCRITICAL\b|exception was never retrieved")
_SLACK_THREADS = 24
_SLACK_DESCRIPTORS = 24
_SLACK_MEMORY = 96 << 20
"""What allocators and pools of threads may keep, however many calls there were."""


def faults_of(log: str) -> list[str]:
    """Lines of a server's log that tell of a fault of its own."""
    return [line for line in log.splitlines() if _FAULTS.search(line)]


def growth(before: Figures, after: Figures, *, memory: int = 0) -> list[str]:
    """What did not return to where it was. ``memory``: bytes that may be held beyond the slack."""
    found = []
    if after.memory > before.memory + _SLACK_MEMORY + memory:
        found.append(f"memory grew from {before.memory >> 20} to {after.memory >> 20} MiB")
    if after.threads > before.threads + _SLACK_THREADS:
        found.append(f"threads grew from {before.threads} to {after.threads}")
    if after.descriptors > before.descriptors + _SLACK_DESCRIPTORS:
        found.append(f"descriptors grew from {before.descriptors} to {after.descriptors}")
    return found

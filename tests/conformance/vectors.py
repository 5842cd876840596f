"""Captured scenarios as files: a manifest, and one message per file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from barrage_server.rowset import RowSet


@dataclass(frozen=True, slots=True)
class CapturedMessage:
    """One message: its bytes, its direction, and what the manifest says about it."""

    data: bytes
    outgoing: bool
    facts: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.facts.get("file", "?"))


@dataclass(frozen=True, slots=True)
class Step:
    """A moment when the table was quiescent: the messages until then, and the whole table."""

    note: str
    messages_so_far: int
    expected: dict[str, Any] | None
    request: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Scenario:
    """One directory of vectors."""

    name: str
    manifest: dict[str, Any]
    messages: tuple[CapturedMessage, ...]
    steps: tuple[Step, ...]

    @property
    def is_download(self) -> bool:
        """Whether the first message is a Ticket instead of a FlightData."""
        return str(self.manifest.get("rpc", "")).startswith("DoGet")

    @property
    def has_updates(self) -> bool:
        """Whether the server's messages are updates; in uploads they are receipts."""
        return str(self.manifest.get("rpc", "DoExchange")).startswith(("DoExchange", "DoGet"))

    @property
    def expects_error(self) -> bool:
        return self.name.startswith("error_")

    @classmethod
    def load(cls, directory: Path) -> Scenario:
        manifest = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
        messages = tuple(
            CapturedMessage((directory / facts["file"]).read_bytes(), facts.get("dir") == "out", facts)
            for facts in manifest.get("messages") or ()
        )
        steps = tuple(
            Step(
                str(step.get("note", "")),
                int(step["messages_so_far"]),
                step.get("expected_full_table"),
                step.get("request"),
            )
            for step in manifest.get("steps") or ()
            if step.get("messages_so_far") is not None
        )
        return cls(directory.name, manifest, messages, steps)


def scenario_directories(roots: Iterable[Path]) -> Iterator[Path]:
    """Every directory with a manifest: a root itself, or any folder below it."""
    for root in roots:
        if (root / "manifest.json").is_file():
            yield root
        else:
            yield from sorted(path.parent for path in root.rglob("manifest.json"))


def rows_of(ranges: Iterable[Iterable[int]] | None) -> RowSet | None:
    """A row set from the manifests' form: pairs of first and last."""
    if ranges is None:
        return None
    pairs = [list(pair) for pair in ranges]
    return RowSet.from_ranges([pair[0] for pair in pairs], [pair[1] for pair in pairs])

"""What the documents contain: links, headings, code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "examples" / "README.md", *(ROOT / "docs").glob("*.md")])
EXAMPLE_URI = "grpc://localhost:8815"
EXAMPLE_DEEPHAVEN_URI = "dh+plain://localhost:10000"


@dataclass(frozen=True)
class Code:
    """A fenced block of a document."""

    document: Path
    line: int
    language: str
    text: str

    @property
    def name(self) -> str:
        """Where it is, for messages."""
        return f"{self.document.relative_to(ROOT)}:{self.line}"


def code(document: Path, language: str | None = None) -> list[Code]:
    """The code blocks of a document, in order."""
    tokens = MarkdownIt("commonmark").parse(document.read_text())
    found = [
        Code(document, (token.map or [0])[0] + 2, token.info.strip(), token.content)
        for token in tokens
        if token.type == "fence"
    ]
    return [block for block in found if language is None or block.language == language]


def is_for_a_peer(block: Code) -> bool:
    """Whether a program needs Deephaven's Python client or server; the tests against real peers run those."""
    return "from pydeephaven" in block.text or "from deephaven" in block.text


def links(document: Path) -> list[str]:
    """Targets of links and images."""
    found = []
    for token in MarkdownIt("commonmark").enable("table").parse(document.read_text()):
        for child in token.children or []:
            if child.type in {"link_open", "image"}:
                found.append(str(child.attrs["href" if child.type == "link_open" else "src"]))
    return found


def anchors(document: Path) -> set[str]:
    """What can stand behind ``#`` in a link to the document."""
    tokens = MarkdownIt("commonmark").parse(document.read_text())
    texts = [tokens[index + 1].content for index, token in enumerate(tokens) if token.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in texts}

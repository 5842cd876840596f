"""Errors of public calls and of the command line are sentences: a capital, or the name of an argument; a full stop."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import barrage_server
from barrage_server import errors

PACKAGE = Path(barrage_server.__file__).parent
# Their texts are parts of others: what came, and where, stands around them.
OF_PARTS = {"wire", "rowset"}
MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path.relative_to(PACKAGE).parts[0] not in OF_PARTS]
CLASSES = {*errors.__all__, "UsageError"}
INNER = {
    "cli/boundary.py": {"Terminated": "SIGTERM, which ends a command"},
    "cli/usage.py": {"UsageError": "becomes a line on stderr, and an exit code"},
    "engine/standalone.py": {"_MovedError": "has a write made in the graph of the server"},
    "flight/errors.py": {
        "InvalidArgument": "a status that Arrow sends",
        "NotFound": "a status that Arrow sends",
        "Unauthenticated": "a status that Arrow sends",
        "Unauthorized": "a status that Arrow sends",
        "Unavailable": "a status that Arrow sends",
        "TimedOut": "a status that Arrow sends",
        "Internal": "a status that Arrow sends",
    },
    "formula/compiled.py": {"_CompileError": "has a formula run without a compiler"},
    "journal/record.py": {"UnclearEndError": "becomes a JournalError"},
    "journal/recovery.py": {"_FailedCycle": "has a cycle left out that failed before"},
    "operations/downsample/sequence.py": {"DisorderError": "has a downsampled table computed by its values"},
    "operations/update_by/functions.py": {"RefusedRow": "becomes the error of its fault"},
    "publish/delta.py": {"_AnotherTableError": "has rows published again, to another table"},
    "server/console/stop_switch.py": {"ScriptStop": "stops a script, whose result says so"},
    "server/web/channel.py": {"ChannelClosedError": "ends the session of a page that has left"},
}
"""Exceptions outside of errors.py, by their modules, and what those make of them who catch them."""
BEGINS = re.compile(r"[^a-z]|[a-z_]+ (must|is|takes) |[a-z]+\(")
ENDS = (".", "?", "}", ")")
PARTS = {"a value is not of type {}: {}", "the cell was never written", "the end does not come after the start"}


def text_of(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return None


def texts(module: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rsplit(".", 1)[-1] in CLASSES and node.args:
            text = text_of(node.args[0])
            if text is not None and text not in PARTS:
                yield node.lineno, text


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.relative_to(PACKAGE)))
def test_errors_are_sentences(module: Path) -> None:
    wrong = [(line, text) for line, text in texts(module) if not BEGINS.match(text) or not text.endswith(ENDS)]
    assert wrong == []


def exceptions() -> dict[str, set[str]]:
    """The classes of exceptions of each module, except errors.py and what is generated."""
    classes = [
        (path.relative_to(PACKAGE).as_posix(), node)
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    found: dict[str, set[str]] = {}
    for module, node in classes:
        bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
        if any(re.search(r"(Error|Exception|Invalid|Interrupt|Exit)$", base) for base in bases):
            found.setdefault(module, set()).add(node.name)
    del found["errors.py"]
    return found


def test_errors_are_one_tree_in_one_module() -> None:
    assert exceptions() == {module: set(classes) for module, classes in INNER.items()}

"""The rooms: each imports from those below it only, and the pure ones know of no socket, thread or clock."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import barrage_server

PACKAGE = Path(barrage_server.__file__).parent
BELOW: dict[str, set[str]] = {
    "errors": set(),
    "public": set(),
    "showing": {"errors"},
    "arguments": {"errors"},
    "address": {"errors"},
    "extras": {"errors"},
    "pem": {"errors"},
    "log": set(),
    "process": {"errors"},
    "fixed_limits": set(),
    "byte_sizes": set(),
    "typed_json": {"errors", "fixed_limits"},
    "type_names": {"errors"},
    "function_signature": set(),
    "rowset": {"errors"},
    "wire": {"errors", "typed_json", "function_signature", "rowset"},
    "formula": {"errors", "fixed_limits", "byte_sizes", "extras", "type_names", "function_signature", "wire"},
    "plan": {"errors", "fixed_limits", "typed_json", "formula"},
    "deephaven": {"errors", "plan"},
    "flight": {"errors", "log", "process", "wire"},
    "engine": {"errors", "type_names", "rowset", "wire", "plan", "formula"},
    "operations": {"errors", "fixed_limits", "byte_sizes", "rowset", "wire", "engine", "formula", "plan"},
    "clock": {"errors", "fixed_limits", "process", "formula", "engine"},
    "subscription": {"errors", "rowset", "wire", "engine"},
    "publish": {"errors", "rowset", "wire", "engine"},
    "journal": {"errors", "rowset", "wire", "engine"},
    "client": {
        "errors",
        "process",
        "address",
        "flight",
        "extras",
        "pem",
        "rowset",
        "wire",
        "plan",
        "deephaven",
        "engine",
        "subscription",
        "showing",
        "function_signature",
    },
    "relay": {
        "errors",
        "log",
        "process",
        "address",
        "flight",
        "pem",
        "rowset",
        "wire",
        "engine",
        "subscription",
        "client",
    },
    "server": {
        "errors",
        "fixed_limits",
        "byte_sizes",
        "log",
        "process",
        "extras",
        "flight",
        "pem",
        "rowset",
        "wire",
        "plan",
        "deephaven",
        "formula",
        "engine",
        "operations",
        "clock",
        "subscription",
        "publish",
        "journal",
        "relay",
    },
    "spark": {"errors", "process", "extras", "address", "flight", "pem", "rowset", "wire"},
    "notebook": {"errors", "process", "extras", "wire", "engine", "subscription", "client", "server"},
}
ANYWHERE = {"errors", "arguments", "public"}
PURE = ["rowset", "wire", "plan", "deephaven", "formula", "engine", "operations", "subscription", "publish", "journal"]
IMPURE = {"asyncio", "grpc", "multiprocessing", "pyarrow.flight", "pyspark", "queue", "select", "socket", "time"}
# Locks are values that a pure room may hold; threads are not.
LOCKS = {"Condition", "Lock", "RLock", "local"}
ASKED = {"current_thread", "main_thread"}
"""Which thread runs, which an update graph asks because of Ctrl-C; no pure room starts one."""


def files(room: str) -> list[Path]:
    folder = PACKAGE / room
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]


def imports(path: Path) -> set[str]:
    """Every module, and every name out of a module, that a file imports, wherever in the file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: imports are absolute"
            found |= {str(node.module)} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("room", BELOW)
def test_a_room_imports_only_from_below(room: str) -> None:
    """Never from above, and never from beside."""
    allowed = BELOW[room] | {room} | (ANYWHERE if room not in ANYWHERE else set())
    for path in files(room):
        used = {name.split(".")[1] for name in imports(path) if name.startswith("barrage_server.")}
        assert used <= allowed, f"{path.relative_to(PACKAGE)} imports from {sorted(used - allowed)}"


@pytest.mark.parametrize("room", PURE)
def test_a_pure_room_has_no_socket_thread_or_clock(room: str) -> None:
    """What it needs of these is handed to it."""
    for path in files(room):
        found = imports(path)
        assert not found & IMPURE, path.relative_to(PACKAGE)
        source = ast.parse(path.read_text())
        used = {
            node.attr
            for node in ast.walk(source)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "threading"
        }
        named = {name.split(".")[1] for name in found if name.startswith("threading.")}
        assert used | named <= LOCKS | ASKED, path.relative_to(PACKAGE)


def test_every_room_is_listed() -> None:
    """A new room says where it stands."""
    rooms = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert rooms - {"__init__", "__main__", "cli", "demo"} == set(BELOW)

"""The inputs of ``tests.fuzz.computing`` that are kept: each reaches what no seed and no other kept input does.

What an input reaches is every step from one line to the next, within a function or into one that it calls, of the code
that formulas, operations and plans are made of, in the thread that computes. A branch and a line that raises an error
are such steps, too. The files in ``kept/`` have a line for each input, the shortest first: a formula is a JSON text, a
plan is the JSON that it is, and a batch is base64.
"""

from __future__ import annotations

import base64
import contextlib
import inspect
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import barrage_server

__all__ = ["FOLDER", "MOST_BYTES", "MOST_KEPT", "Place", "kept", "least", "places", "write"]

FOLDER = Path(__file__).parent / "kept"
MOST_KEPT = 400
"""Inputs of a kind."""
MOST_BYTES = 1_500
"""Bytes of an input."""
_PACKAGE = Path(barrage_server.__file__).parent
_TRACED = tuple(str(_PACKAGE / name) for name in ("formula/", "operations/", "plan/", "deephaven/"))
_SHIFT = 32
_LINE = (1 << _SHIFT) - 1

Place = tuple[str, int, str, int]
"""A file and a line, and the file and the line that ran next. A function begins with that of its call, or with 0."""


@contextlib.contextmanager
def places() -> Iterator[set[Place]]:
    """A set that has the places that this thread has reached, once the block has ended."""
    reached: set[Place] = set()
    steps: dict[CodeType, set[int] | None] = {}
    calls: set[tuple[CodeType, int, CodeType]] = set()

    def steps_of(code: CodeType) -> set[int] | None:
        try:
            return steps[code]
        except KeyError:
            is_function = code.co_flags & inspect.CO_OPTIMIZED  # and not what a module does when it is imported
            found = steps[code] = set() if is_function and code.co_filename.startswith(_TRACED) else None
            return found

    def call(frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        found = steps_of(code)
        if found is None:
            return None
        caller = frame.f_back
        if caller is not None and steps_of(caller.f_code) is not None:
            calls.add((caller.f_code, caller.f_lineno, code))
        add, before = found.add, 0

        def line(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal before
            if event == "line":
                now = frame.f_lineno
                add(before << _SHIFT | now)
                before = now
            return line

        return line

    earlier = sys.gettrace()
    sys.settrace(call)
    try:
        yield reached
    finally:
        sys.settrace(earlier)
        for code, found in steps.items():
            name = code.co_filename
            reached.update((name, step >> _SHIFT, name, step & _LINE) for step in found or ())
        for caller, line, code in calls:
            reached.add((caller.co_filename, line, code.co_filename, code.co_firstlineno))


def least(reached: Mapping[bytes, frozenset[Place]], most: int) -> list[bytes]:
    """Few inputs that reach all places together, the shortest first.

    Each is there for a place that only it reaches. Of more than ``most`` inputs, those that reach the fewest further
    places are left out.
    """
    ordered = sorted(reached, key=lambda data: (len(data), data))
    chosen: list[bytes] = []
    found: set[Place] = set()
    while len(chosen) < most:
        best = max(ordered, key=lambda data: len(reached[data] - found), default=b"")  # of equal ones, the shortest
        if not reached.get(best, frozenset()) - found:
            break
        chosen.append(best)
        found |= reached[best]
    times = Counter(place for data in chosen for place in reached[data])
    for data in reversed(chosen.copy()):
        if all(times[place] > 1 for place in reached[data]):
            chosen.remove(data)
            times.subtract(reached[data])
    return sorted(chosen, key=lambda data: (len(data), data))


def kept(kind: str) -> list[bytes]:
    """The inputs of a kind that are kept."""
    path = FOLDER / f"{kind}.txt"
    return [_read(kind, line) for line in path.read_text().splitlines()] if path.exists() else []


def write(kind: str, inputs: list[bytes]) -> None:
    """Keep these inputs of a kind, and no others.

    Raises:
        ValueError: an input would not be read as it is.

    """
    lines = [_written(kind, data) for data in inputs]
    for line, data in zip(lines, inputs, strict=True):
        if _read(kind, line) != data or len(line.splitlines()) > 1:
            raise ValueError(f"{data!r} has no line that gives it back.")
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{kind}.txt").write_text("".join(f"{line}\n" for line in lines))


def _written(kind: str, data: bytes) -> str:
    if kind == "formula":
        return json.dumps(data.decode())
    return data.decode() if kind == "plan" else base64.b64encode(data).decode()


def _read(kind: str, line: str) -> bytes:
    if kind == "formula":
        return str(json.loads(line)).encode()
    return line.encode() if kind == "plan" else base64.b64decode(line)

"""Runs a folder of Deephaven's own tests of its Python client, unmodified, and says what became of each.

``own_tests.py FOLDER``: the folder of the package ``tests``. ``DH_HOST`` and ``DH_PORT`` say where the server is.
The last line of standard output is JSON: the name of each test, and why it did not pass; empty where it did.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

SKIPPED = "skipped: "


class Outcomes(unittest.TestResult):
    """What became of each test: why it failed first, or was skipped."""

    def __init__(self) -> None:
        super().__init__()
        self.reasons: dict[str, str] = {}

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802  (unittest calls it so)
        super().startTest(test)
        self.reasons[test.id()] = ""
        print(test.id(), file=sys.stderr, flush=True)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        self._failed(test.id(), err)

    def addError(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        self._failed(test.id(), err)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:  # noqa: N802
        if err is not None:
            self._failed(test.id(), err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        if not self.reasons.get(test.id()):
            self.reasons[test.id()] = SKIPPED + reason

    def _failed(self, name: str, err: Any) -> None:
        told: list[str] = []
        error: BaseException | None = err[1]
        while error is not None and len(told) < 4:
            told.append(f"{type(error).__name__}: {error}")
            error = error.__cause__
        if not self.reasons.get(name) or self.reasons[name].startswith(SKIPPED):
            self.reasons[name] = " | ".join(told)


def main(folder: str) -> None:
    """Run them all, in a folder of their own: they write files where they are."""
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "tests").symlink_to(Path(folder).resolve())
        os.chdir(place)
        sys.path.insert(0, place)
        outcomes = Outcomes()
        unittest.defaultTestLoader.discover("tests", top_level_dir=place).run(outcomes)
        os.chdir("/")
    print(json.dumps(outcomes.reasons), flush=True)
    os._exit(0)  # without waiting for threads: a test that fails may leave a listener running


if __name__ == "__main__":
    main(sys.argv[1])

"""Replays captured Barrage conversations through this project's code and reports what does not fit.

    python tests/conformance/replay.py DIRECTORY...

Each directory is a scenario, or holds scenarios. Requests are decoded and encoded again; every message of the server
is decoded and held against the manifest, applied to two receivers (a plain model, and the client's own replica), and
encoded again by our encoder; at every step of the manifest, both receivers must have exactly the expected rows.
Prints one line per scenario; the exit status is that of a test.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    ROOT = Path(__file__).resolve().parents[2]
    sys.path[:0] = [str(ROOT), str(ROOT / "generated")]

from tests.conformance.session import Session
from tests.conformance.vectors import Scenario, scenario_directories


def replay(directory: Path) -> Session:
    """Replay one scenario; its problems are in the session's ``problems``."""
    session = Session(Scenario.load(directory))
    session.run()
    return session


def main(arguments: list[str]) -> int:
    """Replay every scenario under the directories named; the exit status."""
    directories = list(scenario_directories(Path(argument) for argument in arguments))
    if not directories:
        print("no scenario found: name directories that hold a manifest.json, or folders of such")
        return 2
    failed = 0
    for directory in directories:
        try:
            session = replay(directory)
            problems, summary = session.problems, session.summary()
        except Exception as error:
            # One scenario that cannot even be read must not hide the others.
            problems, summary = [f"{type(error).__name__}: {error}"], ""
        failed += bool(problems)
        verdict = f"MISMATCH {'; '.join(problems[:5])}" if problems else f"ok ({summary})"
        more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
        print(f"{directory.name}: {verdict}{more}")
    print(f"{len(directories) - failed} of {len(directories)} scenarios ok")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

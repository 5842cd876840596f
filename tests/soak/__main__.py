"""The soak at the command line: ``python -m tests.soak [--updates N] [--sessions N] [--seed N]``."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.live.process import ServerProcess
from tests.soak.run import LIMITS, Soak, SoakError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--updates", type=int, default=1_000_000, help="cycles of the server")
    parser.add_argument("--sessions", type=int, default=10_000, help="clients that come and go")
    parser.add_argument("--rounds", type=int, default=20, help="rests at which the figures are taken")
    parser.add_argument("--clients", type=int, default=4, help="at a time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", action="store_true", help="without a data directory")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="barrage-soak-"))
    data = None if arguments.memory else folder / "data"
    with ServerProcess(folder, limits=LIMITS, data_dir=data) as server:
        soak = Soak(server, arguments.seed, lambda line: print(line, flush=True), arguments.clients)
        try:
            print(soak.run(arguments.updates, arguments.sessions, arguments.rounds))
        except SoakError as failure:
            print(f"FAILED: {failure}; logs: {folder}", file=sys.stderr)
            return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

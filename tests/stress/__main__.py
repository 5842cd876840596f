"""The stress suite at the command line: ``python -m tests.stress [--seconds N] [--seed N]``."""

from __future__ import annotations

import argparse
import sys
import time

from tests.stress.scene import Scene, scratch
from tests.stress.writers import Shapes


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.stress", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="for how long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--depth", type=int, default=3, help="of nested types; 0 for none")
    parser.add_argument("--plain", action="store_true", help="no encodings but those of tables")
    arguments = parser.parse_args()
    began = time.monotonic()
    with scratch() as folder:
        try:
            shapes = Shapes(arguments.depth, not arguments.plain)
            Scene(arguments.seed, folder, lambda line: print(line, flush=True), shapes).run(arguments.seconds)
        except Exception as error:
            print(f"FAILED after {time.monotonic() - began:.0f} s: {error}", file=sys.stderr)
            print(
                f"repeat: make stress SECONDS={arguments.seconds:g} SEED={arguments.seed}; logs: {folder}",
                file=sys.stderr,
            )
            raise
    print(f"seed {arguments.seed}: nothing wrong in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

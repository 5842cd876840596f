"""The faults at the command line: ``python -m tests.faults [--rounds N] [--seed N] [--first N] [--no-spark]``."""

from __future__ import annotations

import argparse
import sys
import time

from tests.faults.rounds import RoundError, Rounds, scratch


def positive(text: str) -> int:
    """A number of at least 1, for argparse."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--rounds", type=positive, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first round, to repeat one")
    parser.add_argument("--no-spark", action="store_true", help="publishers in plain Python alone")
    arguments = parser.parse_args()
    began = time.monotonic()
    with scratch() as folder:
        rounds = Rounds(arguments.seed, folder, lambda line: print(line, flush=True), spark=not arguments.no_spark)
        try:
            rounds.run(arguments.first, arguments.rounds)
        except RoundError as error:
            number = arguments.first + rounds.rounds
            print(f"FAILED after {time.monotonic() - began:.0f} s: {error}", file=sys.stderr)
            plain = " FAULTS_ARGS=--no-spark" if arguments.no_spark else ""
            again = f"make faults SEED={arguments.seed} FIRST={number} ROUNDS=1{plain}"
            print(f"repeat: {again}; logs: {folder}", file=sys.stderr)
            raise
        kinds = ", ".join(f"{count} x {kind}" for kind, count in sorted(rounds.done.items()))
        seconds = time.monotonic() - began
        print(f"seed {arguments.seed}: {rounds.rounds} rounds in {seconds:.0f} s, nothing wrong; {kinds}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The fuzz at the command line: ``python -m tests.fuzz [--calls N] [--seed N] [--endpoint NAME]``.

What a failure has left is replayed by ``python -m tests.fuzz replay FILE``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.fuzz.judge import GoodClient, complaint
from tests.fuzz.run import ENDPOINTS, Fuzz, FuzzError, Generator, loaded, make, sender_of, server_for
from tests.live.figures import faults_of


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000, help="calls per endpoint")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--endpoint", choices=ENDPOINTS, help="only this one")
    parser.add_argument("--survey", action="store_true", help="go on after everything but a death, and list it")
    commands = parser.add_subparsers(dest="command")
    replaying = commands.add_parser("replay", help="make the calls of a file again that a failure has left")
    replaying.add_argument("file", type=Path)
    replaying.add_argument("--single", action="store_true", help="each call on a new server, to find the culprit")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="barrage-fuzz-"))
    if arguments.command == "replay":
        return replay(arguments.file, folder, single=arguments.single)
    for endpoint in [arguments.endpoint] if arguments.endpoint else ENDPOINTS:
        with server_for(endpoint, folder) as server:
            fuzz = Fuzz(
                server, endpoint, arguments.seed, folder, lambda line: print(line, flush=True), arguments.survey
            )
            try:
                print(f"{endpoint}: {fuzz.run(arguments.calls)}", flush=True)
            except FuzzError as failure:
                print(f"{endpoint}: FAILED: {failure}", file=sys.stderr)
                return 1
            finally:
                for line in fuzz.found:
                    print(f"  {line}", flush=True)
    return 0


def _say(line: str) -> None:
    print(line, flush=True)


def replay(path: Path, folder: Path, *, single: bool) -> int:
    """Make the calls of a file again, in their order, by one client; 1 when that shows something wrong."""
    endpoint, seed, calls = loaded(path)
    generator = Generator(seed, endpoint)
    wrong = 0
    for part in [[call] for call in calls] if single else [calls]:
        with server_for(endpoint, folder) as server, GoodClient(server) as good:
            sender = sender_of(endpoint, server)
            for number, call in part:
                outcome = make(generator, sender, call, number)
                found = complaint(outcome) or next(iter(faults_of(server.log())), None)
                if not server.is_alive:
                    found = f"the server died with {server.exit_code}"
                if found is not None:
                    wrong += 1
                    print(f"call {number} {call.method}: {found}", flush=True)
                    break
            sender.close()
            if server.is_alive:
                good.check()
    print(f"{len(calls)} calls again: {wrong or 'nothing'} wrong", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""Each decoder under atheris, which looks for bytes that lead elsewhere: ``python -m tests.fuzz.decoders``.

A decoder gives a value, or an error of this project's tree. Anything else is a fault, and so is a gigabyte at once, or
ten seconds for one input. What it has found to be interesting stays in ``.fuzz``, and the next run begins with it. The
test suite changes seeds at random for a moment, without atheris.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import re
import subprocess
import sys
import time
from pathlib import Path

from barrage_server.errors import BarrageError
from tests.fuzz.decoder_seeds import seeds
from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / ".fuzz"
"""Where corpora stay, one folder for each target, and inputs that a run has failed with."""
_PROCESS_SECONDS = 60


def corpus_of(folder: Path, name: str) -> Path:
    """The corpus of a target in ``folder``: its seeds, and what earlier runs have found."""
    corpus = folder / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds(name)):
        (corpus / f"seed-{number:03d}").write_bytes(data)
    return corpus


def check(name: str, data: bytes) -> None:
    """Run a target; only errors of this project's tree are let through."""
    try:
        TARGETS[name](data)
    except BarrageError:
        return


def change(data: bytes, chance: random.Random) -> bytes:
    """Flip, cut, repeat, or overwrite by boundary values."""
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 4])):
        if not changed:
            return bytes(changed)
        place = chance.randrange(len(changed))
        kind = chance.randrange(4)
        if kind == 0:
            changed[place] ^= 1 << chance.randrange(8)
        elif kind == 1:
            value = chance.choice([0, 1, -1, 1 << 31, (1 << 31) - 1, (1 << 63) - 1, -(1 << 63)])
            width = chance.choice([1, 2, 4, 8])
            changed[place : place + width] = (value % (1 << 8 * width)).to_bytes(width, "little")
        elif kind == 2:
            del changed[place : place + chance.randint(1, 16)]
        else:
            changed[place:place] = changed[place : place + chance.randint(1, 16)]
    return bytes(changed)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.decoders", description=__doc__)
    parser.add_argument("targets", nargs="*", choices=[[], *TARGETS], help="all when left out")
    parser.add_argument("--seconds", type=int, default=60, help="for each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path, default=CORPUS, help="where corpora stay, and inputs that fail")
    parser.add_argument("--file", type=Path, help="run one target with the bytes of a file that a failure has left")
    arguments = parser.parse_args()
    if arguments.file is not None:
        for name in arguments.targets:
            check(name, arguments.file.read_bytes())
        return 0
    if importlib.util.find_spec("atheris") is None:
        print("atheris is not installed: make fuzz-decoders installs it", file=sys.stderr)
        return 2
    folder = arguments.corpus.resolve()
    for name in arguments.targets or TARGETS:
        began = time.monotonic()
        count, failure = fuzz(name, folder, arguments.seconds, arguments.seed)
        kept = sum(1 for _ in (folder / name).iterdir()) if (folder / name).is_dir() else 0
        print(f"{name}: {time.monotonic() - began:.0f} s, {count:,} inputs, corpus of {kept:,}", flush=True)
        if failure is not None:
            print(f"{name}: FAILED, see {folder}\n{failure}", file=sys.stderr)
            return 1
    return 0


def fuzz(name: str, folder: Path, seconds: int, seed: int) -> tuple[int, str | None]:
    """Fuzz one target in processes that follow each other: atheris keeps the result of every comparison of arrays.

    Returns:
        The number of inputs, and the end of what a process wrote that failed.

    """
    count = 0
    for begin in range(0, seconds, _PROCESS_SECONDS):
        length = min(seconds - begin, _PROCESS_SECONDS)
        arguments = [name, str(folder), str(length), str(seed + begin)]
        command = [sys.executable, "-m", "tests.fuzz.decoders_atheris", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        count += sum(int(runs) for runs in re.findall(r"^Done (\d+) runs", done.stderr, re.MULTILINE))
        if done.returncode:
            return count, done.stderr[-4000:]
    return count, None


if __name__ == "__main__":
    sys.exit(main())

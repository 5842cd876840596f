"""One decoder under atheris, in a process that ends with it: see ``decoders.py``."""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

# the whole of it: names of packages within it would mean the same to atheris
with atheris.instrument_imports(include=["barrage_server"]):
    from tests.fuzz.decoders import check, corpus_of


def main(name: str, folder: str, seconds: str, seed: str) -> None:
    corpus = corpus_of(Path(folder), name)
    bounds = ["-malloc_limit_mb=1024", "-rss_limit_mb=2048", "-timeout=10", "-max_len=8192"]
    options = [f"-max_total_time={seconds}", f"-seed={seed}", *bounds]
    atheris.Setup(
        [sys.argv[0], *options, f"-artifact_prefix={folder}/{name}-", str(corpus)], lambda data: check(name, data)
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])

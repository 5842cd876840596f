"""How long an import and the start of a server take, with the page and without."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Final

from benchmarks.process import ROOT, ProcessFailedError

__all__ = ["start_seconds"]

_CODE: Final = """
import barrage_server as bs
with bs.Server(web_port={port}):
    print("open", flush=True)
"""
_PATIENCE_SECONDS: Final = 30.0


def start_seconds(*, with_page: bool) -> float:
    """Seconds from the start of a process until its server is open.

    Raises:
        ProcessFailedError: it does not open.
    """
    code = _CODE.format(port=0 if with_page else None)
    begin = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        took = time.perf_counter() - begin
        process.wait(_PATIENCE_SECONDS)
    finally:
        process.kill()
        process.communicate()
    if said != "open\n":
        raise ProcessFailedError("a server did not start")
    return took

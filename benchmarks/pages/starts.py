"""How long an import and the start of a server take, with the page and without."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from typing import Final

from benchmarks.process import ROOT, ProcessFailedError

__all__ = ["start"]

_CODE: Final = """
import barrage_server as bs
with bs.Server(web_port={port}):
    print("open", flush=True)
"""
_PATIENCE_SECONDS: Final = 30.0


def start(*, with_page: bool) -> tuple[float, float]:
    """Seconds until the server of a process is open, and its processor seconds.

    The processor seconds count until the process has ended.

    Raises:
        ProcessFailedError: it does not open.
    """
    code = _CODE.format(port=0 if with_page else None)
    used, begin = _children(), time.perf_counter()
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
    return took, _children() - used


def _children() -> float:
    """Processor seconds of the processes that this one has waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime

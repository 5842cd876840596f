"""Runs benchmarks, each in a process of its own with a time limit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from benchmarks.figures import Outcome
from benchmarks.process import ROOT

__all__ = ["run_one"]

_GOODBYE_SECONDS: Final = 20.0


def run_one(
    name: str, mode: str, seconds: float, log: Path, tell: Callable[[str], object], rows: Sequence[str] = ()
) -> Outcome:
    """One benchmark, with all the processes that it starts.

    Args:
        name: its name.
        mode: ``full``, ``quick`` or ``tiny``.
        seconds: time limit. Beyond it, the process and its children are ended.
        log: file for its output and that of its servers.
        tell: called with the progress.
        rows: the rows of it that are measured; empty for all.

    Returns:
        Its outcome; after a failure or a time-out, with the error and the figures so far.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    found = Outcome(quick=mode != "full")
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.one", name, mode, *rows],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=ROOT,
            start_new_session=True,  # so that its children can be ended with it
        )
        late = threading.Event()

        def end_it() -> None:
            late.set()
            _end(process)

        timer = threading.Timer(seconds, end_it)
        timer.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                message = json.loads(line)
                if "step" in message:
                    tell(message["step"])
                else:
                    found = Outcome.from_json(message["outcome"])
            code = process.wait()
        finally:
            timer.cancel()
            _end(process)
            process.communicate()
    if late.is_set() or code:
        found.error = f"took more than {seconds:.0f} s" if late.is_set() else _last_words(log)
        found.seconds = time.monotonic() - begin
    return found


def _end(process: subprocess.Popen[str]) -> None:
    """End a process and what it has started, which are a group of their own."""
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, signal_number)
        except ProcessLookupError:
            return
        try:
            process.wait(_GOODBYE_SECONDS if process.poll() is None else 1.0)
        except subprocess.TimeoutExpired:
            continue


def _last_words(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    # the last line of a traceback is not indented; gRPC may write more lines after it
    errors = [line for line in lines if "Error" in line and not line[:1].isspace()]
    return (errors or [line for line in lines if line.strip()] or ["it ended without a word"])[-1]

"""Facts about the machine and its processes."""

from __future__ import annotations

import os
import platform
import resource
import time
from importlib.metadata import version
from pathlib import Path
from typing import Final

__all__ = ["cpu_seconds", "describe", "resident_bytes"]

MIB: Final = 1 << 20
_PROCESS_CLOCK: Final = 2  # CPUCLOCK_SCHED: all threads of the process, user and system


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used so far, all its threads together."""
    # Linux makes the number of a process's clock like this; /proc would tell hundredths of seconds only.
    return time.clock_gettime(~pid << 3 | _PROCESS_CLOCK)


def resident_bytes(pid: int) -> int:
    """Memory of a process that is in RAM now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def describe() -> dict[str, str]:
    """The machine and the versions of the figures."""
    model = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "unknown"
    )
    total = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": model,
        "cores": str(os.cpu_count()),
        "memory": f"{total / MIB:.0f} GiB",
        "python": platform.python_version(),
        **{package: version(package) for package in ("barrage-server", "pyarrow", "numpy", "pyroaring")},
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:  # another system
        return []

"""The allocators that ``serve`` chooses: freed memory serves the next arrays."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

on_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")

PROGRAM = """
import resource
import numpy as np
import pyarrow as pa
from barrage_server.process import choose_allocators

choose_allocators()

def cycle():
    arrays = [np.ones(1 << 18) for _ in range(8)]  # of 2 MB each
    arrays.clear()

for _ in range(3):
    cycle()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    cycle()
print(pa.default_memory_pool().backend_name, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


MESSAGES = """
import resource
from barrage_server.process import keep_freed_memory

if {keeps}:
    assert keep_freed_memory(16 << 20) is not None

def task():
    messages = [bytes(300_000 + number) for number in range(24)]  # as the batches of a Spark task
    messages.clear()

for _ in range(3):
    task()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    task()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


FROZEN = """
import gc
from barrage_server.process import collect_new_objects_only

present, number = len(gc.get_objects()), gc.get_freeze_count()
collect_new_objects_only()
print(number, gc.get_freeze_count() >= present, len(gc.get_objects()) < present // 10)
"""


RETURNED = """
import threading
import numpy as np
from barrage_server.process import choose_allocators, return_memory

def resident():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS"))

def scattered(kept):
    arrays = [np.ones(1 << 13) for _ in range(3000)]  # of 64 kB each
    kept.extend(arrays[::50])

if {chosen}:
    choose_allocators()
kept = []
threads = [threading.Thread(target=scattered, args=(kept,)) for _ in range(4)]
for thread in threads:
    thread.start()
    thread.join()
before = resident()
print(return_memory(), before - resident())
"""


ARENAS = """
import ctypes
import threading
import numpy as np
from barrage_server.process import choose_allocators

choose_allocators()
barrier = threading.Barrier(8)

def allocate():
    barrier.wait(30)
    arrays = [np.ones(1 << 13) for _ in range(100)]  # of 64 kB each
    barrier.wait(30)

threads = [threading.Thread(target=allocate) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
ctypes.CDLL(None).malloc_stats()
"""


def run(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program with no settings of allocators but ``variables``."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_", "ARROW_"))
    }
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


def cycles(**variables: str) -> tuple[str, int]:
    """The pool of Arrow, and the pages of memory that ten cycles, of 4,096 pages each, have written to first."""
    pool, faults = run(PROGRAM, **variables).stdout.split()
    return pool, int(faults)


@on_glibc
def test_freed_memory_serves_the_next_arrays() -> None:
    assert cycles()[1] < 4_096


@on_glibc
@pytest.mark.parametrize("keeps", [True, False])
def test_messages_are_read_into_memory_that_earlier_ones_have_left(keeps: bool) -> None:
    """If it is kept: glibc returns it otherwise."""
    assert (int(run(MESSAGES.replace("{keeps}", str(keeps))).stdout) < 1_000) == keeps


@on_glibc
def test_variables_of_the_environment_take_precedence() -> None:
    pool, faults = cycles(MALLOC_MMAP_THRESHOLD_="65536", ARROW_DEFAULT_MEMORY_POOL="system")
    assert pool == "system"
    assert faults > 30_000


@on_glibc
@pytest.mark.parametrize("chosen", [True, False])
def test_what_was_freed_between_used_blocks_is_returned(chosen: bool) -> None:
    """Unless the process decides for itself."""
    returned, nbytes = run(RETURNED.replace("{chosen}", str(chosen))).stdout.split()
    assert returned == str(chosen)
    assert (int(nbytes) > 64 << 20) == chosen


@on_glibc
@pytest.mark.parametrize(("variables", "most"), [({}, 2), ({"MALLOC_ARENA_MAX": "1"}, 1)], ids=["chosen", "variable"])
def test_threads_share_two_arenas(variables: dict[str, str], most: int) -> None:
    """Or as many as the environment says."""
    found = run(ARENAS, **variables)
    assert 1 <= sum(line.startswith("Arena ") for line in found.stderr.splitlines()) <= most


def test_a_process_that_serves_searches_new_objects_for_garbage_only() -> None:
    run = subprocess.run([sys.executable, "-c", FROZEN], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.split() == ["0", "True", "True"]

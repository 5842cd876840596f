"""A kernel that dies, by whatever cause, leaves nothing on the server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import barrage_server as bs
from tests.waiting import until

ROOT = Path(__file__).parents[2]
KERNEL = """
import sys, time
import barrage_server as bs
from tests.notebook.browser import installed, looking, opened

with installed():
    client = bs.connect(sys.argv[1])
    widgets = [client.subscribe("t").widget(), client.table("t").where("k > 1").widget()]
    for widget in widgets:
        for name in ("one", "other"):
            page = looking(widget, name)
            page.settle(opened(page, widget), lambda it: it.updates)
    local = bs.show({"k": [1, 2]})
    page = looking(local)
    page.settle(opened(page, local), lambda it: it.updates)
    print("looking", flush=True)
    if sys.argv[2] == "waits":
        sys.stdin.read()
"""


def kernel(server: bs.Server, does: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", KERNEL, server.uri, does],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'generated'}", "PATH": "/usr/bin:/bin"},
    )


@pytest.mark.parametrize("front", ["pyarrow", "grpc"])
def test_a_kernel_that_is_killed_leaves_nothing(front: str) -> None:
    with bs.Server(front=front) as server:
        server.append_table("t", {"k": "int64"}).append({"k": [1, 2, 3]})
        with kernel(server, "waits") as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "looking\n"
            assert len(server.statistics().subscriptions) == 5
            process.kill()
            until(lambda: not server.statistics().streams)
        until(lambda: not server.statistics().results)


def test_a_kernel_that_ends_with_widgets_open_ends_at_once_and_leaves_nothing() -> None:
    with bs.Server() as server:
        server.append_table("t", {"k": "int64"}).append({"k": [1, 2, 3]})
        with kernel(server, "ends") as process:
            _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
        until(lambda: not server.statistics().streams)

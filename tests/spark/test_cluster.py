"""A standalone cluster: a master and two workers in processes of their own, with and without this package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

import barrage_server as bs
from tests.spark.daemons import Daemon

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

ROOT: Final = Path(__file__).parents[2]
JOB: Final = Path(__file__).with_name("cluster_job.py")
# Knows of no virtual environment.
BARE_PYTHON: Final = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
_SECONDS: Final = 300.0


@dataclass
class Cluster:
    """Where to submit to, and a Python that only one of the two workers has the package for."""

    master: str
    mixed_python: Path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    mixed = folder / "python"
    mixed.write_text(f'#!/bin/sh\nif [ -n "$LACKS" ]; then exec {BARE_PYTHON} "$@"; fi\nexec {sys.executable} "$@"\n')
    mixed.chmod(0o755)
    daemons = [Daemon("master.Master")]
    try:
        master = "spark://" + daemons[0].line_with("Starting Spark master at spark://").rsplit("spark://", 1)[1].strip()
        for number, environment in enumerate(({}, {"LACKS": "1"})):
            work = str(folder / f"work-{number}")
            resources = ("--cores", "1", "--memory", "640m", "--work-dir", work)
            daemons.append(Daemon("worker.Worker", *resources, master, **environment))
        for worker in daemons[1:]:
            worker.line_with("Successfully registered with master")
        yield Cluster(master, mixed)
    finally:
        for daemon in reversed(daemons):
            daemon.close()
        shutil.rmtree(folder, ignore_errors=True)


def run(cluster: Cluster, server: bs.Server, way: str, *more: str, python: Path, path: str = "") -> dict[str, Any]:
    """Run the job with ``python`` for its workers, and ``path`` as their PYTHONPATH."""
    own = os.pathsep.join([str(ROOT), str(ROOT / "generated")])
    done = subprocess.run(
        [sys.executable, str(JOB), cluster.master, server.uri, "t", way, *more],
        env=os.environ
        | {
            "PYSPARK_PYTHON": str(python),
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYTHONPATH": own,
            "PYSPARK_SUBMIT_ARGS": f"--conf spark.executorEnv.PYTHONPATH={path} pyspark-shell",
        },
        stdout=subprocess.PIPE,
        text=True,
        timeout=_SECONDS,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    assert answer["executors"] == 2
    return answer


def rows(server: bs.Server) -> list[int]:
    """The numbers that table ``t`` has."""
    return sorted(server.table("t").to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("way", ["executors", "auto"])
def test_workers_with_the_package_send_their_rows(cluster: Cluster, server: bs.Server, way: str) -> None:
    answer = run(cluster, server, way, python=Path(sys.executable), path=str(ROOT))
    assert answer["error"] == ""
    assert answer["said"] == []
    assert rows(server) == list(range(1000))


def test_without_the_package_auto_goes_through_the_driver_and_says_what_to_do(
    cluster: Cluster, server: bs.Server
) -> None:
    answer = run(cluster, server, "auto", python=BARE_PYTHON)
    assert answer["error"] == ""
    (said,) = answer["said"]
    assert "Spark's workers cannot import barrage_server" in said
    assert "No module named 'barrage_server'" in said
    assert "PYSPARK_PYTHON" in said
    assert "add_package(spark)" in said
    assert "\n" not in said
    assert rows(server) == list(range(1000))


def test_without_the_package_shipping_from_the_executors_is_refused_with_the_remedy(
    cluster: Cluster, server: bs.Server
) -> None:
    answer = run(cluster, server, "executors", python=BARE_PYTHON)
    assert answer["error"].startswith("DependencyError: Spark's workers cannot import barrage_server")
    assert "add_package(spark)" in answer["error"]
    assert [table.name for table in server.tables()] == []


def test_workers_with_pyarrow_alone_are_given_the_package(cluster: Cluster, server: bs.Server) -> None:
    answer = run(cluster, server, "executors", "add", python=BARE_PYTHON, path=sysconfig.get_path("purelib"))
    assert answer["error"] == ""
    assert answer["said"] == []
    assert rows(server) == list(range(1000))


def test_workers_with_pyarrow_alone_lack_the_package_until_then(cluster: Cluster, server: bs.Server) -> None:
    """What the test above proves nothing without."""
    answer = run(cluster, server, "executors", python=BARE_PYTHON, path=sysconfig.get_path("purelib"))
    assert "No module named 'barrage_server'" in answer["error"]


@pytest.mark.parametrize("tries", [(), ("once",)], ids=["again", "once"])
def test_where_one_worker_lacks_the_package_auto_publishes_each_row_once(
    cluster: Cluster, server: bs.Server, tries: tuple[str, ...]
) -> None:
    """Spark tries a task that has failed there again, on the other worker mostly. Then, or else, the driver sends."""
    answer = run(cluster, server, "auto", *tries, python=cluster.mixed_python)
    assert answer["error"] == ""
    assert rows(server) == list(range(1000))
    assert len(answer["said"]) == 1 or not tries
    for said in answer["said"]:
        assert "No module named" in said
        assert "Meanwhile batches go through the driver." in said


def test_where_one_worker_lacks_the_package_executors_is_refused_and_nothing_is_visible(
    cluster: Cluster, server: bs.Server
) -> None:
    answer = run(cluster, server, "executors", "once", python=cluster.mixed_python)
    assert answer["error"].startswith("DependencyError: Spark's workers cannot import barrage_server")
    assert [table.name for table in server.tables()] == []

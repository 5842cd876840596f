"""The project as a whole: versions, pins, public names."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import barrage_server as bs

from .markdown import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LAST_LONG_SUBJECT = "1c3ca8ff5fe982986a2994f02bdd07a1a2b6035f"
"""The last commit with a subject of more than 72 characters."""
PINS = {
    path.stem: dict(
        line.lower().split("==") for line in path.read_text().splitlines() if line and not line.startswith("#")
    )
    for path in (ROOT / "requirements").glob("*.txt")
    if not path.name.startswith(("interop-", "bench-"))  # environments of their own
}


def _names(requirements: list[str]) -> list[str]:
    """The names that they are about, whose upper and lower case is the same to indexes."""
    return [re.split(r"[<>=!~\[ ]", requirement)[0].lower() for requirement in requirements]


def test_the_version_is_said_once() -> None:
    assert PROJECT["version"] == bs.__version__


def test_every_dependency_has_a_lower_bound_and_a_pin() -> None:
    needed = {"server": PROJECT["dependencies"], "spark": PROJECT["optional-dependencies"]["spark"]}
    for which, requirements in needed.items():
        assert all(">=" in requirement for requirement in requirements)
        assert set(_names(requirements)) <= set(PINS[which])


def test_after_the_demo_every_front_end_of_the_readme_is_installed() -> None:
    """`make demo` leaves the program behind, and the README's snippets use Spark and Deephaven's port."""
    sets = dict(
        re.findall(r"^(env|demo-env):.*\n\t@scripts/make-env \$\(VENV\) (.*)$", (ROOT / "Makefile").read_text(), re.M)
    )
    other = {"compiled", "notebook"}  # extras that the demo has no use for
    assert sets["demo-env"].split() == [name for name in sets["env"].split() if name not in {*other, "dev"}]
    assert {"server", *PROJECT["optional-dependencies"]} == {*sets["demo-env"].split(), *other}
    for extra, requirements in PROJECT["optional-dependencies"].items():
        assert set(_names(requirements)) <= set(PINS[extra])


def test_no_package_is_pinned_twice() -> None:
    every = [name for pins in PINS.values() for name in pins]
    assert len(every) == len(set(every))


def test_no_file_names_an_index_or_a_folder_of_somebodys_machine() -> None:
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, timeout=30, check=False).stdout
    hosts = re.compile(
        rb"(pypi|pythonhosted|debian|npmjs)\.(org|com|net)|--(extra-)?index-url|(^|[\s\"'=])/(root|Users|work)/"
    )
    for name in tracked.decode().split("\0"):
        path = ROOT / name
        if name and path.is_file() and path.suffix not in {".bin", ".svg"} and path != Path(__file__):
            assert not hosts.search(path.read_bytes()), name


def test_subjects_of_commits_have_a_room_and_72_characters() -> None:
    """Since the last one that had more, where the history is there."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    asked = [git, "log", "--no-merges", "--format=%s", f"{LAST_LONG_SUBJECT}..HEAD"]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode:
        pytest.skip("the history is not there")
    subjects = done.stdout.splitlines()
    assert [subject for subject in subjects if len(subject) > 72] == []
    assert [subject for subject in subjects if not re.match(r"[\w, ]+: \S", subject)] == []


def test_the_documents_have_the_figures_of_the_last_full_run() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "figures", "--check"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_public_names_are_sorted_complete_and_documented() -> None:
    assert bs.__all__ == sorted(bs.__all__, key=lambda name: (not name.isupper(), name))  # constants first
    for name in bs.__all__:
        value = getattr(bs, name)
        if isinstance(value, type) or callable(value):
            assert value.__doc__, name


def test_make_help_lists_every_verb() -> None:
    done = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)
    for verb in (
        "env",
        "demo",
        "test",
        "interop",
        "style",
        "types",
        "generate",
        "bench",
        "bench-check",
        "docker-check",
        "lower-bounds",
        "clean",
    ):
        assert re.search(rf"^  {verb} +\S", done.stdout, re.MULTILINE), verb

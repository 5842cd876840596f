"""What is said when an optional package is missing: the packages by their right names, and a command that is true."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from barrage_server.extras import missing_extra

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
ERROR = ModuleNotFoundError("No module named 'google'", name="google")


def without(monkeypatch: pytest.MonkeyPatch, *absent: str) -> None:
    installed = metadata.distribution

    def distribution(name: str) -> metadata.Distribution:
        if name in absent:
            raise metadata.PackageNotFoundError(name)
        return installed(name)

    monkeypatch.setattr(metadata, "distribution", distribution)


@pytest.mark.parametrize("extra", EXTRAS)
def test_everything_missing_is_listed_with_its_bounds(monkeypatch: pytest.MonkeyPatch, extra: str) -> None:
    without(monkeypatch, *(requirement.partition(">=")[0] for requirement in EXTRAS[extra]))
    text = str(missing_extra("This needs", extra, ERROR))
    assert "\n" not in text
    assert "google" not in text
    command = text.partition(". Run: ")[2]
    assert command.startswith("pip install ")
    assert set(re.findall(r"'([^']+)'", command)) == set(EXTRAS[extra])


def test_only_what_is_missing_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "grpcio-reflection")
    bound = next(requirement for requirement in EXTRAS["deephaven"] if requirement.startswith("grpcio-reflection"))
    assert str(missing_extra("This needs", "deephaven", ERROR)) == (
        f"This needs grpcio-reflection, which is not installed. Run: pip install '{bound}'"
    )


def test_packages_that_do_not_fit_are_upgraded() -> None:
    error = ImportError("cannot import name 'DataSourceArrowWriter'", name="pyspark.sql.datasource")
    text = str(missing_extra("This needs", "spark", error))
    assert "cannot import name 'DataSourceArrowWriter'" in text
    assert "pip install --upgrade " in text


def test_sources_that_are_not_installed_name_the_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    def requires(_name: str) -> list[str]:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "requires", requires)
    assert str(missing_extra("This needs", "deephaven", ERROR)).endswith(
        "Run: pip install '.[deephaven]' in a clone of the repository."
    )


def test_no_file_tells_of_an_index_that_has_this_package() -> None:
    """It is on none: what installs it is a path, or a clone."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, timeout=30, check=True).stdout
    told = re.compile(rb"pip install\s+(-\S+\s+)*['\"]?barrage[-_]server")
    for name in tracked.decode().split("\0"):
        path = ROOT / name
        if name and path.is_file() and path.suffix != ".bin":
            assert not told.search(path.read_bytes()), name

"""Benchmarks in processes of their own: they end in time, and one that fails leaves the others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.names import OURS
from benchmarks.runner import run_one
from benchmarks.targets import TARGETS
from benchmarks.works import WORKS


def test_one_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    outcome = run_one("doget", "full", 0.3, tmp_path / "log", lambda _: None)
    assert outcome.error == "took more than 0 s"
    assert not outcome.figures
    assert outcome.seconds < 60


def test_one_that_fails_leaves_its_last_words(tmp_path: Path) -> None:
    outcome = run_one("no such benchmark", "tiny", 60, tmp_path / "log", lambda _: None)
    assert "KeyError" in outcome.error


def _shape(text: str) -> str:
    """A name without the sizes in it, which are others in a small run."""
    return re.sub(r"[\d,.]+", "#", text)


_MARKS = {"spark": [pytest.mark.spark], "web": [pytest.mark.browser]}


@pytest.mark.slow
@pytest.mark.timeout(330)
@pytest.mark.parametrize("name", [pytest.param(name, marks=_MARKS.get(name, [])) for name in WORKS])
def test_each_measures_what_the_targets_name(name: str, tmp_path: Path) -> None:
    steps: list[str] = []
    outcome = run_one(name, "tiny", 300, tmp_path / "log", steps.append)
    assert not outcome.error
    assert outcome.quick
    measured = {(_shape(figure.work), figure.what) for figure in outcome.figures if figure.system == OURS}
    wanted = {(_shape(target.work), target.what) for target in TARGETS if target.benchmark == name}
    assert wanted <= measured
    assert all(figure.value >= 0 or figure.what == "exponent" for figure in outcome.figures)
    assert steps

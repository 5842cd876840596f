"""Comparing results with the targets."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from benchmarks import check
from benchmarks.check import judge
from benchmarks.figures import Figure, Outcome, Results
from benchmarks.names import DEEPHAVEN, OURS
from benchmarks.targets import TARGETS, Target
from benchmarks.works import WORKS

RATE = Target("append", "append", "rate", at_least=10.0)
TIME = Target("append", "append", "time", at_most=2.0)
BESIDE = Target("append", "append", "rate", at_least=2.0, beside=DEEPHAVEN)


def _results(ours: float, theirs: float | None = None, time: float = 1.0) -> Results:
    figures = [Figure("append", "rate", OURS, ours, "rows/s", "more"), Figure("append", "time", OURS, time, "s")]
    if theirs is not None:
        figures.append(Figure("append", "rate", DEEPHAVEN, theirs, "rows/s", "more"))
    return Results(outcomes={"append": Outcome(figures)})


@pytest.mark.parametrize(
    ("target", "results", "met", "text"),
    [
        (RATE, _results(10.0), True, "met"),
        (RATE, _results(9.0), False, "falls short by 10%"),
        (TIME, _results(1.0, time=2.0), True, "met"),
        (TIME, _results(1.0, time=3.0), False, "falls short by 50%"),
        (BESIDE, _results(10.0, 5.0), True, "met"),
        (BESIDE, _results(10.0, 10.0), False, "falls short by 50%"),
    ],
)
def test_a_bound_holds_for_the_figure_or_for_the_ratio(target: Target, results: Results, met: bool, text: str) -> None:
    (verdict,) = judge(results, [target])
    assert (verdict.is_met, verdict.text) == (met, text)


def test_what_was_not_measured_is_not_met_and_says_why() -> None:
    (missing,) = judge(Results(), [RATE])
    assert not missing.is_met
    assert "make bench ONLY=append" in missing.text
    failed = Results(outcomes={"append": Outcome(error="took more than 3 s")})
    assert judge(failed, [RATE])[0].text == "not measured: took more than 3 s"
    alone = _results(10.0)
    alone.outcomes["append"].notes.append("Deephaven: it is not installed")
    assert judge(alone, [BESIDE])[0].text == "not measured: Deephaven: it is not installed"


def test_the_command_ends_with_one_when_something_falls_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "TARGETS", (RATE, Target("doget", "DoGet", "time", at_most=1.0)))
    app = typer.Typer()
    app.command()(check.main)
    path = tmp_path / "results.json"
    run = CliRunner().invoke
    assert run(app, ["--results", str(path)]).exit_code == 2
    _results(11.0).save(path)
    done = run(app, ["--results", str(path)])
    assert done.exit_code == 1
    assert "1 of 2 targets are met, 0 fall short, 1 were not measured." in " ".join(done.output.split())
    assert run(app, ["--results", str(path), "--only", "append"]).exit_code == 0
    _results(9.0).save(path)
    assert run(app, ["--results", str(path), "--only", "append"]).exit_code == 1


def test_every_target_has_a_bound_and_a_benchmark() -> None:
    for target in TARGETS:
        assert target.benchmark in WORKS
        assert (target.at_least is None) != (target.at_most is None)
        assert target.text
    assert len({(target.work, target.what, target.beside) for target in TARGETS}) == len(TARGETS)

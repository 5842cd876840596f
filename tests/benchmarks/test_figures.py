"""Figures and their files: what is kept, and how a ratio is meant."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.figures import PERCENTILES, Figure, Outcome, Results, distribution
from benchmarks.names import BARE, DEEPHAVEN, OURS
from benchmarks.report import as_markdown, as_table, failures


def test_a_figure_is_the_median_of_its_repeats() -> None:
    figure = Figure.of("work", "time", OURS, [3.0, 1.0, 2.0], "s")
    assert (figure.value, figure.spread, figure.repeats) == (2.0, (1.0, 3.0), 3)
    assert Figure.of("work", "time", OURS, [3.0], "s").spread is None


@pytest.mark.parametrize(("better", "theirs", "ratio"), [("less", 6.0, 3.0), ("more", 1.0, 2.0)])
def test_a_ratio_above_one_means_that_this_project_is_ahead(better: str, theirs: float, ratio: float) -> None:
    ours = Figure("work", "figure", OURS, 2.0, "", better)
    other = Figure("work", "figure", DEEPHAVEN, theirs, "", better)
    results = Results(outcomes={"one": Outcome([ours, other])})
    assert results.ratio(other) == ratio
    assert results.ratio(ours) is None


def test_there_is_no_ratio_of_what_is_neither_good_nor_bad_or_was_not_measured_here() -> None:
    alone = Figure("work", "figure", BARE, 1.0, "s")
    neither = [Figure("size", "bytes", system, 1.0, "bytes", "") for system in (OURS, BARE)]
    zero = [Figure("idle", "cores", OURS, 0.0, "cores"), Figure("idle", "cores", BARE, 1.0, "cores")]
    results = Results(outcomes={"one": Outcome([alone, *neither, *zero])})
    assert [results.ratio(figure) for figure in results.figures] == [None] * 5


def test_a_file_keeps_everything(tmp_path: Path) -> None:
    figure = Figure("work", "p50", OURS, 1.0, "ms", "less", (0.5, 2.0), 3, distribution([1.0, 2.0]), [(10.0, 1.0)])
    outcome = Outcome([figure], 12.5, True, "", ["Deephaven: not there"], {"Deephaven": "42.7"})
    written = Results({"cores": "2"}, {"one": outcome, "two": Outcome(error="it failed")})
    written.save(tmp_path / "below" / "results.json")
    read = Results.load(tmp_path / "below" / "results.json")
    assert read.machine == written.machine
    assert read.outcomes["two"] == written.outcomes["two"]
    assert read.outcomes["one"].figures[0].spread == (0.5, 2.0)
    assert read.outcomes["one"].notes == outcome.notes
    assert Results.load(tmp_path / "none.json") == Results()


def test_a_report_has_every_figure_every_note_and_every_failure() -> None:
    pair = [Figure("DoGet", "time", system, value, "s") for system, value in ((OURS, 1.0), (DEEPHAVEN, 5.0))]
    outcomes = {"doget": Outcome(pair, 3.0, notes=["Perspective: not there"]), "append": Outcome(error="too late")}
    results = Results({"cores": "2"}, outcomes)
    page = as_markdown(results)
    assert "| DoGet | time | Deephaven | 5 s |  | 5.00 |" in page
    assert "Failed: too late" in page
    assert "- Perspective: not there" in page
    assert as_table(results).row_count == 2
    assert list(failures(results)) == ["doget: Perspective: not there", "append: too late"]


def test_a_distribution_has_one_value_per_percentile() -> None:
    values = distribution(np.arange(1001.0))
    assert len(values) == len(PERCENTILES)
    assert values[PERCENTILES.index(50)] == 500.0

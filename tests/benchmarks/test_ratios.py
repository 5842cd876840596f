"""Ratios to other systems, as a table and as a picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from benchmarks.figures import Figure, Outcome, Results
from benchmarks.names import BARE, DEEPHAVEN, OURS, PERSPECTIVE
from benchmarks.ratios import Comparison, as_lines, as_picture, compared

SVG = "{http://www.w3.org/2000/svg}"
DOGET = Comparison("DoGet", "time", {BARE: 0.5, DEEPHAVEN: 6.125})
APPEND = Comparison("append", "sustained & received", {DEEPHAVEN: 2.0, PERSPECTIVE: 17_289.9})


def test_figures_that_no_target_names_are_left_out() -> None:
    values = {OURS: 1.0, DEEPHAVEN: 5.0, BARE: 0.5}
    figures = [
        Figure(work, "time", system, value, "s") for work in ("DoGet", "other") for system, value in values.items()
    ]
    assert compared(Results(outcomes={"one": Outcome(figures)})) == [
        Comparison("DoGet", "time", {DEEPHAVEN: 5.0, BARE: 0.5})
    ]


def test_a_line_has_a_cell_for_each_peer_and_names_the_others() -> None:
    assert as_lines([DOGET, APPEND])[2:] == [
        "| DoGet | time | 6.12 × |  | 0.50 × bare Flight |",
        "| append | sustained & received | 2.00 × | 17,290 × |  |",
    ]


def test_the_picture_has_every_name_and_every_ratio() -> None:
    drawn = ET.fromstring(as_picture([DOGET, APPEND]))
    texts = [element.text for element in drawn.iter(f"{SVG}text")]
    assert texts[-7:] == [
        "DoGet: time",
        "6.12 ×",
        "DoGet: time, beside bare Flight",
        "0.50 ×",
        "append: sustained & received",
        "2.00 ×",
        "17,290 ×",
    ]


@pytest.mark.parametrize(("ratio", "side"), [(4.0, "right"), (0.5, "left"), (1.0, "right")])
def test_a_bar_goes_to_the_right_where_this_project_is_ahead(ratio: float, side: str) -> None:
    drawn = ET.fromstring(as_picture([Comparison("work", "time", {DEEPHAVEN: ratio})]))
    (one,) = (float(line.attrib["x1"]) for line in drawn.iter(f"{SVG}line") if line.attrib["stroke"] == "#000000")
    bar = list(drawn.iter(f"{SVG}rect"))[-1]
    begin = float(bar.attrib["x"])
    end = begin + float(bar.attrib["width"])
    near, far = (begin, end) if side == "right" else (end, begin)
    assert near == pytest.approx(one, abs=0.2)
    assert (far > one) == (side == "right")


def test_no_bar_leaves_the_axis() -> None:
    bars = []
    for ratio in (1e-9, 64.0, 1e9):
        drawn = ET.fromstring(as_picture([Comparison("work", "time", {DEEPHAVEN: ratio})]))
        bar = list(drawn.iter(f"{SVG}rect"))[-1]
        bars.append((float(bar.attrib["x"]), float(bar.attrib["x"]) + float(bar.attrib["width"])))
    lines = [float(line.attrib["x1"]) for line in drawn.iter(f"{SVG}line")]
    assert all(lines[0] <= begin <= end <= lines[-1] + 0.1 for begin, end in bars)
    assert bars[1] == bars[2]

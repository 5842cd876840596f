"""The comparison with other systems as ratios: a table, and a picture."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Final

from benchmarks.figures import Results
from benchmarks.names import DEEPHAVEN, PERSPECTIVE
from benchmarks.targets import TARGETS

__all__ = ["Comparison", "as_lines", "as_picture", "compared"]

# Beside what the targets name, worth a line.
_MORE: Final = {
    ("row written to row received, 1 ms interval", "p50"),
    ("start-up", "to first byte"),
    ("memory, append table", "process"),
}
_PEERS: Final = (DEEPHAVEN, PERSPECTIVE)
_COLOURS: Final = {DEEPHAVEN: "#d55e00", PERSPECTIVE: "#009e73"}
_OTHERS: Final = "others"
_OTHER_COLOUR: Final = "#666666"

# Pixels of the picture: names of the works, then bars, then the ratios as numbers.
_NAMES: Final = 430
_BARS: Final = 270
_NUMBER: Final = 86
_ROW: Final = 17
_HEAD: Final = 58
_LEAST, _MOST = 0.25, 64.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure of one work beside those of other systems.

    Attributes:
        work: what was done.
        what: name of the figure.
        ratios: by how much this project is better, by system; above 1 it is ahead.
    """

    work: str
    what: str
    ratios: dict[str, float]

    @property
    def others(self) -> dict[str, float]:
        """The ratios to systems other than Deephaven and Perspective."""
        return {system: ratio for system, ratio in self.ratios.items() if system not in _PEERS}


def compared(results: Results) -> list[Comparison]:
    """Every figure of a target that another system has too, in their order."""
    wanted = _MORE | {(target.work, target.what) for target in TARGETS}
    found: dict[tuple[str, str], dict[str, float]] = {}
    for figure in results.figures:
        ratio = results.ratio(figure)
        if ratio is not None and (figure.work, figure.what) in wanted:
            found.setdefault((figure.work, figure.what), {})[figure.system] = ratio
    return [Comparison(work, what, ratios) for (work, what), ratios in found.items()]


def as_lines(comparisons: list[Comparison]) -> list[str]:
    """A table of Markdown, a line for each."""
    lines = [f"| work | figure | {DEEPHAVEN} | {PERSPECTIVE} | {_OTHERS} |", "|---|---|---:|---:|---|"]
    for each in comparisons:
        peers = [_times(each.ratios[peer]) if peer in each.ratios else "" for peer in _PEERS]
        others = ", ".join(f"{_times(ratio)} {system}" for system, ratio in each.others.items())
        lines.append(f"| {each.work} | {each.what} | {peers[0]} | {peers[1]} | {others} |")
    return lines


def as_picture(comparisons: list[Comparison]) -> str:
    """An SVG file with a bar for each ratio.

    A bar goes from 1 to the right where this project is ahead, else to the left.

    The axis is logarithmic. A bar that would leave it ends at its edge; the number says how long it is.
    """
    rows = [row for each in comparisons for row in _rows(each)]
    parts = [part for place, row in enumerate(rows) for part in _row(*row, _HEAD + place * _ROW)]
    top = _HEAD + len(rows) * _ROW
    width, height = _NAMES + _BARS + 2 * _NUMBER + 20, top + 12
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        ' font-family="system-ui, sans-serif" font-size="11.5">',
        "<title>How many times better than other systems this project does the same work</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *_axis(height - 8),
    ]
    return "\n".join([*head, *parts, "</svg>", ""])


def _rows(each: Comparison) -> Iterator[tuple[str, dict[str, float]]]:
    """Names and ratios: rows for Deephaven and Perspective, and one per other system."""
    name = f"{each.work}: {each.what}"
    peers: dict[str, float] = {peer: each.ratios[peer] for peer in _PEERS if peer in each.ratios}
    if peers:
        yield name, peers
    for system, ratio in each.others.items():
        yield f"{name}, beside {system}", {system: ratio}


def _row(name: str, ratios: dict[str, float], top: int) -> Iterator[str]:
    """The name, the bars and the numbers of a row, whose highest pixel is given."""
    yield f'<text x="{_NAMES - 8}" y="{top + 12}" text-anchor="end">{escape(name)}</text>'
    thick = 12 / len(ratios)
    for place, (system, ratio) in enumerate(ratios.items()):
        colour = _COLOURS.get(system, _OTHER_COLOUR)
        left, right = sorted((_place(1.0), _place(ratio)))
        size = f'width="{max(right - left, 1.5):.1f}" height="{thick - 1:.1f}"'
        yield f'<rect x="{left:.1f}" y="{top + 2 + place * thick:.1f}" {size} fill="{colour}"/>'
        end = _NAMES + _BARS + _NUMBER * (1 + (system == PERSPECTIVE))
        yield f'<text x="{end}" y="{top + 12}" text-anchor="end" fill="{colour}">{_times(ratio)}</text>'


def _axis(bottom: int) -> Iterator[str]:
    """The heads of the columns, and a line for each power of two."""
    for column, system in enumerate(_PEERS, start=1):
        right = _NAMES + _BARS + _NUMBER * column
        yield f'<text x="{right}" y="22" text-anchor="end" font-weight="600" fill="{_COLOURS[system]}">{system}</text>'
    yield f'<text x="{_NAMES - 8}" y="22" text-anchor="end" font-weight="600">the same work, times better</text>'
    for step in (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64):
        x = _place(step)
        colour = "#000000" if step == 1 else "#dddddd"
        yield f'<text x="{x:.1f}" y="46" text-anchor="middle" fill="#555555">{step:g}</text>'
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="52" y2="{bottom}" stroke="{colour}"/>'


def _place(ratio: float) -> float:
    """Where a ratio lies on the axis, in pixels from the left."""
    share = math.log(min(max(ratio, _LEAST), _MOST) / _LEAST) / math.log(_MOST / _LEAST)
    return _NAMES + share * _BARS


def _times(ratio: float) -> str:
    """A ratio as people read it: three digits, or all before the point."""
    return f"{ratio:,.0f} ×" if ratio >= 100 else f"{ratio:.3g} ×" if ratio >= 10 else f"{ratio:.2f} ×"

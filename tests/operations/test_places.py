"""Errors of formulas tell the place in all that the user wrote, with the name that is assigned to."""

from __future__ import annotations

import re

import pytest

from barrage_server.engine import AppendTable, UpdateGraph
from barrage_server.errors import InvalidRequestError, LimitError, UnknownColumnError
from barrage_server.operations import formulas
from barrage_server.plan import agg, updateby

PLACES = [
    # tokens
    ("Total = n + #", 13, "'#'"),
    ("Total = n + 12ab", 13, "neither a number nor a name"),
    ("Total = n + `a", 13, "closing `"),
    ("Total = `\ud800`", 10, "surrogate"),
    # syntax
    ("Total = n +", 12, "ends"),
    ("Total =   n +  ", 14, "ends"),
    ("  Total = n )", 13, "closes nothing"),
    ("Total = n n", 11, "'n'"),
    ("Total = 99999999999999999999", 9, "64 bits"),
    ("Total = new X()", 9, "make no objects"),
    ("Total = " + "(" * 70 + "n" + ")" * 70, 73, "formula_depth"),
    # names
    ("Total = n + mm", 13, "no column 'mm'"),
    ("Total=nope(n)", 7, "no function 'nope'"),
    ("Total = s.nope()", 11, "no method 'nope'"),
    ("mm", 1, "no column 'mm'"),
    (" mm ", 2, "no column 'mm'"),
    # types and values
    ("Total = n + (n - true)", 16, "does not take"),
    ("Total = (int)s", 9, "cannot be cast"),
    ("Total = s ? 1 : 2", 11, "takes a condition"),
    ("Total = s.repeat(-1)", 11, "is repeated"),
    ("Total = randomInt(5, 1)", 9, "below the second"),
    # assignments
    ("Tot al = n", 5, "must be a '='"),
    ("Total =", 8, "no formula"),
]


@pytest.mark.parametrize(("formula", "place", "word"), PLACES, ids=[formula[:24] for formula, _, _ in PLACES])
def test_errors_tell_the_place_in_what_was_written(formula: str, place: int, word: str) -> None:
    """The text that they quote is all that was written, too."""
    table = AppendTable(UpdateGraph(), "t", {"n": "int64", "s": "string"})
    for operation in (formulas.update, formulas.view, formulas.select):
        with pytest.raises((InvalidRequestError, LimitError)) as caught:
            operation([table], ["m = n", formula])
        told, _, quoted = str(caught.value).rpartition(f"This is at character {place} of the formula: ")
        assert word in told
        before, _, behind = quoted.partition("»")
        assert formula[max(place - 31, 0) : place - 1] == before.removeprefix("...")
        assert formula[place - 1 :].startswith(behind.removesuffix("..."))


@pytest.mark.parametrize("spaces", ["", "   "])
def test_formulas_of_groups_and_windows_tell_it_too(spaces: str) -> None:
    table = AppendTable(UpdateGraph(), "t", {"n": "int64", "s": "string"})
    text = f"{spaces}Total = sum(n) + mm"
    told = re.escape(f"This is at character {len(text) - 1} of the formula: {text[:-2]}»mm")
    with pytest.raises(UnknownColumnError, match=told):
        table.agg_by(agg.formula(text), "s")
    with pytest.raises(UnknownColumnError, match=told):
        table.update_by(updateby.rolling_formula_tick(text, rev_ticks=3), "s")
    with pytest.raises(UnknownColumnError, match=r"at character 5 of the formula: sum\(»mm\)"):
        table.agg_by(agg.formula("sum(mm)", "each", "n"), "s")

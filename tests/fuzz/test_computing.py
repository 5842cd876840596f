"""Formulas, plans and batches, changed at random and computed; ``make fuzz-computing`` does so with many more."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from barrage_server.operations.where import FilteredRows
from tests.fuzz.computing import KINDS, Computing, FaultError, changed, check, inputs, seeds
from tests.fuzz.kept import kept


@pytest.mark.parametrize("kind", KINDS)
def test_changed_inputs_give_a_result_or_an_error_of_ours(kind: str, computing: Computing) -> None:
    valid = [*seeds(kind), *kept(kind)]
    for data in islice(changed(kind, valid, random.Random(11)), 1000):
        check(computing, kind, data)


@pytest.mark.parametrize("kind", KINDS)
def test_most_seeds_are_valid(kind: str, computing: Computing) -> None:
    """Otherwise what is changed is refused at once, and shows nothing."""
    valid = seeds(kind)
    assert sum(check(computing, kind, data) for data in valid) > 0.6 * len(valid)


def test_a_fault_is_noticed(computing: Computing, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of none of our classes, wherever it comes from: while a table is computed, and in a later cycle."""

    def broken(*_: object) -> object:
        raise ZeroDivisionError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(FilteredRows, "follow", broken)
        with pytest.raises(FaultError, match="ZeroDivisionError"):
            check(computing, "formula", b"price > 2")
    with monkeypatch.context() as patch:
        patch.setattr(FilteredRows, "start", broken)
        with pytest.raises((FaultError, ZeroDivisionError)):
            check(computing, "formula", b"price > 3")


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_begins_with_the_seeds_and_what_is_kept(kind: str) -> None:
    begin = [*seeds(kind), *kept(kind)]
    made = list(inputs(kind, len(begin) + 20, 1))
    assert made[: len(begin)] == begin
    assert set(made[len(begin) :]) - set(begin)
    assert list(inputs(kind, len(begin) + 20, 1)) == made
    assert list(inputs(kind, 3, 1)) == begin[:3]

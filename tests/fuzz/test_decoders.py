"""Every decoder reads its seeds, and some changed ones; ``make fuzz-decoders`` looks for more with atheris."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.decoders import TARGETS, change, check, seeds


@pytest.mark.parametrize("name", TARGETS)
def test_changed_bytes_give_a_value_or_an_error_of_ours(name: str) -> None:
    chance = random.Random(name)
    valid = seeds(name)
    for data in valid:
        check(name, data)
    for _ in range(1500):
        check(name, change(chance.choice(valid), chance))


@pytest.mark.parametrize("name", ["row_set", "shift_data", "upload", "journal", "plan"])
def test_seeds_are_valid(name: str) -> None:
    """Otherwise what is changed is refused at once, and shows nothing."""
    for data in seeds(name):
        TARGETS[name](data)

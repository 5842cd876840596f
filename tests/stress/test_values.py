"""What the stress draws comes in with the same cells: in plain form, in storage, and in any encoding of itself."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from barrage_server.engine.storage import from_storage, to_storage
from barrage_server.engine.types import normalise
from barrage_server.wire.intake import Intake
from tests.stress.cells import cells
from tests.stress.values import encoded_type, random_array, random_type


@pytest.mark.parametrize("seed", range(150))
def test_no_layout_and_no_encoding_changes_a_cell(seed: int) -> None:
    chance = random.Random(seed)
    plain = random_type(chance)
    given = random_array(chance, encoded_type(chance, plain, chance.choice([0.2, 0.5, 0.9])), chance.randrange(1, 20))
    batch = pa.record_batch([given], ["x"])
    taken = Intake(batch.schema).take(batch).column(0)
    assert (taken.type, cells(taken)) == (plain, cells(given))
    stored = to_storage(taken)
    back = from_storage(stored.slice(1), plain)
    back.validate(full=True)
    assert cells(back) == cells(given)[1:]
    assert cells(normalise(pa.chunked_array([given, given.slice(1)]), plain)) == cells(given) + cells(given)[1:]

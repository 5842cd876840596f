"""Every decoder reads its seeds, and some changed ones; ``make fuzz-decoders`` looks for more with atheris."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from barrage_server.wire.soundness import check_sound
from tests.fuzz.decoder_seeds import seeds
from tests.fuzz.decoders import change, check, corpus_of
from tests.fuzz.targets import HARMLESS, TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_changed_bytes_give_a_value_or_an_error_of_ours(name: str) -> None:
    chance = random.Random(name)
    valid = seeds(name)
    for data in valid:
        check(name, data)
    for _ in range(1500):
        check(name, change(chance.choice(valid), chance))


@pytest.mark.parametrize(
    "name", [*("row_set", "shift_data", "upload", "journal", "plan", "page"), "formula", "batch", "frames"]
)
def test_seeds_are_valid(name: str) -> None:
    """Otherwise what is changed is refused at once, and shows nothing."""
    for data in seeds(name):
        TARGETS[name](data)


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1]).view(pa.date64()),
        pa.array([90_000], pa.int32()).view(pa.time32("s")),
        pa.array([-1]).view(pa.time64("ns")),
        pa.Array.from_buffers(pa.decimal128(2, 0), 1, [None, pa.py_buffer((12_345).to_bytes(16, "little"))]),
    ],
    ids=str,
)
def test_what_only_arrow_objects_to_is_named(array: pa.Array) -> None:
    """Values that a decoder takes as they are, and the target of uploads with it."""
    check_sound(array)
    with pytest.raises(pa.ArrowInvalid) as caught:
        array.validate(full=True)
    assert any(text in str(caught.value) for text in HARMLESS)


def test_a_corpus_is_kept_and_has_the_seeds(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, "row_set")
    found = corpus / "0123abc"
    found.write_bytes(b"interesting")
    for seed in corpus.glob("seed-*"):
        seed.unlink()
    assert corpus_of(tmp_path, "row_set") == corpus
    assert found.read_bytes() == b"interesting"
    assert [path.read_bytes() for path in sorted(corpus.glob("seed-*"))] == seeds("row_set")

"""The kept inputs of formulas, plans and batches: what they reach, and how they are chosen."""

from __future__ import annotations

import contextlib
import random
from itertools import islice
from pathlib import Path

import pytest
from barrage_proto import table_pb2
from google.protobuf.message import DecodeError

from tests.fuzz import kept as store
from tests.fuzz.batches import changed_batch
from tests.fuzz.computing import KINDS, Computing, Report, changed, check, found, reach, seeds
from tests.fuzz.kept import MOST_BYTES, MOST_KEPT, Place, kept, least, places, write

LEAST = {"formula": 550, "plan": 1300, "batch": 950}
"""Places that the kept inputs of a kind reach, and none of its seeds. A change of the code moves it a little."""


@pytest.mark.parametrize("kind", KINDS)
def test_kept_inputs_give_a_result_or_an_error_of_ours(kind: str, computing: Computing) -> None:
    """On tables that tick, and whose earlier results do."""
    results = [check(computing, kind, data) for data in kept(kind)]
    assert 0 < sum(results) < len(results)  # of the ones that fail, each fails elsewhere


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_kept_inputs_reach_what_no_seed_does(kind: str) -> None:
    """Otherwise the code has changed: ``make fuzz-computing COMPUTING_ARGS=--collect`` finds others."""
    known = frozenset[Place]().union(*(reach(kind, data) for data in seeds(kind)))
    further = [reach(kind, data) - known for data in kept(kind)]
    assert len(frozenset[Place]().union(*further)) >= LEAST[kind]
    alone = [data for data in further if data.difference(*(other for other in further if other is not data))]
    assert len(alone) > 0.9 * len(further)  # not all: some depend on what the process has computed before


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_kept_is_small_and_in_order(kind: str) -> None:
    inputs = kept(kind)
    assert 40 < len(inputs) <= MOST_KEPT
    assert inputs == sorted(set(inputs) - set(seeds(kind)), key=lambda data: (len(data), data))
    assert max(map(len, inputs)) <= MOST_BYTES


def test_places_are_steps_between_lines_of_the_code_that_computes() -> None:
    reach("formula", b"price > 1")  # imports modules
    once, again, other = reach("formula", b"price > 1"), reach("formula", b"price > 1"), reach("formula", b"price >")
    assert once == again
    assert once - other
    assert other - once  # where it is refused
    packages = {Path(name).relative_to(Path(store.__file__).parents[2]).parts[1] for name, *_ in once}
    assert {"formula", "operations"} <= packages <= {"formula", "operations", "plan", "deephaven"}


def test_nothing_is_traced_behind_the_block() -> None:
    with places() as reached:
        pass
    before = len(reached)
    reach("formula", b"price")
    assert len(reached) == before


def _places(*numbers: int) -> frozenset[Place]:
    return frozenset(("file", 0, "file", number) for number in numbers)


def test_the_least_inputs_reach_everything() -> None:
    reached = {b"aa": _places(1, 2), b"b": _places(1), b"c": _places(3), b"dd": _places(3), b"e": _places()}
    assert least(reached, 10) == [b"c", b"aa"]


def test_what_others_reach_together_is_not_kept() -> None:
    """The input that reaches the most is chosen first, and two others then reach all of it."""
    reached = {b"most": _places(1, 2, 3, 4), b"left": _places(1, 2, 5), b"right": _places(3, 4, 6)}
    assert least(reached, 10) == [b"left", b"right"]


def test_of_too_many_inputs_those_that_reach_the_most_are_kept() -> None:
    reached = {b"a": _places(1), b"b": _places(2, 3, 4), b"c": _places(5, 6)}
    assert least(reached, 2) == [b"b", b"c"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_read(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "FOLDER", tmp_path / "kept")
    assert kept(kind) == []
    inputs = list(islice(changed(kind, seeds(kind), random.Random(5)), 100))
    write(kind, inputs)
    assert kept(kind) == inputs


def test_what_would_not_be_read_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match="no line"):
        write("plan", [b'{"a":\n1}'])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_what_is_found_depends_on_the_seed_alone(tmp_path: Path) -> None:
    first, second, other = (found("formula", [], 40, seed, Report("formula", 40, seed, tmp_path)) for seed in (1, 1, 2))
    assert first == second != other
    assert first
    assert not set(first) & set(seeds("formula"))


def test_what_is_kept_is_changed_further(tmp_path: Path) -> None:
    """An input that is kept before stays as long as nothing else reaches what it does, and others come of it."""
    odd = b"round(round(round(price)))[0]"
    assert odd in found("formula", [odd], 0, 1, Report("formula", 0, 1, tmp_path))
    valid = [*seeds("formula"), odd]
    assert any(b"round(round" in data for data in islice(changed("formula", valid, random.Random(1)), 500))


def test_changed_batches_have_operations_of_others_and_other_texts() -> None:
    view = table_pb2.SelectOrUpdateRequest(column_specs=["a = price + 1"])
    data = table_pb2.BatchTableRequest(ops=[table_pb2.BatchTableRequest.Operation(view=view)]).SerializeToString()
    chance, found = random.Random(2), []
    for _ in range(200):
        request = table_pb2.BatchTableRequest()
        with contextlib.suppress(DecodeError):
            request.ParseFromString(changed_batch(data, seeds("batch"), chance))
            found.append(request)
    longer = [request for request in found if len(request.ops) == 3]
    assert len(longer) > 40
    read = [getattr(request.ops[1], request.ops[1].WhichOneof("op") or "view") for request in longer]
    assert {one.source_id.WhichOneof("ref") for one in read if hasattr(one, "source_id")} >= {"ticket", "batch_offset"}
    texts = [
        request.ops[0].view.column_specs[0] for request in found if request.ops and request.ops[0].view.column_specs
    ]
    assert len({text for text in texts if text.startswith("a = ")}) > 10

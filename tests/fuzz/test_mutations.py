"""Damages are drawn from a seed, reach what they aim at, and break nothing of the fuzz itself."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from tests.fuzz import mutations, protobuf
from tests.fuzz.corpus import Call, messages_of, valid_calls
from tests.fuzz.flatbuffer import spots
from tests.fuzz.run import ENDPOINTS, PLAIN, Generator


@pytest.fixture(scope="module")
def calls() -> list[Call]:
    return valid_calls()


def test_protobuf_fields_come_back(calls: list[Call]) -> None:
    for call in calls:
        for message in call.messages:
            fields = protobuf.decode(message)
            assert fields is not None
            assert protobuf.encode(fields) == message


def test_bytes_that_are_no_message_have_no_fields() -> None:
    chance = random.Random(1)
    for _ in range(2000):
        fields = protobuf.decode(chance.randbytes(chance.randrange(20)))
        assert fields is None or all(entry.number for entry in fields)


def test_numbers_of_a_record_batch_are_found() -> None:
    """The count of rows, the nodes, and where buffers begin and end are among the places that are damaged."""
    batch = pa.record_batch({"n": pa.array(range(12345), pa.int64()), "s": ["x"] * 12345})
    header = next(entry.value for entry in protobuf.decode(messages_of(batch)[1]) or () if entry.number == 2)
    assert isinstance(header, bytes)
    numbers = [int.from_bytes(header[spot.position : spot.position + spot.size], "little") for spot in spots(header)]
    assert numbers.count(12345) >= 3  # of the batch, and of both nodes
    assert 12345 * 8 in numbers  # bytes of a buffer


def test_spots_of_garbage_are_inside() -> None:
    chance = random.Random(2)
    for _ in range(500):
        data = chance.randbytes(chance.randrange(8, 200))
        assert all(spot.position + spot.size <= len(data) for spot in spots(data))


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_calls_are_the_same_for_a_seed(endpoint: str) -> None:
    """Each by its number, whatever came before it; and most of them are damaged."""
    first, second = Generator(3, endpoint), Generator(3, endpoint)
    numbers = range(0, 3000, 7)
    made = [first.call(number) for number in numbers]
    assert made == [second.call(number) for number in reversed(numbers)][::-1]
    sound = set(valid_calls())
    assert sum(call in sound for call in made) < len(made) / 5
    methods = {call.method for call in made}
    assert {method.rpartition("/")[2] for method in methods} >= {
        "DoPut",
        "DoExchange",
        "DoGet",
        "DoAction",
        "Handshake",
    }
    assert any(call.is_deephaven for call in made) == (endpoint not in PLAIN)


def test_damages_of_a_body_stay_in_it() -> None:
    chance = random.Random(4)
    header, body = b"", bytes(64)
    for _ in range(300):
        damaged = mutations.damaged_body(header, body, chance)
        assert len(damaged) == len(body)

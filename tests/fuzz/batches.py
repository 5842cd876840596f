"""What a fuzzer makes of batches of Deephaven's operations: in their texts, in their references, and in their bytes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from barrage_proto import deephaven_pb2, table_pb2
from google.protobuf.message import DecodeError, Message

from tests.fuzz.mutations import damaged_message
from tests.fuzz.texts import changed_formula

__all__ = ["changed_batch"]

_MOST_OPERATIONS = 8


def changed_batch(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """A text changed as a formula is, operations of another batch put behind, or bytes and fields damaged."""
    kind = chance.randrange(10)
    request, other = _parsed(data), _parsed(chance.choice(others))
    if request is not None and kind < 4 and (texts := list(_texts(request))):
        holder, name, index = chance.choice(texts)
        before = getattr(holder, name) if index is None else getattr(holder, name)[index]
        after = changed_formula(before.encode(), [b"price", b"sym"], chance).decode(errors="replace")
        if index is None:
            setattr(holder, name, after)
        else:
            getattr(holder, name)[index] = after
    elif request is not None and other is not None and 4 <= kind < 7:
        room = _MOST_OPERATIONS - len(request.ops)
        for operation in other.ops[: max(room, 0)]:
            for message in _messages(operation):
                if isinstance(message, deephaven_pb2.TableReference) and len(request.ops) and chance.random() < 0.7:
                    message.batch_offset = chance.randrange(len(request.ops))
            request.ops.append(operation)
    else:
        return damaged_message(data, chance)
    return bytes(request.SerializeToString())


def _parsed(data: bytes) -> Any:
    request = table_pb2.BatchTableRequest()
    try:
        request.ParseFromString(data)
    except DecodeError:
        return None
    return request


def _messages(message: Message) -> Iterator[Any]:
    """A message and all messages within it."""
    yield message
    for _, value in message.ListFields():
        if isinstance(value, Message):
            yield from _messages(value)
        elif not isinstance(value, str | bytes | int | float):
            for entry in value:
                if isinstance(entry, Message):
                    yield from _messages(entry)


def _texts(request: Message) -> Iterator[tuple[Any, str, int | None]]:
    """The texts within a message: what holds each, its field, and its index in a repeated one."""
    for message in _messages(request):
        for field, value in message.ListFields():
            if isinstance(value, str):
                yield message, field.name, None
            elif not isinstance(value, bytes | int | float | Message):
                yield from ((message, field.name, index) for index, entry in enumerate(value) if isinstance(entry, str))

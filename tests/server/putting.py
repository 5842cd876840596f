"""How tests send a DoPut, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from barrage_server.errors import (
    BarrageError,
)
from barrage_server.flight.errors import from_flight
from barrage_server.wire.protocol import (
    PutOptions,
)
from tests.server.conftest import SCHEMA

FAILURES = (pa.ArrowException, OSError)
ROWS = pa.record_batch({"sym": ["A", "B"], "price": [1.0, 2.0]}, schema=SCHEMA)
Message = tuple[pa.RecordBatch | None, bytes | None]


def send(client: fl.FlightClient, descriptor: fl.FlightDescriptor, schema: pa.Schema, *messages: Message) -> bytes:
    """One DoPut; what the server answered."""
    writer, reader = client.do_put(descriptor, schema)
    try:
        for batch, metadata in messages:
            if batch is None:
                writer.write_metadata(metadata)
            elif metadata is None:
                writer.write_batch(batch)
            else:
                writer.write_with_metadata(batch, metadata)
        writer.done_writing()
        answer = reader.read()
    finally:
        writer.close()
    return b"" if answer is None else bytes(answer.to_pybytes())


def put(client: fl.FlightClient, name: str, *batches: pa.RecordBatch, options: PutOptions | None = None) -> Any:
    metadata = None if options is None else options.to_json()
    schema = batches[0].schema if batches else SCHEMA
    first: list[Message] = [] if metadata is None else [(None, metadata)]
    answer = send(client, fl.FlightDescriptor.for_path(name), schema, *first, *((batch, None) for batch in batches))
    return json.loads(answer)


def refused(call: Callable[[], Any]) -> BarrageError:
    with pytest.raises(FAILURES) as caught:
        call()
    assert "Traceback" not in str(caught.value)
    return from_flight(caught.value)

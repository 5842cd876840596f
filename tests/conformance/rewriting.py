"""Our encoder, given what the captured server sent, must send the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from barrage_server.rowset import decode_row_set, decode_shift_data, encode_row_set, encode_shift_data
from barrage_server.wire.arrow_message import BatchHeader
from barrage_server.wire.batches import FIRST_BATCH_ROWS, MessageWriter, OutgoingMessage
from barrage_server.wire.flat import FlatTable
from barrage_server.wire.layout import assemble
from barrage_server.wire.metadata import SubscriptionOptions, UpdateMetadata, decode_message
from barrage_server.wire.raw import decode_ragged_batch
from barrage_server.wire.reader import IncomingMessage, MessageReader
from barrage_server.wire.wrapper import unwrap
from tests.conformance.cells import one_array, same_arrays


@dataclass(slots=True)
class CapturedUpdate:
    """The record batches of one update: headers, bodies, and the arrays in them."""

    app_metadata: bytes = b""
    headers: list[BatchHeader] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    arrays: list[list[pa.Array]] = field(default_factory=list)


def differences(
    message: IncomingMessage, captured: CapturedUpdate, schema: pa.Schema, options: SubscriptionOptions
) -> Iterator[str]:
    """What our encoding of ``message`` has different from the captured one; ``schema``: the plain one."""
    yield from _metadata_differences(message.metadata, captured.app_metadata)
    writer = MessageWriter(schema, options)
    outgoing = outgoing_of(message)
    written = list(writer.ipc_messages(outgoing))
    first = written[0][1]
    if first is None or any(app_metadata is not None for _, app_metadata, _ in written[1:]):
        yield "app_metadata is not on the first batch alone"
    else:
        yield from _count_differences(decode_message(first), message, len(written))
    headers = [BatchHeader.decode(header) for header, _, _ in written]
    bodies = [b"".join(bytes(memoryview(piece)) for piece in body) for _, _, body in written]
    if not _cuts_may_differ(message, options):
        yield from _batch_differences(headers, bodies, captured, writer.schema)
    # Whatever the cuts, both ways of sending must arrive as what was sent.
    raw = MessageReader(writer.schema, use_deephaven_nulls=options.use_deephaven_nulls)
    arrived = None
    for (header, app_metadata, _), read, body in zip(written, headers, bodies, strict=True):
        columns = decode_ragged_batch(header, body, writer.schema)
        arrived = raw.feed_columns(columns, read.length, app_metadata)
    yield from _message_differences("raw messages", arrived, message)
    even = MessageReader(writer.schema, use_deephaven_nulls=options.use_deephaven_nulls)
    for batch, app_metadata in writer.record_batches(outgoing):
        arrived = even.feed(batch, app_metadata)
    yield from _message_differences("record batches", arrived, message)


def outgoing_of(message: IncomingMessage) -> OutgoingMessage:
    """A received update as one to send."""
    adds = [one_array(column) for column in message.add_columns]
    mods = [one_array(column) for column in message.mod_columns]
    return OutgoingMessage(
        metadata=replace(message.metadata, num_add_batches=None, num_mod_batches=None),
        add_count=message.metadata.included_rows.size,
        read_adds=lambda start, stop: [column.slice(start, stop - start) for column in adds],
        mod_counts=tuple(len(column) for column in mods),
        read_mods=lambda column, start, stop: mods[column].slice(start, stop - start),
    )


def _metadata_differences(metadata: UpdateMetadata, captured: bytes) -> Iterator[str]:
    """Row sets byte for byte, everything else by value."""
    if decode_message(metadata.encode()) != metadata:
        yield "metadata does not survive encoding"
    table = FlatTable.root(unwrap(captured)[1])
    for slot, name in ((3, "effective_viewport"), (6, "added"), (7, "removed"), (9, "included")):
        data = table.bytes_vector(slot)
        if data is not None and encode_row_set(decode_row_set(bytes(data))) != bytes(data):
            yield f"row set {name} is encoded differently"
    shifts = table.bytes_vector(8)
    if shifts is not None and encode_shift_data(decode_shift_data(bytes(shifts))) != bytes(shifts):
        yield "shift data are encoded differently"
    for number, node in enumerate(table.tables(10) or ()):
        data = node.bytes_vector(0)
        if data is not None and encode_row_set(decode_row_set(bytes(data))) != bytes(data):
            yield f"modified rows of column {number} are encoded differently"


def _count_differences(sent: object, message: IncomingMessage, batches: int) -> Iterator[str]:
    if not isinstance(sent, UpdateMetadata):
        yield "what we sent is no update metadata"
        return
    counts = (sent.num_add_batches, sent.num_mod_batches)
    rows = message.metadata.included_rows.size + max((len(column) for column in message.mod_columns), default=0)
    if counts != (None, None) and sum(count or 0 for count in counts) != (batches if rows else 0):
        yield f"batch counts {counts} announced for {batches} batches"
    if replace(sent, num_add_batches=None, num_mod_batches=None) != replace(
        message.metadata, num_add_batches=None, num_mod_batches=None
    ):
        yield "the metadata that we sent differs"


def _cuts_may_differ(message: IncomingMessage, options: SubscriptionOptions) -> bool:
    """Whether the server chose where to cut, so that our choice may be another."""
    most = max(message.metadata.included_rows.size, message.metadata.mod_count)
    return options.max_message_size > 0 or most > FIRST_BATCH_ROWS


def _batch_differences(
    headers: list[BatchHeader], bodies: list[bytes], captured: CapturedUpdate, schema: pa.Schema
) -> Iterator[str]:
    lengths, expected = [header.length for header in headers], [header.length for header in captured.headers]
    if lengths != expected:
        yield f"batches of {lengths} rows instead of {expected}"
        return
    for number, (ours, theirs) in enumerate(zip(headers, captured.headers, strict=True)):
        if bytes(ours.nodes) != bytes(theirs.nodes):
            yield f"batch {number}: nodes {_pairs(ours.nodes)} instead of {_pairs(theirs.nodes)}"
        if bytes(ours.buffers) != bytes(theirs.buffers):
            yield f"batch {number}: buffers {_pairs(ours.buffers)} instead of {_pairs(theirs.buffers)}"
        if bodies[number] != captured.bodies[number]:
            # Bits behind the last value, and values of null cells, mean nothing.
            again = _decoded(ours, bodies[number], schema)
            if not all(map(same_arrays, again, captured.arrays[number])):
                yield f"batch {number}: other values"


def _decoded(header: BatchHeader, body: bytes, schema: pa.Schema) -> list[pa.Array]:
    return assemble(schema.types, header.nodes, header.buffers, pa.py_buffer(body))


def _pairs(data: memoryview) -> list[list[int]]:
    pairs: list[list[int]] = np.frombuffer(data, np.int64).reshape(-1, 2).tolist()
    return pairs


def _message_differences(what: str, ours: IncomingMessage | None, theirs: IncomingMessage) -> Iterator[str]:
    if ours is None:
        yield f"{what}: incomplete after the last batch"
        return
    asked = theirs.metadata.included_rows.size
    for number, (one, other) in enumerate(zip(ours.add_columns, theirs.add_columns, strict=True)):
        padding = len(other) == 0 and len(one) == asked and one.null_count == asked
        if not padding and not same_arrays(one, other):
            yield f"{what}: added rows of column {number} arrive changed"
    for number, (one, other) in enumerate(zip(ours.mod_columns, theirs.mod_columns, strict=True)):
        if len(other) and not same_arrays(one, other):
            yield f"{what}: modified rows of column {number} arrive changed"

"""Records a conversation of this project's own server as a scenario, in the form of the captured ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from barrage_server.engine import Table
from barrage_server.rowset import RowSet
from barrage_server.subscription import Dialect, Subscription, TableFeed
from barrage_server.wire.batches import LengthMode
from barrage_server.wire.metadata import SubscriptionOptions, SubscriptionRequest
from barrage_server.wire.raw import encode_flight_data, schema_flight_data
from tests.conformance.cells import cells


def record(
    directory: Path,
    table: Table,
    options: SubscriptionOptions,
    changes: Sequence[Callable[[], object]],
    *,
    viewport: RowSet | None = None,
) -> int:
    """Subscribe to ``table``, make each change in turn, and write down all messages; how many there are."""
    directory.mkdir(parents=True)
    messages: list[dict[str, Any]] = []
    steps: list[dict[str, Any]] = []

    def write(data: bytes, direction: str) -> None:
        name = f"{len(messages):03}.bin"
        (directory / name).write_bytes(data)
        messages.append({"file": name, "dir": direction})

    request = SubscriptionRequest(b"s/t", None, viewport, options)
    subscription = Subscription(TableFeed(table), request, dialect=Dialect.FLATTENED, lengths=LengthMode.RAGGED)
    write(encode_flight_data(b"", request.encode(), []), "out")
    write(schema_flight_data(subscription.wire_schema), "in")
    now = 0.0
    for number, change in enumerate([lambda: None, *changes]):
        change()
        wake_at: float | None = now
        while wake_at is not None:
            poll = subscription.poll(now)
            for message in poll.messages:
                for data in message.flight_data():
                    write(data, "in")
            wake_at, now = poll.wake_at, now + 1.0
        content = table.to_arrow()
        expected = {
            "num_rows": content.num_rows,
            "columns": {name: cells(content.column(name)) for name in content.schema.names},
        }
        steps.append({"note": f"change {number}", "messages_so_far": len(messages), "expected_full_table": expected})
    manifest = {"scenario": directory.name, "table": "t", "rpc": "DoExchange", "messages": messages, "steps": steps}
    (directory / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return len(messages)

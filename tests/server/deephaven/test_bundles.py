"""What a stream is sent comes in bundles; wherever one ends, the rest and what is due after it follow."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from barrage_server.server import Server, bundled_exchange
from barrage_server.subscription import SubscriptionLimits
from barrage_server.wire.metadata import SubscriptionOptions
from tests.server.follower import Follower

SCHEMA = pa.schema([("n", pa.int64())])
OPTIONS = SubscriptionOptions(min_update_interval_ms=1, batch_size=10, columns_as_list=True)


@pytest.mark.parametrize("bundle_bytes", [1, 300, 1_000, 1 << 20])
def test_bundles_of_any_size(monkeypatch: pytest.MonkeyPatch, bundle_bytes: int) -> None:
    """With a first snapshot in parts, parts in batches, and updates that come while these are under way."""
    monkeypatch.setattr(bundled_exchange, "_BUNDLE_BYTES", bundle_bytes)
    limits = SubscriptionLimits(default_interval_ms=1, snapshot_part_cells=35)
    with Server(deephaven_port=0, subscriptions=limits) as server:
        table = server.append_table("t", SCHEMA)
        table.append({"n": [*range(100)]})
        assert server.deephaven_uri is not None
        with (
            fl.connect(server.deephaven_uri.replace("dh+plain", "grpc")) as client,
            Follower(client, "t", OPTIONS) as follower,
        ):
            follower.wait(lambda seen: len(seen.rows) == 100)
            for number in range(100, 300):
                table.append({"n": [number]})
            follower.wait(lambda seen: len(seen.rows) == 300)
            table.append({"n": [*range(300, 400)]})
            follower.wait(lambda seen: len(seen.rows) == 400)
            assert follower.content() == [[number] for number in range(400)]

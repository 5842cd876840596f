"""The metrics of a server: right, without the names of clients, and on a registry of their own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import prometheus_client
import pyarrow.flight as fl
import pytest
from prometheus_client.parser import text_string_to_metric_families

import barrage_server as bs
from barrage_server.server import Limits
from barrage_server.server import server as server_module
from barrage_server.server.assembly import assemble
from barrage_server.server.server_state import ServerState
from barrage_server.wire.commit_messages import CommitRequest, StageEnd
from barrage_server.wire.protocol import COMMIT_ACTION
from tests.ports import free_port
from tests.server.putting import ROWS
from tests.server.test_http import get, port_of
from tests.server.test_staged_rows import REQUEST, stage
from tests.waiting import until

OPERATIONS = Path(bs.__file__).parents[1] / "docs" / "operations.md"
LABELS = {
    "kind": {"append", "ring", "blink", "keyed", "replaced", "replica", "derived"}
    | {"subscription", "upload", "download", "page"}
    | {"put", "commit", "update"},
    "endpoint": {"flight", "deephaven", "web", "http"},
    "state": {state.value for state in bs.FollowedState},
    "error": {name for name in bs.__all__ if name.endswith("Error")},
    "version": {bs.__version__},
}

Samples = dict[str, float]


def page(server: bs.Server) -> str:
    """The metrics now: not those of a second ago."""
    return server._http._metrics()[0].decode()  # type: ignore[union-attr]


def samples(server: bs.Server) -> Samples:
    """Values by name and the value of the label, as in ``barrage_tables:keyed``."""
    found: Samples = {}
    for family in text_string_to_metric_families(page(server)):
        for sample in family.samples:
            found[":".join([sample.name, *sample.labels.values()])] = sample.value
    return found


@pytest.mark.parametrize("endpoint", ["flight", "deephaven"])
def test_the_figures_are_those_of_the_server(endpoint: str) -> None:
    with bs.Server(http_port=0, deephaven_port=0, limits=Limits(subscriptions=1)) as server:
        before = samples(server)
        uri = server.uri if endpoint == "flight" else str(server.deephaven_uri).replace("dh+plain", "grpc")
        with bs.connect(uri) as client:
            client.publish("quotes", {"sym": ["A", "B"]}, key="sym")
            client.publish("log", {"n": [1, 2, 3]})
            with client.subscribe("quotes") as live:
                client.upsert("quotes", {"sym": ["C"]})
                live.wait_until(lambda live: live.size == 3)
                with pytest.raises(bs.LimitError):
                    client.subscribe("log")
                client.snapshot("log")
                now = samples(server)
        assert (now["barrage_tables:keyed"], now["barrage_tables:append"], now["barrage_tables:ring"]) == (1, 1, 0)
        assert (now["barrage_table_rows:keyed"], now["barrage_table_rows:append"]) == (3, 3)
        assert now["barrage_table_bytes:append"] > 0
        assert now["barrage_subscriptions"] == now["barrage_streams:subscription"] == 1
        assert now["barrage_streams_refused_total:subscription"] == 1
        assert now["barrage_publishes_total:commit"] == 3
        assert now["barrage_published_rows_total:commit"] == 6
        assert now["barrage_cycles_total"] >= 3
        assert now["barrage_connections:" + endpoint] >= 1
        assert now["barrage_connections:http"] == 0
        assert now["barrage_streams_opened_total:upload"] == 3
        assert now["barrage_stream_bytes_total:upload"] > 0
        assert now["barrage_errors_total:LimitError"] == before.get("barrage_errors_total:LimitError", 0) + 1
        until(lambda: samples(server)["barrage_streams:subscription"] == 0)
        last = samples(server)
        for kind in ("subscription", "upload", "download"):  # what has ended is still counted
            for name in ("messages", "bytes"):
                assert last[f"barrage_stream_{name}_total:{kind}"] >= now[f"barrage_stream_{name}_total:{kind}"]
        assert last["barrage_stream_messages_total:subscription"] >= 2
        assert last["barrage_streams_opened_total:download"] == 1
        assert last["barrage_stream_messages_total:download"] >= 1


def test_staged_batches_commits_and_repetitions_are_counted() -> None:
    with bs.Server(http_port=0) as server, fl.connect(server.uri) as client:
        result = stage(client, (None, REQUEST), (ROWS, None), (None, StageEnd(2).to_json()))
        staged = samples(server)
        assert (staged["barrage_staged_batches"], staged["barrage_staged_rows"]) == (1, 2)
        assert staged["barrage_staged_bytes"] > 0
        for _ in range(2):
            body = CommitRequest("query", "mine", 0, tokens=(result.token,)).to_json()
            list(client.do_action((COMMIT_ACTION, body)))
        now = samples(server)
        assert (now["barrage_publishes_total:commit"], now["barrage_published_rows_total:commit"]) == (1, 2)
        assert (now["barrage_staged_batches"], now["barrage_ledger_entries"]) == (0, 1)


def test_names_of_clients_are_nowhere_and_add_no_series() -> None:
    """Tables, columns, users and publishers are named by clients, and there may be any number of them."""
    with bs.Server(http_port=0, token="good") as server:
        with bs.connect(server.uri, user="uncommon-user", password="good") as client:
            client.publish("first", {"n": [1]})
            before = set(samples(server))
            for number in range(20):
                client.publish(f"uncommon-table-{number}", {"uncommon-column": [1]})
            with pytest.raises(bs.NotFoundError):
                client.snapshot("uncommon-missing")
            with client.subscribe("uncommon-table-1"):
                text = page(server)
        assert "uncommon" not in text
        errors = {name for name in samples(server) if name.startswith("barrage_errors_total:")}
        assert set(samples(server)) - errors == before - errors
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                for label, value in sample.labels.items():
                    assert value in LABELS[label], sample


def test_a_relay_shows_its_followed_tables() -> None:
    with bs.Server() as upstream, bs.Server(http_port=0) as relay:
        upstream.append_table("numbers", {"n": "int64"}).append({"n": [1]})
        relay.follow(f"{upstream.uri}/numbers")
        now = samples(relay)
        assert (now["barrage_followed_tables:live"], now["barrage_followed_tables:missing"]) == (1, 0)
        assert now["barrage_followed_away_seconds_max"] == 0
        assert now["barrage_tables:replica"] == 1


def test_a_server_that_recovers_is_not_ready_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    port = free_port()

    def watched(**arguments: Any) -> ServerState:
        seen.append(get(port, "/ready")[1].strip())
        seen.extend(line for line in get(port, "/metrics")[1].splitlines() if line.startswith("barrage_ready"))
        return assemble(**arguments)

    monkeypatch.setattr(server_module, "assemble", watched)
    with bs.Server(http_port=port, data_dir=tmp_path) as server:
        assert samples(server)["barrage_ready"] == 1
        assert samples(server)["barrage_durable_read_only"] == 0
        begun = samples(server)["barrage_journal_bytes"]
        server.append_table("t", {"n": "int64"}).append({"n": [1]})
        assert samples(server)["barrage_journal_bytes"] > begun
    with bs.Server(http_port=port):
        pass
    assert seen == ["not ready: recovering", "barrage_ready 0.0", "not ready: starting", "barrage_ready 0.0"]


def test_servers_share_no_registry() -> None:
    with bs.Server(http_port=0) as first, bs.Server(http_port=0) as second:
        first.append_table("t", {"n": "int64"})
        assert samples(first)["barrage_tables:append"] == 1
        assert samples(second)["barrage_tables:append"] == 0
        assert "process_resident_memory_bytes" in samples(second)
        assert "barrage_" not in prometheus_client.generate_latest().decode()


def test_a_server_that_starts_has_few_metrics() -> None:
    with bs.Server(http_port=0) as server:
        server._readiness._phase = "starting"
        assert samples(server)["barrage_ready"] == 0
        assert "barrage_cycles_total" not in samples(server)


def test_the_page_is_what_the_port_answers() -> None:
    with bs.Server(http_port=0) as server:
        names = {line.partition(" ")[0] for line in get(port_of(server), "/metrics")[1].splitlines()}
        assert names == {line.partition(" ")[0] for line in page(server).splitlines()}


def test_the_documents_name_the_metrics_that_exist(tmp_path: Path) -> None:
    """All of them, and no others: an alert on a metric that does not exist never fires."""
    made = bs.Server(http_port=0, deephaven_port=0, data_dir=tmp_path)
    with made as server, bs.connect(server.uri) as client:
        with pytest.raises(bs.NotFoundError):
            client.snapshot("nothing")
        there = {name.partition(":")[0] for name in samples(server) if name.startswith("barrage_")}
    named = set(re.findall(r"\bbarrage_(?!server\b)[a-z_]*[a-z]\b", OPERATIONS.read_text()))
    assert named == there

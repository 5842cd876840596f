"""Plans of our client as batches of Deephaven's table service, which our own port for Deephaven's clients answers.

There our client takes the server for Deephaven's when the action by which it is recognised is hidden, and the first
call brings a token, as the call does that Deephaven's clients log in with.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from typing import Any, Final

import grpc
import pyarrow as pa
import pytest
import trustme
from barrage_proto.deephaven_pb2 import ExportedTableCreationResponse as Creation
from barrage_proto.deephaven_pb2 import TableReference

import barrage_server as bs
from barrage_server.client.access import Access
from barrage_server.client.channel import Channel
from barrage_server.client.grpc_channel import GrpcChannel
from barrage_server.client.plan_calls import Computed
from barrage_server.client.table_service import ExportNumbers, TableService
from barrage_server.engine import KeyedTable
from barrage_server.flight.errors import from_status
from barrage_server.plan.plan import Plan
from barrage_server.server import Limits
from barrage_server.subscription import SubscriptionLimits
from tests.waiting import until

_LOG_IN: Final = "/io.deephaven.proto.backplane.grpc.ConfigService/GetConfigurationConstants"
SCHEMA = {"id": "int64", "sym": "string", "price": "float64"}


@pytest.fixture
def server() -> Iterator[bs.Server]:
    with bs.Server(deephaven_port=0, subscriptions=SubscriptionLimits(default_interval_ms=1)) as server:
        yield server


@pytest.fixture
def trades(server: bs.Server) -> KeyedTable:
    table = server.keyed_table("trades", SCHEMA, key="id")
    table.upsert({"id": [1, 2, 3], "sym": ["A", "B", "A"], "price": [1.0, 2.0, 3.0]})
    return table


def _secure(target: str, access: Access) -> grpc.Channel:
    return grpc.secure_channel(target, grpc.ssl_channel_credentials(*access.pem()))


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers of ours are taken for Deephaven's."""

    def asked(channel: Channel) -> bool:
        target, access = channel.grpc_target
        with grpc.insecure_channel(target) if access is None else _secure(target, access) as opened:
            call: Any = opened.unary_unary(_LOG_IN, response_deserializer=bytes)
            try:
                header = channel.login.header
                metadata = (("authorization", header),) if header else ()
                _, answer = call.with_call(b"", metadata=metadata, timeout=10)
            except grpc.RpcError as error:
                told: Any = error
                raise from_status(told.code().name, told.details()) from None
        channel.login.received(value for name, value in answer.initial_metadata() if name == "authorization")
        return False

    monkeypatch.setattr(Channel, "_asks_health", asked)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[Computed]:
    """The results that were computed, in their order."""
    results: list[Computed] = []
    compute = TableService.compute

    def recorded(service: TableService, plan: Plan) -> Computed:
        results.append(compute(service, plan))
        return results[-1]

    monkeypatch.setattr(TableService, "compute", recorded)
    return results


@pytest.fixture
def client(server: bs.Server, trades: KeyedTable, hidden: None) -> Iterator[bs.Client]:
    with bs.connect(str(server.deephaven_uri)) as client:
        assert client.is_deephaven
        yield client


def test_a_plan_is_a_batch_whose_result_is_an_export(server: bs.Server, client: bs.Client, trades: KeyedTable) -> None:
    plan = client.table("trades").where("price > 1").update("twice = price * 2").sort_descending("price")
    assert server.statistics().exports == 0
    assert plan.to_arrow().to_pydict() == {"id": [3, 2], "sym": ["A", "B"], "price": [3.0, 2.0], "twice": [6.0, 4.0]}
    assert server.statistics().exports == 1
    assert plan.schema == pa.schema([*trades.schema, ("twice", pa.float64())])
    assert (plan.size, plan.is_static) == (2, False)
    with plan.subscribe(["id"], range(1), interval_ms=1) as live:
        trades.upsert({"id": [4], "sym": ["C"], "price": [9.0]})
        live.wait_until(lambda view: view.to_arrow().to_pydict() == {"id": [4]})
    until(lambda: plan.size == 3)


def test_plans_travel_with_the_certificate_of_the_client(hidden: None) -> None:
    authority = trustme.CA()
    mine, its = authority.issue_cert("desk.example.com"), authority.issue_cert("127.0.0.1")
    roots = authority.cert_pem.bytes()
    tls = its.cert_chain_pems[0].bytes(), its.private_key_pem.bytes()
    with bs.Server(tls_certificate=tls[0], tls_key=tls[1], tls_client_root_certs=roots, deephaven_port=0) as server:
        server.append_table("trades", SCHEMA).append({"id": [1, 2], "sym": ["A", "B"], "price": [1.0, 2.0]})
        with bs.connect(
            str(server.deephaven_uri),
            tls_root_certs=roots,
            tls_certificate=mine.cert_chain_pems[0].bytes(),
            tls_key=mine.private_key_pem.bytes(),
        ) as client:
            assert client.is_deephaven
            assert client.table("trades").where("price > 1").view("id").to_arrow().to_pydict() == {"id": [2]}


def test_exports_are_released(server: bs.Server, client: bs.Client) -> None:
    plans = [client.table("trades").head(number) for number in range(3)]
    assert [plan.to_arrow().num_rows for plan in plans] == [0, 1, 2]
    assert server.statistics().exports == 3
    plans[0].close()
    until(lambda: server.statistics().exports == 2)
    del plans[1]
    gc.collect()
    until(lambda: server.statistics().exports == 1)
    client.close()
    until(lambda: server.statistics().exports == 0)
    with pytest.raises(bs.UnavailableError, match="is closed; connect again"):
        plans[1].to_arrow()


def test_the_first_operation_that_fails_is_told(client: bs.Client) -> None:
    wrong = client.table("trades").where("nope > 1").head(1)
    with pytest.raises(bs.UnknownColumnError, match="There is no column 'nope'"):
        wrong.to_arrow()
    with pytest.raises(bs.UnsupportedOperationError, match="cannot be asked for 'tail_pct'"):
        client.table("trades").tail_pct(0.5).to_arrow()


def test_a_filter_without_conditions_keeps_all_rows(server: bs.Server, client: bs.Client) -> None:
    server.append_table("other", SCHEMA).append({"id": [7], "sym": ["Z"], "price": [0.5]})
    everything = client.table("other").where([])
    assert everything.to_arrow()["id"].to_pylist() == [7]
    assert bs.merge([client.table("trades").head(1), everything]).to_arrow()["id"].to_pylist() == [1, 7]


@pytest.mark.parametrize("offset", [9, -1])
def test_an_answer_about_an_operation_that_was_not_sent(
    client: bs.Client, monkeypatch: pytest.MonkeyPatch, offset: int
) -> None:
    wrong = Creation(success=False, error_info="no", result_id=TableReference(batch_offset=offset))
    monkeypatch.setattr(GrpcChannel, "responses", lambda *_: ([wrong], None))
    with pytest.raises(bs.InvalidRequestError, match="did not compute 'head': no"):
        client.table("trades").where("price > 1").head(1).to_arrow()


def test_a_result_that_cannot_be_read_is_released(client: bs.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []

    def responses(_: GrpcChannel, method: str, *arguments: Any) -> Any:
        called.append(method.rpartition("/")[2])
        return [Creation(success=True, schema_header=b"damaged")], None

    monkeypatch.setattr(GrpcChannel, "responses", responses)
    with pytest.raises(bs.WireFormatError, match="damaged schema"):
        client.table("trades").head(1).to_arrow()
    assert called == ["Batch", "Release"]


def test_a_client_that_is_closed_while_it_calls_says_so(client: bs.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = Channel.metadata

    def closing(channel: Channel) -> Any:
        found = metadata(channel)
        monkeypatch.setattr(Channel, "metadata", metadata)
        client.close()
        return found

    kept = client.table("trades").head(2)  # not released in the meantime
    assert kept.to_arrow().num_rows == 2
    monkeypatch.setattr(Channel, "metadata", closing)
    with pytest.raises(bs.UnavailableError, match="closed"):
        client.table("trades").head(1).to_arrow()


def test_a_result_is_bound(server: bs.Server, client: bs.Client) -> None:
    bound = client.table("trades").where("price > 1").bind("large")
    assert bound.to_arrow()["id"].to_pylist() == [2, 3]
    assert "large" in [table.name for table in server.tables()]
    with pytest.raises(bs.AlreadyExistsError, match="There is a table 'trades'"):
        client.table("trades").head(1).bind("trades")
    assert server.statistics().exports <= 2


def test_results_of_a_session_that_has_run_out_are_computed_again(hidden: None, computed: list[Computed]) -> None:
    with bs.Server(deephaven_port=0, limits=Limits(session_seconds=0.5)) as server:
        server.append_table("t", {"x": "int64"}).append({"x": [1, 2, 3]})
        with bs.connect(str(server.deephaven_uri)) as client:
            plan = client.table("t").where("x > 1")
            assert plan.to_arrow()["x"].to_pylist() == [2, 3]
            assert len(computed) == 1
            until(lambda: server.statistics().sessions == 0)
            assert plan.size == 2
            assert len(computed) == 2
            assert computed[0].ticket != computed[1].ticket
            until(lambda: server.statistics().sessions == 0)
            assert plan.to_arrow()["x"].to_pylist() == [2, 3]
            until(lambda: server.statistics().sessions == 0)
            with plan.subscribe(interval_ms=1) as live:
                assert live.size == 2
            until(lambda: server.statistics().exports <= 1)
            plan.close()
            until(lambda: server.statistics().exports == 0)


def test_export_numbers_of_a_process_and_its_forks_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """They share a session."""
    numbers = ExportNumbers()
    mine = [numbers.next() for _ in range(3)]
    assert mine == list(range(mine[0], mine[0] + 3))
    monkeypatch.setattr("os.getpid", lambda: -7)
    assert numbers.next() != mine[-1] + 1


def test_the_missing_extra_is_named(client: bs.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = client.table("trades").head(1)
    for name in ("table_service", "grpc_channel"):
        monkeypatch.delitem(sys.modules, f"barrage_server.client.{name}")
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(bs.DependencyError, match=r"Operations on a Deephaven server need .*grpcio.* pip install"):
        plan.to_arrow()


def test_a_server_that_is_away_is_told(hidden: None) -> None:
    with bs.Server(deephaven_port=0) as server:
        server.append_table("t", {"x": "int64"})
        client = bs.connect(str(server.deephaven_uri), timeout=2)
        plan = client.table("t").head(1)
    with pytest.raises(bs.UnavailableError, match=r"failed to connect|No connection"):
        plan.to_arrow()
    client.close()

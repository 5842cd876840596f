"""What is wrong, old, doubled or not to be had is told in the same way at every endpoint, and changes nothing."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from barrage_proto import flight_pb2

import barrage_server as bs
from barrage_server.journal.files import JournalFile
from barrage_server.rowset import RowSet
from barrage_server.rowset.codec import encode_row_set
from barrage_server.wire.metadata import PublicationRequest, UpdateMetadata
from barrage_server.wire.tickets import scope_ticket
from tests.server.conftest import address, endpoints
from tests.watched_files import watch_files

SCHEMA = pa.schema([("v", pa.int64())])
REFUSED = (fl.FlightError, pa.ArrowException)


def put(client: fl.FlightClient, *values: int) -> None:
    writer, answers = client.do_put(fl.FlightDescriptor.for_path("t"), SCHEMA)
    with writer:
        writer.write_batch(pa.record_batch({"v": list(values)}, SCHEMA))
        writer.done_writing()
        answers.read()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO], ids=["ENOSPC", "EIO"])
def test_on_a_disk_that_fails_rows_are_refused_and_read(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    fails: list[bool] = []

    def watch(file: JournalFile, name: str) -> None:
        write = file.write

        def attempt(*parts: Any) -> None:
            if fails:
                raise OSError(error, os.strerror(error))
            write(*parts)

        monkeypatch.setattr(file, "write", attempt)

    watch_files(monkeypatch, watch)
    with (
        bs.Server(data_dir=tmp_path / "data", **endpoints(endpoint)) as server,
        fl.connect(address(server, endpoint)) as client,
    ):
        put(client, 1)
        fails.append(True)
        for _ in range(2):
            with pytest.raises(REFUSED, match=rf"ReadOnlyError.*{os.strerror(error)}"):
                put(client, 2)
        assert client.do_get(fl.Ticket(b"t")).read_all()["v"].to_pylist() == [1]


def test_a_repetition_is_a_duplicate_and_a_gap_and_an_old_epoch_are_refused(server: bs.Server, endpoint: str) -> None:
    rows = {"v": [1]}
    with bs.connect(address(server, endpoint)) as client:
        assert client.publish("t", rows, publisher="p", batch=0, epoch="a").applied
        assert not client.publish("t", rows, publisher="p", batch=0, epoch="a").applied
        with pytest.raises(bs.LostBatchesError, match="batches 1 to 4 are missing"):
            client.publish("t", rows, publisher="p", batch=5, epoch="a")
        with pytest.raises(bs.FencedError):
            client.publish("t", rows, publisher="p", batch=0, epoch="b")
        assert client.publish("t", rows, publisher="p", batch=0, epoch="b", takeover=True).applied
        with pytest.raises(bs.FencedError, match="taken over"):
            client.publish("t", rows, publisher="p", batch=1, epoch="a")
        assert client.snapshot("t")["v"].to_pylist() == [1, 1]


def test_a_batch_before_its_dictionary_is_refused_and_the_table_goes_on(server: bs.Server, endpoint: str) -> None:
    table = server.append_table("d", {"text": "string"})
    rows = pa.record_batch({"text": pa.array(["a", "b"]).dictionary_encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    schema, dictionary, batch = (
        flight_pb2.FlightData(
            data_header=message.metadata.to_pybytes(),
            data_body=b"" if message.body is None else message.body.to_pybytes(),
        )
        for message in pa.ipc.MessageReader.open_stream(sink.getvalue())
    )
    schema.flight_descriptor.CopyFrom(flight_pb2.FlightDescriptor(type="PATH", path=["d"]))
    with grpc.insecure_channel(address(server, endpoint).removeprefix("grpc://")) as channel:
        any_channel: Any = channel
        put = any_channel.stream_stream("/arrow.flight.protocol.FlightService/DoPut")
        with pytest.raises(grpc.RpcError) as refused:
            list(put(iter([schema.SerializeToString(), batch.SerializeToString()]), timeout=20))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "WireFormatError" in str(refused.value.details())
        assert table.size == 0
        list(put(iter([each.SerializeToString() for each in (schema, dictionary, batch)]), timeout=20))
    assert table.to_arrow()["text"].to_pylist() == ["a", "b"]


@pytest.mark.parametrize("place", ["row set", "flatbuffer"])
def test_a_damaged_update_is_refused_and_changes_nothing(server: bs.Server, endpoint: str, place: str) -> None:
    rows = RowSet.from_range(0, 1)
    metadata = UpdateMetadata(is_snapshot=True, added_rows=rows, added_rows_included=rows).encode()
    if place == "row set":
        encoded = bytes(encode_row_set(rows))
        assert metadata.count(encoded) >= 1
        metadata = metadata.replace(encoded, b"\xff" * len(encoded))
    else:
        metadata = metadata[: len(metadata) // 2]
    with fl.connect(address(server, endpoint)) as client:
        put(client, 7)
        writer, answers = client.do_put(fl.FlightDescriptor.for_path("u"), SCHEMA)
        with pytest.raises(REFUSED, match="WireFormatError"), writer:
            writer.write_metadata(PublicationRequest(scope_ticket("u")).encode())
            writer.write_with_metadata(pa.record_batch({"v": [1, 2]}, SCHEMA), metadata)
            writer.done_writing()
            answers.read()
        put(client, 8)
        assert client.do_get(fl.Ticket(b"t")).read_all()["v"].to_pylist() == [7, 8]
    found = {table.name: table.size for table in server.tables()}
    assert found.get("u", 0) == 0


def test_missing_wrong_and_expired_credentials_are_refused_with_one_text(endpoint: str, tmp_path: Path) -> None:
    digests = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("right", "old")}
    (tmp_path / "credentials.toml").write_text(
        f'[[tokens]]\nname = "a"\nsha256 = "{digests["right"]}"\n'
        f'[[tokens]]\nname = "b"\nsha256 = "{digests["old"]}"\nexpires = 2020-01-01T00:00:00Z\n'
    )
    texts = set()
    with (
        bs.Server(token=bs.CredentialFile(tmp_path / "credentials.toml"), **endpoints(endpoint)) as server,
        fl.connect(address(server, endpoint)) as client,
    ):
        server.append_table("t", SCHEMA)
        for token in (None, "wrong", "old", ""):
            headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
            for ticket in (b"t", b"no such table"):
                with pytest.raises(fl.FlightUnauthenticatedError) as caught:
                    client.do_get(fl.Ticket(ticket), fl.FlightCallOptions(headers=headers)).read_all()
                texts.add(str(caught.value).partition(". Detail")[0].partition(". gRPC")[0])
        options = fl.FlightCallOptions(headers=[(b"authorization", b"Bearer right")])
        assert client.do_get(fl.Ticket(b"t"), options).read_all().num_rows == 0
    assert len(texts) == 1, texts

"""Any Python publisher applies its batches exactly once, and is told of those that are missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import barrage_server as bs
from barrage_server.client import upload
from barrage_server.flight.staging import CommitCalls, stage
from barrage_server.wire.commit_messages import CommitRequest, CommitResult

ROWS = {"v": [1, 2]}


@pytest.fixture
def server() -> Iterator[bs.Server]:
    with bs.Server() as running:
        yield running


@pytest.fixture
def client(server: bs.Server) -> Iterator[bs.Client]:
    with bs.connect(server.uri) as connected:
        yield connected


def values(client: bs.Client) -> list[int]:
    found: list[int] = client.snapshot("t")["v"].to_pylist()
    return found


def test_a_repeated_batch_applies_once_and_is_said_to_be_one(server: bs.Server, client: bs.Client) -> None:
    assert client.last_batch("t", "job") is None
    assert client.publish("t", ROWS, publisher="job", batch=0) == bs.PublishResult(True, 2, 0)
    with bs.connect(server.uri) as later:  # another process
        assert later.last_batch("t", "job") == 0
        assert later.publish("t", ROWS, publisher="job", batch=0) == bs.PublishResult(False, 0, 0)
        assert later.publish("t", {"v": [3]}, publisher="job", batch=1).applied
    assert values(client) == [1, 2, 3]
    assert client.publish("t", {"v": [4]}) == 1  # and without a publisher the number of rows
    assert server.statistics().staging.entries == 0


def test_the_rows_of_a_repetition_are_not_read(client: bs.Client) -> None:
    client.publish("t", ROWS, publisher="job", batch=0)
    assert not client.publish("t", object(), publisher="job", batch=0).applied


def test_missing_batches_are_an_error_unless_allowed(client: bs.Client) -> None:
    with pytest.raises(bs.LostBatchesError, match="batches 0 to 4 are missing"):
        client.publish("t", ROWS, publisher="job", batch=5)
    client.publish("t", ROWS, publisher="job", batch=0)
    with pytest.raises(bs.LostBatchesError, match="batch 1 is missing"):
        client.publish("t", ROWS, publisher="job", batch=2)
    assert client.publish("t", {"v": [3]}, publisher="job", batch=2, allow_gap=True).last_batch == 2
    client.drop("t")
    with pytest.raises(bs.LostBatchesError, match="batches 0 to 2 are missing"):
        client.publish("t", ROWS, publisher="job", batch=3)


def test_another_epoch_is_refused_until_it_takes_the_name_over(client: bs.Client) -> None:
    client.publish("t", {"v": [1]}, publisher="job", batch=0, epoch="a")
    with pytest.raises(bs.FencedError, match="takeover=True"):
        client.publish("t", {"v": [2]}, publisher="job", batch=0, epoch="b")
    with pytest.raises(bs.FencedError):
        client.last_batch("t", "job", epoch="b")
    assert client.publish("t", {"v": [2]}, publisher="job", batch=0, epoch="b", takeover=True).applied
    assert client.last_batch("t", "job") == client.last_batch("t", "job", epoch="b") == 0
    with pytest.raises(bs.FencedError, match="taken over by epoch 'b'"):
        client.publish("t", {"v": [3]}, publisher="job", batch=1, epoch="a")
    assert values(client) == [1, 2]


def test_the_name_of_another_user_is_refused() -> None:
    with bs.Server(token=lambda credentials: credentials.user) as server:
        with bs.connect(server.uri, user="ann", password="x") as ann:
            ann.publish("t", ROWS, publisher="job", batch=0)
        with bs.connect(server.uri, user="bob", password="x") as bob:
            for batch in (0, 1):
                with pytest.raises(bs.FencedError, match="belongs to another user"):
                    bob.publish("t", ROWS, publisher="job", batch=batch)
            with pytest.raises(bs.FencedError):
                bob.last_batch("t", "job")
            assert bob.publish("t", ROWS, publisher="mine", batch=0).applied


def test_a_commit_whose_answer_was_lost_counts_as_applied(client: bs.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = CommitCalls.commit
    lost: list[CommitResult] = []

    def losing(self: CommitCalls, request: CommitRequest) -> CommitResult:
        result = commit(self, request)
        if len(lost) < 1:
            lost.append(result)
            raise bs.UnavailableError("the connection broke")
        return result

    monkeypatch.setattr(CommitCalls, "commit", losing)
    assert client.publish("t", ROWS, publisher="job", batch=0) == bs.PublishResult(True, 2, 0)
    lost.clear()
    assert client.publish("t", ROWS) == 2
    assert values(client) == [1, 2, 1, 2]


def test_a_batch_that_another_process_commits_meanwhile_is_a_repetition(
    server: bs.Server, client: bs.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though what was staged here is dropped by that commit."""

    def overtaken(*arguments: Any) -> Any:
        monkeypatch.setattr(upload, "stage", stage)
        staged = stage(*arguments)
        with bs.connect(server.uri) as other:
            assert other.publish("t", ROWS, publisher="job", batch=0).applied
            assert other.publish("t", {"v": [3]}, publisher="job", batch=1).applied
        return staged

    monkeypatch.setattr(upload, "stage", overtaken)
    assert client.publish("t", ROWS, publisher="job", batch=0) == bs.PublishResult(False, 0, 1)
    assert values(client) == [1, 2, 3]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"batch": 1}, "publisher="),
        ({"epoch": "a"}, "publisher="),
        ({"allow_gap": True}, "publisher="),
        ({"publisher": "p"}, "batch="),
        ({"publisher": "", "batch": 1}, "publisher"),
        ({"publisher": "p", "batch": -1}, "batch"),
        ({"publisher": "p", "batch": "1"}, "batch"),
        ({"publisher": "p", "batch": 1, "epoch": 3}, "epoch"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(client: bs.Client, given: dict[str, Any], text: str) -> None:
    with pytest.raises(bs.InvalidRequestError, match=text):
        client.publish("t", ROWS, **given)


def test_uploads_without_a_publisher_leave_little_behind(server: bs.Server, client: bs.Client) -> None:
    """Their names are those of single writes, however many tables and failures there are."""
    for table in ("t", "u", "t"):
        client.publish(table, ROWS)
    with pytest.raises(bs.SchemaMismatchError):
        client.publish("t", {"other": [1]})
    client.publish("t", ROWS)
    assert all(publisher.startswith("write-") for publisher, _, _ in server.statistics().commits)


def test_a_server_that_is_started_again_knows_batches_epochs_and_users(tmp_path: Path) -> None:
    def by_name(credentials: bs.Credentials) -> str:
        return credentials.user

    def publish(client: bs.Client, batch: int, epoch: str, **options: Any) -> bs.PublishResult:
        return client.publish("t", {"v": [batch]}, publisher="job", batch=batch, epoch=epoch, **options)

    with bs.Server(data_dir=tmp_path, token=by_name) as server, bs.connect(server.uri, user="ann") as client:
        assert publish(client, 0, "a").applied
        assert publish(client, 1, "a").applied
        assert publish(client, 0, "b", takeover=True).applied
    with bs.Server(data_dir=tmp_path, token=by_name) as server:
        with bs.connect(server.uri, user="ann") as client:
            assert publish(client, 0, "b") == bs.PublishResult(False, 0, 0)
            with pytest.raises(bs.FencedError, match="taken over by epoch 'b'"):
                publish(client, 2, "a", takeover=True)
            with pytest.raises(bs.LostBatchesError):
                publish(client, 2, "b")
            assert publish(client, 1, "b").applied
            assert values(client) == [0, 1, 0, 1]
        with bs.connect(server.uri, user="bob") as client, pytest.raises(bs.FencedError, match="another user"):
            publish(client, 2, "b")

"""Publishers go on under their names after their users have got other credentials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.errors import FencedError

ROWS = pa.table({"n": [1]})


def tokens_of(**names: str) -> Any:
    """Credentials under which each token is a user of its own."""

    def authenticate(credentials: bs.Credentials) -> bs.Principal:
        for name, token in names.items():
            if credentials.secret == token:
                return bs.Principal(name)
        raise bs.AuthenticationError("unknown")

    return authenticate


def publish(server: bs.Server, table: str, batch: int, token: str, **options: Any) -> bool:
    with bs.connect(server.uri, token=token) as client:
        return client.publish(table, ROWS, publisher="nightly", batch=batch, **options).applied


@pytest.mark.parametrize("patterns", ["nightly", ["other", "night*"]])
@pytest.mark.parametrize("front", ["pyarrow", "grpc"])
def test_a_released_name_goes_to_the_next_user_with_its_batches(tmp_path: Path, front: str, patterns: Any) -> None:
    folder = tmp_path / "data"
    with bs.Server(data_dir=folder, token="shared", front=front) as server:
        for table in ("a", "b"):
            assert publish(server, table, 0, "shared")
    users = tokens_of(ann="shared", bob="other")
    with bs.Server(data_dir=folder, token=users, front=front) as server:
        with pytest.raises(FencedError, match=r"operator release this one \(release_publishers\)"):
            publish(server, "a", 1, "shared")
        with pytest.raises(FencedError, match="another user"):
            publish(server, "a", 1, "shared", takeover=True)
    with bs.Server(data_dir=folder, token=users, front=front, release_publishers=patterns) as server:
        assert not publish(server, "a", 0, "shared")  # a repetition
        assert publish(server, "a", 1, "shared")
        with pytest.raises(FencedError, match="another user"):
            publish(server, "a", 2, "other")
    with bs.Server(data_dir=folder, token=users, front=front) as server:
        with pytest.raises(FencedError, match="another user"):
            publish(server, "b", 1, "other")
        assert not publish(server, "b", 0, "shared")  # the table that the new user has not written to before
        assert publish(server, "b", 1, "shared")
        assert [table.size for table in server.tables()] == [2, 2]


def test_a_name_that_nobody_has_taken_again_is_its_users_after_a_start_without(tmp_path: Path) -> None:
    with bs.Server(data_dir=tmp_path / "data", token="shared") as server:
        publish(server, "a", 0, "shared")
    with bs.Server(data_dir=tmp_path / "data", token="shared", release_publishers=["*"]) as server:
        assert not publish(server, "a", 0, "shared")
    with bs.Server(data_dir=tmp_path / "data", token="shared") as server:
        assert publish(server, "a", 1, "shared")


def test_names_that_match_no_pattern_stay_with_their_users(tmp_path: Path) -> None:
    with bs.Server(data_dir=tmp_path / "data", token="shared") as server:
        publish(server, "a", 0, "shared")
    users = tokens_of(ann="shared")
    with (
        bs.Server(data_dir=tmp_path / "data", token=users, release_publishers=["night", "NIGHTLY"]) as server,
        pytest.raises(FencedError, match="another user"),
    ):
        publish(server, "a", 1, "shared")

"""A token in a file: read again when it changes, and what was read before stays valid if that cannot be read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest

import barrage_server as bs
from tests.waiting import until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("first\nanything behind it\n")
    return path


def write(path: Path, text: str) -> None:
    other = path.with_suffix(".new")
    other.write_text(text)
    other.replace(path)


def accepts(server: bs.Server, token: str) -> bool:
    try:
        bs.connect(server.uri, token=token).close()
    except bs.AuthenticationError:
        return False
    return True


@pytest.mark.parametrize("front", ["pyarrow", "grpc"])
def test_a_changed_file_takes_the_place_of_its_token(path: Path, front: str) -> None:
    """Streams of callers that have shown the former one end."""
    with bs.Server(token=["other", bs.TokenFile(path)], front=front) as server:
        table = server.append_table("t", {"n": "int64"})
        assert accepts(server, "first")
        with (
            bs.connect(server.uri, token="first") as client,
            bs.connect(server.uri, token="other") as other,
            client.subscribe("t") as ending,
            other.subscribe("t") as going_on,
        ):
            write(path, "second\n")
            until(lambda: ending.error is not None)
            assert isinstance(ending.error, bs.AuthenticationError)
            assert [accepts(server, token) for token in ("first", "second", "other")] == [False, True, True]
            table.append({"n": [1]})
            going_on.wait_until(lambda live: live.size == 1, timeout=30)


@pytest.mark.parametrize(
    "text",
    ["", "\n\n", None, "\0" * 4096, "a\tb", "t\u00f6ken", "x" * 70_000],
    ids=["empty", "blank", "no file", "zeros", "a tab", "a letter beyond ASCII", "too long"],
)
def test_a_file_without_a_token_leaves_the_former_one(
    path: Path, text: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    held = bs.TokenFile(path)
    shown = bs.Credentials("bearer", "", "first")
    principal = held(shown)
    if text is None:
        path.unlink()
    else:
        write(path, text)
    held.refresh()
    assert held.holds(principal)
    assert held.quick(shown) == principal
    assert "the tokens stay as they were" in caplog.text
    with pytest.raises(bs.InvalidRequestError, match="token"):
        held.reread()
    write(path, "second")
    held.refresh()
    assert not held.holds(principal)
    with pytest.raises(bs.AuthenticationError):
        held(shown)


def test_a_byte_order_mark_is_no_part_of_the_token(path: Path) -> None:
    write(path, "\ufefffirst\n")
    assert bs.TokenFile(path)(bs.Credentials("bearer", "", "first")).name == "token"


def test_a_pipe_in_place_of_the_file_is_not_waited_for(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Waiting would block all other housekeeping. The file is read when it is back."""
    held = bs.TokenFile(path)
    path.unlink()
    os.mkfifo(path)
    held.refresh()
    assert "is no regular file" in caplog.text
    with pytest.raises(bs.InvalidRequestError, match="no regular file"):
        held.reread()
    assert held(bs.Credentials("bearer", "", "first")).name == "token"
    write(path, "second\n")
    held.refresh()
    assert held(bs.Credentials("bearer", "", "second")).name == "token"


def test_a_reread_token_is_applied_later(path: Path) -> None:
    held = bs.TokenFile(path, ["reader"])
    write(path, "second")
    roles, apply = held.reread()
    assert roles == {"reader"}
    assert held(bs.Credentials("bearer", "", "first")).role_names == {"reader"}
    apply()
    assert held(bs.Credentials("basic", "anna", "second")).name == "anna"


@pytest.mark.parametrize(("text", "words"), [("", "has no token in its first line"), (None, "cannot be read: No such")])
def test_a_file_that_is_wrong_is_refused(tmp_path: Path, text: str | None, words: str) -> None:
    path, wrong = tmp_path / "token", cast("Path", 7)
    if text is not None:
        path.write_text(text)
    with pytest.raises(bs.InvalidRequestError, match=words):
        bs.TokenFile(path)
    with pytest.raises(bs.InvalidRequestError, match="path must be the path of a file"):
        bs.TokenFile(wrong)


def test_roles_are_a_list_of_defined_names(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("secret")
    reader = {"reader": bs.Role(["*"], ["read"])}
    for make in (lambda: bs.TokenFile(path, "admin"), lambda: bs.Principal("x", "admin")):
        with pytest.raises(bs.InvalidRequestError, match=r"roles must be a list of names; write roles=\['admin'\]"):
            make()
    wrong = bs.TokenFile(path, ["nope"])
    given: list[Any] = [wrong, [wrong, "other"]]
    for token in given:
        with pytest.raises(bs.InvalidRequestError, match="name the role 'nope', which is not defined"):
            bs.Server(token=token, roles=reader)
    with bs.Server(token=bs.TokenFile(path, ["reader"]), roles=reader) as server:
        with pytest.raises(bs.InvalidRequestError, match="name the role 'nope', which is not defined"):
            server.reload(token=wrong)
        server.reload(token=wrong, roles={"nope": bs.Role(["*"], ["read"])})

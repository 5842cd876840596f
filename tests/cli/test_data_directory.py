"""The commands on data directories, and the settings that name one."""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import barrage_server as bs
from tests.cli.conftest import Command, Program


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data directory whose journal has two segments."""
    for _ in range(2):
        with bs.Server(data_dir=tmp_path / "data") as server:
            table = server.keyed_table("quotes", {"sym": "string", "price": "float64"}, key="sym")
            for number in range(5):
                table.upsert({"sym": [f"S{number}"], "price": [float(number)]})
    return tmp_path / "data"


IN_USE = "barrage-server: A server uses the data directory {}, or another command does.{}\n"


def damage(folder: Path) -> Path:
    segment: Path = min((folder / "journal").glob("*.log"))
    content = bytearray(segment.read_bytes())
    content[-100] ^= 1
    segment.write_bytes(content)
    return segment


def test_check_lists_what_a_data_directory_has(command: Command, folder: Path) -> None:
    code, out, err = command("check", folder)
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "quotes: keyed, 5 rows"
    assert "1 table, step 5: no checkpoint, " in out


def test_check_counts_each_publisher_once(command: Command, tmp_path: Path) -> None:
    """Also one of two tables; writes without a publisher, which the ledger has under other names, do not count."""
    with bs.Server(data_dir=tmp_path / "data") as server, bs.connect(server.uri) as client:
        client.publish("single", {"n": [1]})
        for name in ("one", "other"):
            client.publish(name, {"n": [1]}, publisher="feed", batch=0)
    assert command("check", tmp_path / "data")[1].endswith("last batches of 1 publisher.\n")


def make_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse to open lock files for writing; permissions would not keep root out."""
    opened = os.open

    def refuse(path: str, flags: int, *args: Any, **options: Any) -> int:
        if path == "lock" and flags & os.O_RDWR:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return opened(path, flags, *args, **options)

    monkeypatch.setattr(os, "open", refuse)


@pytest.mark.parametrize("has_lock", [True, False])
def test_check_reads_a_copy_that_cannot_be_written(
    has_lock: bool, command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup: by the lock file that it has, or without one, which is said."""
    if not has_lock:
        (folder / "lock").unlink()
    make_read_only(monkeypatch)
    code, out, err = command("check", folder)
    assert (code, err) == (0, "")
    assert out.startswith("quotes: keyed, 5 rows\n1 table, step 5")
    assert ("has no lock file: no server used it" in out) == (not has_lock)
    code, out, err = command("repair", folder)
    assert (code, out) == (1, "")
    assert err == "barrage-server: The data directory must be writable for its repair: Read-only file system: 'lock'.\n"


def test_check_leaves_the_remains_of_a_checkpoint_alone(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a copy made during a checkpoint has them; the next start removes them."""
    remains = folder / "state" / "partial-00000000000000000009"
    remains.mkdir()
    (remains / "1-x.parquet").write_bytes(b"begun")
    with monkeypatch.context() as patched:
        make_read_only(patched)
        code, out, _ = command("check", folder)
        assert code == 0
        assert out.startswith("quotes: keyed, 5 rows")
    assert command("check", folder)[0] == 0
    assert (remains / "1-x.parquet").read_bytes() == b"begun"
    with bs.Server(data_dir=folder):
        assert not remains.exists()


def test_check_of_a_read_only_directory_in_use_is_refused(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bs.Server(data_dir=folder):
        make_read_only(monkeypatch)
        code, _, err = command("check", folder)
    assert (code, err) == (1, IN_USE.format(folder, " Stop it first, or check a backup."))


def test_check_names_the_place_of_damage(command: Command, folder: Path) -> None:
    segment = damage(folder)
    code, out, err = command("check", folder)
    assert (code, out) == (1, "")
    assert re.fullmatch(rf"barrage-server: .*{segment.name} at byte [\d,]+: .*\n", err)


def test_repair_says_what_it_would_do_and_keeps_what_it_cuts_off(command: Command, folder: Path) -> None:
    """With the loss in bytes, cycles and segments; without ``--yes`` a damaged directory is a failure."""
    segment, later = sorted((folder / "journal").glob("*.log"))
    damage(folder)
    before = segment.read_bytes()
    code, out, _ = command("repair", folder)
    assert code == 1
    cut = re.search(rf"With --yes, {segment.name} is cut at byte ([\d,]+)\.", out)
    assert cut is not None
    offset = int(cut[1].replace(",", ""))
    lost = f"{len(before) - offset + later.stat().st_size:,} bytes with 5 whole cycles, 1 later segment included"
    assert f"The tables lose {lost}.\n" in out
    assert f"What is cut off is kept in {segment.parent}, as cut-{segment.name} and so on.\n" in out
    assert segment.read_bytes() == before
    code, out, _ = command("repair", folder, "--yes")
    assert code == 0
    kept = [f"cut-{one.name}" for one in (segment, later)]
    assert f"Cut. The tables have lost {lost}, kept in {segment.parent}: {', '.join(kept)}.\n" in out
    assert out.splitlines()[-2].startswith("quotes: keyed, ")
    assert all((segment.parent / name).is_file() for name in kept)
    assert command("check", folder)[0] == 0
    with bs.Server(data_dir=folder) as server:
        assert 0 < server.table("quotes").size < 5
    code, out, _ = command("repair", folder)
    assert (code, "Nothing is damaged." in out) == (0, True)


def test_repair_counts_the_cycles_behind_the_damage(command: Command, tmp_path: Path) -> None:
    """In the damaged segment and in later ones; the damaged cycle cannot be read, and does not count."""
    folder = tmp_path / "data"
    for start in range(2):
        with bs.Server(data_dir=folder, fsync="always") as server:
            table = server.append_table("t", {"n": "int64"})
            for number in range(3):
                table.append({"n": [10 * start + number]})
    segment = min((folder / "journal").glob("*.log"))
    content = bytearray(segment.read_bytes())
    places = [match.start() for match in re.finditer(b"BJR1", content)]  # the head, the table, and three cycles
    content[places[-2] - 1 + 60] ^= 1
    segment.write_bytes(content)
    assert "with 4 whole cycles, 1 later segment included." in command("repair", folder)[1]
    assert command("repair", folder, "--yes")[0] == 0
    with bs.Server(data_dir=folder) as server:
        assert server.table("t").to_arrow()["n"].to_pylist() == [0]


def test_the_command_that_repairs_a_directory_is_told_in_full(command: Command, tmp_path: Path) -> None:
    """By all that read one; and the help of a command, which tells nothing of damage, is not named."""
    folder = tmp_path / "two words"
    with bs.Server(data_dir=folder, fsync="always") as server:
        server.append_table("t", {"n": "int64"}).append({"n": [1]})
    (segment,) = (folder / "journal").glob("*.log")
    content = bytearray(segment.read_bytes())
    content[3] ^= 1
    segment.write_bytes(content)
    serve = ("serve", "--port", 0, "--allow-anonymous", "--no-web", "--data-dir")
    for verb, code in ((("check",), 1), (serve, 2)):
        found, _, err = command(*verb, folder)
        assert (found, "--help" in err) == (code, False)
        assert err.endswith(f"or cut the journal there with 'barrage-server repair '{folder}''.\n")
    with pytest.raises(bs.JournalError, match=f"barrage-server repair '{folder}'"):
        bs.Server(data_dir=folder)
    segment.rename(segment.with_name(f"{5:020d}.log"))
    for verb, code in ((("check",), 1), (("repair",), 1), (serve, 2)):
        found, _, err = command(*verb, folder)
        assert (found, "--help" in err) == (code, False)
        assert err.startswith(f"barrage-server: Data directory {folder}: Record 0 of the journal is missing")


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo], ids=["a folder", "a pipe"])
@pytest.mark.parametrize("name", ["barrage.json", "journal/00000000000000000000.log"])
def test_what_is_in_the_place_of_a_file_is_named(
    command: Command, folder: Path, name: str, make: Callable[[Path], None]
) -> None:
    (folder / name).unlink()
    make(folder / name)
    for verb in (["check"], ["repair"], ["serve", "--port", 0, "--allow-anonymous", "--data-dir"]):
        code, _, err = command(*verb, folder)
        assert code
        assert f"cannot be used: Not a file: '{Path(name).name}'." in err
        assert err.count("\n") == 1


@pytest.mark.parametrize("verb", ["check", "repair"])
def test_what_is_no_data_directory_is_said(command: Command, tmp_path: Path, verb: str) -> None:
    code, _, err = command(verb, tmp_path / "nowhere")
    assert (code, "There is no folder" in err) == (2, True)
    code, _, err = command(verb, tmp_path)
    assert (code, "is not the data directory of a server, or not all of it: it is empty." in err) == (2, True)
    (tmp_path / "letter.txt").touch()
    code, _, err = command(verb, tmp_path)
    assert (code, "it has no barrage.json." in err, "empty" in err) == (2, True, False)


def test_a_directory_in_use_is_left_alone(command: Command, folder: Path) -> None:
    with bs.Server(data_dir=folder):
        for verb, flags, advice in (("repair", ["--yes"], ""), ("check", [], ", or check a backup")):
            code, _, err = command(verb, folder, *flags)
            assert (code, err) == (1, IN_USE.format(folder, f" Stop it first{advice}."))
        serve = ("serve", "--port", 0, "--allow-anonymous", "--no-web", "--data-dir", folder)
        code, _, err = command(*serve)  # another start may succeed, so not the status of wrong settings
    assert (code, "Another server uses this data directory. Stop it, or give" in err) == (1, True)


def test_a_start_that_another_one_would_not_mend_has_a_status_of_its_own(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    """That of wrong settings: after it, the unit of systemd starts no more."""
    segment = damage(folder)
    code, _, err = command("serve", "--port", "0", "--allow-anonymous", "--data-dir", folder)
    assert (code, segment.name in err) == (2, True)
    other = tmp_path / "other"
    other.mkdir()
    (other / "letter.txt").touch()
    code, _, err = command("serve", "--port", "0", "--allow-anonymous", "--data-dir", other)
    assert (code, "there is letter.txt" in err) == (2, True)


def test_serve_keeps_its_tables(program: Program, tmp_path: Path) -> None:
    config = tmp_path / "serve.toml"
    config.write_text(
        'fsync = "always"\n[[tables]]\nname = "kept"\ncolumns = {x = "int64"}\n'
        '[[tables]]\nname = "memory"\ncolumns = {x = "int64"}\ndurable = false\n'
    )
    sizes = []
    for _ in range(3):
        process = program("serve", "--port", 0, "--config", config, "--data-dir", tmp_path / "data")
        assert process.stdout is not None
        with bs.connect(process.stdout.readline().strip()) as client:
            sizes.append([client.snapshot(name).num_rows for name in ("kept", "memory")])
            for name in ("kept", "memory"):
                client.publish(name, {"x": [1]})
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    assert sizes == [[0, 0], [1, 0], [2, 0]]


def test_a_declaration_that_differs_from_the_kept_table_tells_how_to_drop_that(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    """The server does not start with it, so that nothing can be dropped until the entry is out."""
    config = tmp_path / "serve.toml"
    config.write_text('[[tables]]\nname = "quotes"\ncolumns = {x = "int64"}\n')
    code, _, err = command("serve", "--port", 0, "--allow-anonymous", "--config", config, "--data-dir", folder)
    assert code == 2
    assert "Table 'quotes' of the configuration: Table 'quotes' exists and differs: " in err
    assert "take the entry out of the configuration, start the server, run 'barrage-server drop', and put" in err


def test_serve_tells_how_many_tables_it_has_recovered(program: Program, folder: Path) -> None:
    process = program("serve", "--port", 0, "--data-dir", folder)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert "serving 1 table recovered;" in err


def test_a_table_is_made_in_memory_only_when_one_says_so(command: Command, tmp_path: Path) -> None:
    with bs.Server(data_dir=tmp_path / "data") as server:
        for name, *more in (("kept",), ("asked", "--durable"), ("passing", "--not-durable")):
            assert command("create", server.uri, name, "a:int64", *more)[0] == 0
    assert [line.split(":")[0] for line in command("check", tmp_path / "data")[1].splitlines()[:-1]] == [
        "asked",
        "kept",
    ]
    with bs.Server() as server:
        code, _, err = command("create", server.uri, "asked", "a:int64", "--durable")
        assert code == 1
        assert "this server has no data directory" in err

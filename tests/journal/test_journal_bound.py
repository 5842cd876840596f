"""The journal that a start repeats has no more bytes than its bound, whatever becomes of the server meanwhile."""

from __future__ import annotations

import pytest

from barrage_server.server import durability
from barrage_server.wire.protocol import PublishMode
from tests.journal.simulated import Machine, SimulatedFolder
from tests.journal.test_crashes import Site

LEAST = 1 << 13
ROUNDS = 400
ROWS = 20
RECORD = 2_000
"""More bytes than one round writes."""


@pytest.fixture(autouse=True)
def small_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durability, "_LEAST_JOURNAL_BYTES", LEAST)


def journal_bytes(root: SimulatedFolder) -> int:
    folder = root.folder("journal")
    return sum(len(folder.read(name)) for name in folder.names())


def publish(site: Site, name: str, number: int) -> None:
    """New rows for an append table; the same rows again for a keyed one."""
    first = number * ROWS if name == "log" else 0
    mode = PublishMode.APPEND if name == "log" else PublishMode.UPSERT
    is_new = site.catalog.find(name) is None
    site.commit("a", number, {name: (None if is_new else mode, list(range(first, first + ROWS)))})


@pytest.mark.parametrize("name", ["log", "keyed"])
@pytest.mark.parametrize("restart_every", [ROUNDS, 3])
def test_the_journal_is_as_long_as_the_last_checkpoint_or_the_least_bound(name: str, restart_every: int) -> None:
    """Also of a server that starts again and again before a checkpoint is due: what it repeats counts."""
    root = SimulatedFolder(Machine())
    site = Site(root)
    saved, longest = 0, 0
    for number in range(ROUNDS):
        publish(site, name, number)
        if site.durability.is_due:
            saved = site.durability.save().nbytes
        longest = max(longest, journal_bytes(root))
        assert journal_bytes(root) <= max(LEAST, saved) + RECORD
        if number % restart_every == restart_every - 1:
            site.durability.close()
            site = Site(root)
    assert longest > LEAST - RECORD  # no checkpoint comes before it is due
    assert (saved > LEAST) == (name == "log")


def test_a_checkpoint_that_could_not_be_written_is_still_due(monkeypatch: pytest.MonkeyPatch) -> None:
    root = SimulatedFolder(Machine())
    site = Site(root)
    number = 0
    while not site.durability.is_due:
        publish(site, "keyed", number)
        number += 1

    def full(*_: object) -> None:
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(durability, "save_checkpoint", full)
        for _ in range(3):
            with pytest.raises(OSError, match="No space"):
                site.durability.save()
            assert site.durability.is_due and site.durability.nbytes >= LEAST
            publish(site, "keyed", number)
            number += 1
    site.durability.save()
    assert site.durability.nbytes < RECORD
    assert journal_bytes(root) < RECORD

"""docker/systemd/: a unit that systemd accepts, and that fits the program."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from barrage_server.cli.boundary import EXIT_USAGE
from barrage_server.cli.settings import ServeSettings, load_settings

from .markdown import ROOT

FOLDER = ROOT / "docker" / "systemd"
UNIT = FOLDER / "barrage-server.service"
ANALYZE = shutil.which("systemd-analyze")
EXPOSURE = 20
"""Tenths of the exposure that systemd-analyze computes: 0 is best, 100 an unprotected service."""


def entries() -> dict[str, dict[str, list[str]]]:
    """Values of the unit by section and name, in order: a name may come several times."""
    found: dict[str, dict[str, list[str]]] = {}
    section: dict[str, list[str]] = {}
    for line in UNIT.read_text().splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            name, equals, value = line.partition("=")
            assert equals, line
            section.setdefault(name, []).append(value)
    return found


def seconds(value: str) -> float:
    units = {"min": 60.0, "s": 1.0}
    for unit, factor in units.items():
        if value.endswith(unit):
            return float(value.removesuffix(unit)) * factor
    return float(value)


def test_the_unit_starts_the_program_with_flags_and_settings_that_it_has() -> None:
    service = entries()["Service"]
    program, command, flag, config = shlex.split(service["ExecStart"][0])
    assert (Path(program).name, command, flag) == ("barrage-server", "serve", "--config")
    settings = load_settings(FOLDER / Path(config).name, {})
    assert (settings.log_format, settings.http_port) == ("json", 9815)
    assert settings.host == "127.0.0.1"
    assert str(settings.data_dir) == f"/var/lib/{service['StateDirectory'][0]}"


def test_systemd_waits_longer_than_the_server_needs() -> None:
    service = entries()["Service"]
    patience = seconds(service["TimeoutStopSec"][0])
    assert patience > load_settings(FOLDER / "barrage.toml", {}).stop_seconds
    assert patience > ServeSettings.model_fields["stop_seconds"].default
    assert service["KillMode"] == ["mixed"]


def test_it_starts_again_after_a_failure_and_not_after_a_wrong_setting() -> None:
    service = entries()["Service"]
    assert service["Restart"] == ["on-failure"]
    assert service["RestartPreventExitStatus"] == [str(EXIT_USAGE)]
    assert service["Type"] == ["notify"]


def test_the_service_is_confined() -> None:
    service = entries()["Service"]
    for name in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "DynamicUser", "RestrictSUIDSGID"):
        assert service[name] == ["yes"], name
    assert service["ProtectSystem"] == ["strict"]
    assert service["StateDirectory"] == ["barrage-server"]
    assert service["CapabilityBoundingSet"] == [""]


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a program that exists here."""
    program = tmp_path / "barrage-server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    made = tmp_path / UNIT.name
    made.write_text(UNIT.read_text().replace("/opt/barrage/bin/barrage-server", str(program)))
    return made


@pytest.mark.skipif(ANALYZE is None, reason="there is no systemd-analyze")
def test_systemd_accepts_the_unit(unit: Path) -> None:
    done = subprocess.run(
        [str(ANALYZE), "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60, check=False
    )
    told = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert (done.returncode, told) == (0, []), done.stderr


@pytest.mark.skipif(ANALYZE is None, reason="there is no systemd-analyze")
def test_systemd_finds_a_mistake(unit: Path) -> None:
    """So that the test above can fail."""
    unit.write_text(unit.read_text().replace("Type=notify", "Type=nonsense"))
    done = subprocess.run(
        [str(ANALYZE), "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60, check=False
    )
    assert "nonsense" in done.stderr


@pytest.mark.skipif(ANALYZE is None, reason="there is no systemd-analyze")
def test_systemd_finds_the_service_well_protected(unit: Path) -> None:
    done = subprocess.run(
        [str(ANALYZE), "security", "--offline=yes", f"--threshold={EXPOSURE}", "--no-pager", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-500:] + done.stderr

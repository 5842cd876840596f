"""docker/: what can be known of it without Docker."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from barrage_server.cli.settings import load_settings

from .markdown import ROOT

DOCKER = ROOT / "docker"


def test_the_compose_file_is_valid_by_the_specification() -> None:
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("check-jsonschema")),
            "--builtin-schema",
            "vendor.compose-spec",
            str(DOCKER / "compose.yaml"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_the_dockerfile_copies_is_there_and_not_ignored() -> None:
    ignore = (DOCKER / "Dockerfile.dockerignore").read_text().split()
    assert ignore[0] == "*"
    for line in (DOCKER / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            for source in line.split()[1:-1]:
                assert (ROOT / source).exists(), line
                assert f"!{source.split('/')[0]}" in ignore, line


def test_the_targets_that_compose_builds_exist() -> None:
    stages = set(re.findall(r"^FROM \S+ AS (\S+)$", (DOCKER / "Dockerfile").read_text(), re.MULTILINE))
    targets = set(re.findall(r"^\s+target: (\S+)$", (DOCKER / "compose.yaml").read_text(), re.MULTILINE))
    assert targets == {"server", "spark"}
    assert targets <= stages


def test_the_images_configuration_is_valid() -> None:
    settings = load_settings(DOCKER / "barrage.toml", {})
    assert settings.host == "0.0.0.0"
    assert [table.name for table in settings.tables] == ["sensors"]
    assert f"EXPOSE {settings.port}" in (DOCKER / "Dockerfile").read_text()


def test_the_install_scripts_sets_exist() -> None:
    for line in (DOCKER / "Dockerfile").read_text().splitlines():
        if line.startswith("RUN docker/install.sh"):
            for name in ("build", "server", *line.split()[3:]):
                assert (ROOT / "requirements" / f"{name}.txt").is_file(), name

"""A wheel has the page, the widget and the licences of what they contain, so that no user needs Node."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.web.node import WEB

ROOT = WEB.parent
STATIC = ("barrage_server/server/web/static", "barrage_server/notebook/static")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this tree, built by the project's own backend."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=200,
    )
    [built] = folder.glob("*.whl")
    return built


def test_a_wheel_has_the_page_and_the_widget_byte_for_byte(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
        for folder in STATIC:
            committed = {f"{folder}/{file.name}": file.read_bytes() for file in (ROOT / folder).iterdir()}
            assert {name for name in names if name.startswith(f"{folder}/")} == set(committed)
            for name, content in committed.items():
                assert archive.read(name) == content, name


def bundled_packages() -> set[str]:
    """The packages that sources of the page import."""
    found: set[str] = set()
    for file in (WEB / "src").rglob("*.ts"):
        named = re.findall(r"""(?:from|import) ["'](@[\w-]+/[\w-]+|[\w-]+)""", file.read_text(encoding="utf-8"))
        found.update(named)
    return found


def test_a_wheel_has_the_licences_of_all_that_is_bundled(wheel: Path) -> None:
    versions = json.loads((WEB / "package.json").read_text(encoding="utf-8"))["devDependencies"]
    assert bundled_packages() == {"uplot"}
    with ZipFile(wheel) as archive:
        for folder in STATIC:
            text = archive.read(f"{folder}/LICENSES.txt").decode()
            for name in bundled_packages():
                found = re.search(rf"^{re.escape(name)} {re.escape(versions[name])} \(.+\)$", text, re.MULTILINE)
                assert found is not None, name
                assert "copyright" in text[found.end() :].lower()
        [own] = [name for name in archive.namelist() if name.endswith(".dist-info/licenses/LICENSE")]
        assert archive.read(own) == (ROOT / "LICENSE").read_bytes()
        [about] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        assert Parser().parsestr(archive.read(about).decode())["License-Expression"] == "Apache-2.0"


def test_a_wheel_has_no_sources_of_the_page_and_no_packages(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        others = [name for name in archive.namelist() if name.endswith(".ts") or "node_modules" in name]
        rooms = {name.split("/")[0] for name in archive.namelist() if ".dist-info/" not in name}
    assert others == []
    assert rooms == {"barrage_server", "barrage_flatbuf", "barrage_proto"}

"""The exit codes of docs/cli.md: each is a constant of the program, and each constant is in the table."""

from __future__ import annotations

import re
from pathlib import Path

from barrage_server.cli import boundary

TEXT = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()


def test_the_table_has_the_codes_of_the_program() -> None:
    """What each of them means is tried where the commands are."""
    documented = {int(code) for code in re.findall(r"^\| (\d+) \| \S", TEXT, re.MULTILINE)}
    constants = {value for name, value in vars(boundary).items() if name.startswith("EXIT_")}
    assert documented == constants == {0, 1, 2, 130, 143}

"""``docs/spark.md`` lists every option of sink and format, with its default."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path

from barrage_server.spark import BarrageSink
from barrage_server.spark.settings import PublishSettings

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"


def documented() -> dict[str, str]:
    """Option -> its default, as the page says."""
    section = PAGE.read_text().split("\n## Every option\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|([^|]*)\| [^|]+ \|$", section, re.MULTILINE)
    assert len(rows) == section.count("\n| `")
    return {name: default.strip().strip("`") for name, default in rows}


def test_the_table_has_the_arguments_of_the_sink_and_the_options_of_the_format() -> None:
    arguments = inspect.signature(BarrageSink).parameters
    assert list(documented()) == list(arguments)
    assert set(documented()) == {"tables"} | {field.name for field in fields(PublishSettings)}


def shown(default: object) -> str:
    """A default as the page writes it."""
    return f"{default:.0f}" if isinstance(default, float) else str(default).lower()


def test_the_defaults_are_those_of_the_code() -> None:
    said = documented()
    for name, parameter in inspect.signature(BarrageSink).parameters.items():
        if parameter.default not in (None, inspect.Parameter.empty):
            assert said[name] == shown(parameter.default), name
    settings = PublishSettings("grpc://here", "t")
    for name in ("ship", "ship_threshold", "retry_seconds", "allow_gap"):
        assert said[name] == shown(getattr(settings, name)), name

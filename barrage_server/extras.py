"""The packages of an extra of this project, and the error when some are missing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from importlib import metadata
from typing import Final

from barrage_server.errors import DependencyError

__all__ = ["missing_extra"]

_DISTRIBUTION: Final = "barrage-server"
_REQUIREMENT: Final = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)(?P<version>[^;]*);.*\bextra\s*==\s*['\"](?P<extra>[^'\"]+)"
)


def missing_extra(doing: str, extra: str, error: ImportError) -> DependencyError:
    """The error for an import that failed because packages of an extra are missing.

    They may also be too old. The text is one line with the installable names of the packages (``grpcio``, although the
    missing module may be ``google``), and the command that installs them.

    Args:
        doing: the purpose of the packages, up to the verb: ``"Publishing from Spark needs"``.
        extra: name of the extra in ``pyproject.toml``.
        error: the error of the import.
    """
    needed = _requirements(extra)
    if not needed:
        return DependencyError(f"{doing} {error.name}. Run: pip install '.[{extra}]' in a clone of the repository.")
    missing = [name for name in needed if not _is_installed(name)]
    if missing:
        lacking = f"{_listed(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed"
    else:
        lacking = f"{_listed([*needed.values()])}, and the installed versions do not fit ({error})"
    wanted = [needed[name] for name in missing] or [*needed.values()]
    upgrade = "" if missing else "--upgrade "
    command = f"pip install {upgrade}{' '.join(shlex.quote(requirement) for requirement in wanted)}"
    return DependencyError(f"{doing} {lacking}. Run: {command}")


def _requirements(extra: str) -> dict[str, str]:
    """The requirements of an extra, by package name, in this installation."""
    try:
        lines = metadata.requires(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # run from the sources, without an installation
        lines = []
    found = (_REQUIREMENT.match(line) for line in lines)
    return {
        match["name"]: f"{match['name']}{match['version'].strip()}"
        for match in found
        if match is not None and match["extra"] == extra
    }


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))

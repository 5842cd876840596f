"""Paths in settings, with ``~`` for a home directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, SecretStr

__all__ = ["HomePath", "PathText", "SecretPathText"]


def _in_home(path: str) -> str:
    """``path`` with a home directory in place of ``~`` or ``~user``."""
    found = os.path.expanduser(path)  # noqa: PTH111 (a Path of PEM or of a URL is another text)
    if found == path and path.startswith("~"):
        raise ValueError(f"there is no home directory {path.partition(os.sep)[0]!r}; a file of that name is ./{path}")
    return found


def _path_in_home(path: object) -> object:
    return _in_home(str(path)) if isinstance(path, str | Path) else path


def _secret_in_home(text: SecretStr) -> SecretStr:
    return SecretStr(_in_home(text.get_secret_value()))


HomePath = Annotated[Path, BeforeValidator(_path_in_home)]  # a Path is ~ for ./~, too
"""The path of a file or folder."""
PathText = Annotated[str, AfterValidator(_in_home)]
"""The path of a file, or what it would have: PEM text, or a URL."""
SecretPathText = Annotated[SecretStr, AfterValidator(_secret_in_home)]
"""The path of a PEM file, or the text of a private key."""

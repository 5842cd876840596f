"""The command line, ``barrage-server``: a server, and the commands for one.

Heavy modules are imported when a command runs, so that ``--help`` and shell completion answer at once.
"""

from __future__ import annotations

from barrage_server.cli.boundary import main

__all__ = ["main"]

"""The command line as ``python -m barrage_server``."""

from __future__ import annotations

from barrage_server.cli import main

if __name__ == "__main__":
    main()

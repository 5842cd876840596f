"""``python -m barrage_server``: the command line, for where its script is not on the path."""

from __future__ import annotations

from barrage_server.cli import main

if __name__ == "__main__":
    main()

"""``barrage-server serve`` with small checkpoints: ``python -m tests.faults.serving BYTES OPTIONS``.

``BYTES`` of the journal cause a checkpoint, so that checkpoints happen within seconds.
"""

from __future__ import annotations

import sys

from barrage_server.cli import main
from barrage_server.server import durability

if __name__ == "__main__":
    setattr(durability, "_LEAST_JOURNAL_BYTES", int(sys.argv.pop(1)))  # noqa: B010
    sys.argv[1:1] = ["serve", "--allow-anonymous"]
    main()

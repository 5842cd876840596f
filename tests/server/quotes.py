"""A table of which roles show parts, and callers by the names of roles."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from barrage_server.server import Principal, Role

__all__ = ["EU", "ROLES", "ROWS", "SCHEMA", "SEEN", "holder"]

SCHEMA = pa.schema([("sym", pa.string()), ("region", pa.string()), ("price", pa.float64()), ("secret", pa.int64())])
ROWS = pa.table(
    {
        "sym": ["a", "b", "c", "d"],
        "region": ["EU", "US", "EU", "US"],
        "price": [1.0, 2.0, 3.0, 4.0],
        "secret": [71, 72, 73, 74],
    },
    SCHEMA,
)
SEEN = ["sym", "price"]
ROLES = {
    "eu": Role(["quotes"], ["list", "read"], where="region == 'EU'", columns=SEEN),
    "us": Role(["quotes"], ["list", "read"], where="region == 'US'", columns=SEEN),
    "cheap": Role(["quotes"], ["list", "read"], where=lambda batch: pc.less(batch["price"], 2.5)),
    "names": Role(["quotes"], ["list", "read"], columns=["sym"]),
    "all": Role(["quotes"], ["list", "read"]),
    "lister": Role(["*"], ["list", "statistics"]),
    "feed": Role(["*"], ["publish", "create", "drop"]),
    "broken": Role(["quotes"], ["list", "read"], where="country == 'EU'"),
    "mistyped": Role(["quotes"], ["list", "read"], where="price == 'EU'"),
    "absent": Role(["quotes"], ["list", "read"], columns=["no such column"]),
    "failing": Role(["quotes"], ["list", "read"], where=lambda batch: 1 // 0),
}
EU = [{"sym": "a", "price": 1.0}, {"sym": "c", "price": 3.0}]


def holder(credentials: Any) -> Principal:
    """Tokens are the names of roles, with + between them."""
    return Principal(credentials.secret, credentials.secret.split("+"))

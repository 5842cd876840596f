"""Names of the systems in tables."""

from __future__ import annotations

from typing import Final

__all__ = [
    "BARE",
    "DEEPHAVEN",
    "DURABLE",
    "GRPC_FRONT",
    "OURS",
    "PERSPECTIVE",
    "ROLES",
    "SPARK_NOOP",
    "SPARK_PARQUET",
    "SPARK_TO_ARROW",
]

OURS: Final = "barrage-server"
GRPC_FRONT: Final = "barrage-server, gRPC front"
DURABLE: Final = "barrage-server, durable"
ROLES: Final = "barrage-server, with roles"
BARE: Final = "bare Flight"
DEEPHAVEN: Final = "Deephaven"
PERSPECTIVE: Final = "Perspective"
SPARK_NOOP: Final = "Spark noop"
SPARK_PARQUET: Final = "Spark Parquet"
SPARK_TO_ARROW: Final = "Spark toArrow"
"""Each micro-batch becomes an Arrow table of the driver, and nothing else."""

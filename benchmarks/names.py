"""Names of the systems in tables."""

from __future__ import annotations

from typing import Final

__all__ = ["BARE", "DEEPHAVEN", "GRPC_FRONT", "OURS", "PERSPECTIVE", "SPARK_NOOP", "SPARK_PARQUET", "SPARK_TO_ARROW"]

OURS: Final = "barrage-server"
GRPC_FRONT: Final = "barrage-server, gRPC front"
BARE: Final = "bare Flight"
DEEPHAVEN: Final = "Deephaven"
PERSPECTIVE: Final = "Perspective"
SPARK_NOOP: Final = "Spark noop"
SPARK_PARQUET: Final = "Spark Parquet"
SPARK_TO_ARROW: Final = "Spark toArrow"
"""Each micro-batch becomes an Arrow table of the driver, and nothing else."""

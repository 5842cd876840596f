"""A descriptor pool of our own.

Deephaven's Python client registers messages of the same names in the process's default pool, where a name can be only
once; a notebook that uses both must not fail for that.
"""

from google.protobuf import descriptor_pool

_POOL = descriptor_pool.DescriptorPool()


def Default() -> descriptor_pool.DescriptorPool:  # noqa: N802  (stands where the library's function stood)
    """The pool that every message of this package is in."""
    return _POOL

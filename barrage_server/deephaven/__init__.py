"""Operations as messages of Deephaven's table service, and back.

Needs the extra ``[deephaven]``.
"""

"""Operations as messages of Deephaven's table service, and back; needs the extra ``[deephaven]``."""

"""Retries: growing delays, with a deadline."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from barrage_server.arguments import number
from barrage_server.errors import InvalidRequestError
from barrage_server.public import public

__all__ = ["RetryPolicy"]


@public
@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The retries of a subscription after its connection is lost.

    All times are seconds. The first attempt follows ``first_delay`` after the loss, and each later one waits ``factor``
    times as long, up to ``max_delay``. Every delay is reduced by a random part of up to ``jitter`` (0 to 1) of itself,
    so that many clients do not reconnect at the same moment. After ``deadline`` seconds without a connection the
    subscription ends with :class:`~barrage_server.errors.UnavailableError`; None has no limit. The delays restart with
    every connection that delivered a snapshot.

    >>> RetryPolicy()                      # 0.1 s, 0.2 s, 0.4 s ... 5 s, for five minutes
    >>> RetryPolicy(deadline=None)         # no limit
    >>> RetryPolicy.never()                # a lost connection ends the subscription
    """

    first_delay: float = 0.1
    factor: float = 2.0
    max_delay: float = 5.0
    jitter: float = 0.25
    deadline: float | None = 300.0

    def __post_init__(self) -> None:
        for name in ("first_delay", "factor", "max_delay", "jitter", "deadline"):
            if name != "deadline" or self.deadline is not None:
                number(getattr(self, name), name)
        if self.first_delay < 0 or self.max_delay < self.first_delay or self.factor < 1:
            raise InvalidRequestError("A retry policy needs 0 <= first_delay <= max_delay and factor >= 1.")
        if not 0 <= self.jitter <= 1:
            raise InvalidRequestError(f"jitter is a part of the delay, from 0 to 1; got {self.jitter}.")
        if self.deadline is not None and self.deadline < 0:
            raise InvalidRequestError(f"deadline must not be negative; got {self.deadline}.")

    @classmethod
    def never(cls) -> RetryPolicy:
        """No retries: the first loss is final."""
        return cls(first_delay=0.0, max_delay=0.0, deadline=0.0)

    def delays(self, chance: random.Random | None = None) -> Iterator[float]:
        """The delays before the attempts, in seconds, until their sum is ``deadline``."""
        source = chance if chance is not None else random.Random()
        spent, delay = 0.0, self.first_delay
        while self.deadline is None or spent < self.deadline:
            wait = delay * (1 - self.jitter * source.random())
            if self.deadline is not None:
                wait = min(wait, self.deadline - spent)
            yield wait
            spent += wait
            delay = min(self.max_delay, max(delay * self.factor, 0.01))

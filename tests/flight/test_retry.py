"""Delays grow, stay below their bound, and end at the deadline."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from barrage_server.client import RetryPolicy
from barrage_server.errors import InvalidRequestError


def test_delays_grow_by_the_factor_up_to_the_bound() -> None:
    policy = RetryPolicy(first_delay=1.0, factor=2.0, max_delay=5.0, jitter=0.0, deadline=None)
    assert list(islice(policy.delays(), 6)) == [1.0, 2.0, 4.0, 5.0, 5.0, 5.0]


def test_the_sum_of_all_delays_is_the_deadline() -> None:
    policy = RetryPolicy(first_delay=0.3, factor=3.0, max_delay=4.0, jitter=0.5, deadline=20.0)
    assert sum(policy.delays(random.Random(1))) == pytest.approx(20.0)


def test_jitter_only_ever_shortens() -> None:
    policy = RetryPolicy(first_delay=1.0, factor=1.0, max_delay=1.0, jitter=0.25, deadline=None)
    delays = list(islice(policy.delays(random.Random(2)), 200))
    assert 0.75 <= min(delays) <= max(delays) <= 1.0
    assert len(set(delays)) > 100


def test_never_means_no_attempt() -> None:
    assert list(RetryPolicy.never().delays()) == []


@pytest.mark.parametrize(
    "options",
    [{"first_delay": -1}, {"first_delay": 2, "max_delay": 1}, {"factor": 0.5}, {"jitter": 1.5}, {"deadline": -1}],
)
def test_senseless_policies_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(InvalidRequestError):
        RetryPolicy(**options)

"""When a request is repeated, and after how long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.http_client.answers import FailureKind
from pyoco_server.http_client.connection import RetryPolicy
from pyoco_server.http_client.retrying import backoff_sec, pause_sec

POLICY = RetryPolicy(retries=3, within_sec=10.0, base_sec=1.0, cap_sec=4.0)


@pytest.mark.parametrize(
    ("kind", "pause"), [(FailureKind.NOT_SENT, 1.0), (FailureKind.MAY_BE_DONE, 1.0), (FailureKind.FINAL, None)]
)
def test_a_request_is_repeated_unless_it_would_get_the_same_answer(kind: FailureKind, pause: float | None) -> None:
    assert pause_sec(kind, failures=1, elapsed_sec=0.0, policy=POLICY, within_sec=POLICY.within_sec) == pause


@pytest.mark.parametrize(
    ("failures", "elapsed_sec", "asked_sec", "pause"),
    [
        (1, 0.0, None, 1.0),
        (2, 0.0, None, 2.0),
        (3, 0.0, None, 4.0),
        (4, 0.0, None, None),  # three retries are allowed
        (1, 9.0, None, 1.0),
        (1, 9.1, None, None),  # would begin too late
        (1, 0.0, 3.0, 3.0),  # the gateway asks for more
        (3, 0.0, 2.0, 4.0),  # and is not asked sooner than we would
        (1, 0.0, 60.0, None),  # for more than there is
    ],
)
def test_pauses_double_heed_the_gateway_and_end_in_time(
    failures: int, elapsed_sec: float, asked_sec: float | None, pause: float | None
) -> None:
    found = pause_sec(
        FailureKind.NOT_SENT,
        failures=failures,
        elapsed_sec=elapsed_sec,
        policy=POLICY,
        within_sec=POLICY.within_sec,
        asked_sec=asked_sec,
    )

    assert found == pause


@given(failures=st.integers(1, 10_000), luck=st.floats(0.0, 1.0))
def test_a_backoff_is_at_least_half_of_its_step_and_never_above_the_cap(failures: int, luck: float) -> None:
    pause = backoff_sec(failures, POLICY, luck)

    assert 0.5 <= pause <= POLICY.cap_sec

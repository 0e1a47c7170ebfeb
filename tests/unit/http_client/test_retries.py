"""Retries: which requests are repeated, and after which pause."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.http_client import Conflict, Timing, Unavailable
from pyoco_server.http_client.connection import Connection, RetryPolicy
from pyoco_server.http_client.requests import Request, get
from pyoco_server.http_client.retrying import Retry, backoff_sec

POLICY = RetryPolicy(retries=3, within_sec=10.0, base_sec=1.0, cap_sec=4.0)
CONNECTION = Connection(
    base_url="http://gateway", headers={}, basic_auth=None, timeout_sec=1.0, policy=POLICY, timing=Timing()
)
SENT = httpx.Request("GET", "http://gateway/runs")
REQUEST: Request[object] = get("/runs")


def unavailable(retry_after: float | None) -> Unavailable:
    return Unavailable("later", request=SENT, response=httpx.Response(503), retry_after=retry_after)


@pytest.mark.parametrize(
    ("failures", "elapsed_sec", "asked_sec", "pause"),
    [
        (1, 0.0, None, 1.0),
        (2, 0.0, None, 2.0),
        (3, 0.0, None, 4.0),
        (4, 0.0, None, None),  # three retries are allowed
        (1, 9.0, None, 1.0),
        (1, 9.1, None, None),  # would begin too late
        (1, 0.0, 3.0, 3.0),  # the gateway requests a longer pause
        (3, 0.0, 2.0, 4.0),  # but not before our own backoff
        (1, 0.0, 60.0, None),  # for more than the remaining time
    ],
)
def test_pauses_double_respect_retry_after_and_end_in_time(
    failures: int, elapsed_sec: float, asked_sec: float | None, pause: float | None
) -> None:
    times = iter([0.0, *[elapsed_sec] * failures])
    timing = Timing(monotonic=lambda: next(times), luck=lambda: 1.0)
    retry = Retry(replace(CONNECTION, timing=timing))
    retry.failures = failures - 1

    if pause is None:
        with pytest.raises(Unavailable):
            retry.pause_sec(unavailable(asked_sec), REQUEST)
    else:
        assert retry.pause_sec(unavailable(asked_sec), REQUEST) == pause


def test_a_request_is_not_repeated_if_the_response_would_be_the_same() -> None:
    conflict = Conflict("no", request=SENT, response=httpx.Response(409))

    with pytest.raises(Conflict):
        Retry(CONNECTION).pause_sec(conflict, REQUEST)


@given(failures=st.integers(1, 10_000), luck=st.floats(0.0, 1.0))
def test_a_backoff_is_at_least_half_of_its_step_and_never_above_the_cap(failures: int, luck: float) -> None:
    pause = backoff_sec(failures, POLICY, luck)

    assert 0.5 <= pause <= POLICY.cap_sec

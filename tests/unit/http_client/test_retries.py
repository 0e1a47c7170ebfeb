"""Retries: which requests are repeated, and after which pause."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.http_client import Conflict, GatewayUnreachable, RateLimited, SubmitUncertain, Timing, Unavailable
from pyoco_server.http_client.answers import error_of
from pyoco_server.http_client.connection import Connection, RetryPolicy
from pyoco_server.http_client.errors import PyocoHttpError
from pyoco_server.http_client.requests import Request, change, get
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


def rate_limited(retry_after: float | None, headers: dict[str, str] | None = None) -> PyocoHttpError:
    response = httpx.Response(429, headers=headers, request=SENT, content=b"{}")
    error = error_of(response, 0.0)
    error.retry_after = retry_after
    return error


def test_a_rate_limit_is_waited_for_and_its_wait_is_reported() -> None:
    waits: list[float] = []
    timing = Timing(monotonic=lambda: 0.0, luck=lambda: 1.0)
    retry = Retry(replace(CONNECTION, timing=timing, on_rate_limit=waits.append))

    pauses = [retry.pause_sec(rate_limited(7.0), REQUEST), retry.pause_sec(unavailable(8.0), REQUEST)]
    pauses.append(retry.reconnect_sec(rate_limited(9.0), REQUEST, None))

    assert pauses == [7.0, 8.0, 9.0]
    assert waits == [7.0, 9.0]


def test_a_rate_limit_that_lasts_too_long_is_an_error_and_no_wait() -> None:
    waits: list[float] = []

    with pytest.raises(RateLimited) as caught:
        Retry(replace(CONNECTION, on_rate_limit=waits.append)).pause_sec(rate_limited(60.0), REQUEST)

    assert caught.value.retry_after == 60.0
    assert waits == []


def test_a_rate_limited_submission_is_known_not_to_be_accepted() -> None:
    timing = Timing(monotonic=lambda: 0.0, luck=lambda: 1.0)
    retry = Retry(replace(CONNECTION, timing=timing))
    submit: Request[object] = change("POST", "/runs", None, {}, creates=True)
    retry.pause_sec(rate_limited(1.0), submit)
    retry.failures = POLICY.retries

    with pytest.raises(GatewayUnreachable) as caught:
        retry.pause_sec(httpx.ConnectError("refused", request=SENT), submit)

    assert not isinstance(caught.value, SubmitUncertain)


@pytest.mark.parametrize(("value", "limit"), [("600", 600), ("-1", None), ("１", None), ("9" * 5000, None), ("", None)])
def test_the_numbers_of_a_rate_limit_are_read_carefully(value: str, limit: int | None) -> None:
    headers = {"x-ratelimit-limit": value, "x-ratelimit-remaining": "0"}
    response = httpx.Response(
        429, request=SENT, headers=[(name.encode(), text.encode()) for name, text in headers.items()]
    )

    error = error_of(response, 0.0)

    assert isinstance(error, RateLimited)
    assert (error.limit, error.remaining) == (limit, 0)

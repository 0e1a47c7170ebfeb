"""SDK and command line at a gateway with a rate limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyoco_server.cli.client.connection import Target
from pyoco_server.http_client import PyocoHttpClient, RateLimited, Timing
from support.broker import Broker
from support.gateways import gateway_settings
from support.served import served
from support.shells import RunClient


@pytest.fixture
def address(broker: Broker, tmp_path: Path) -> object:
    """A gateway that admits a change and a read, and the next ones a minute later."""
    with served(
        gateway_settings(broker.url, tmp_path, rate_limit_api_read_per_min=1, rate_limit_api_write_per_min=1)
    ) as found:
        yield found


def test_the_sdk_waits_as_long_as_the_gateway_says_and_then_reports_what_is_left(address: str) -> None:
    pauses: list[float] = []
    told: list[float] = []
    timing = Timing(sleep=pauses.append)

    with PyocoHttpClient(
        address, retries=2, retry_within_sec=600.0, timing=timing, on_rate_limit=told.append
    ) as client:
        client.submit_run("hello")
        with pytest.raises(RateLimited) as refused:
            client.submit_run("hello")

    assert len(pauses) == 2
    assert told == pauses
    assert 1 <= min(pauses) <= max(pauses) <= 60
    assert (refused.value.err_id, refused.value.status_code) == ("ERR-PYOCO-0092", 429)
    assert (refused.value.limit, refused.value.remaining) == (1, 0)
    assert refused.value.retry_after is not None


def test_the_command_line_reports_a_limit_that_lasts_too_long(
    address: str,
    clean_client: None,
    monkeypatch: pytest.MonkeyPatch,
    end: RunClient,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PYOCO_SERVER", address)
    end("list")
    capsys.readouterr()

    code = end("list")

    shown = capsys.readouterr().err
    assert code == 1
    assert "[ERR-PYOCO-0092]" in shown
    assert "hint: Send the request again after the seconds in Retry-After" in shown


def test_a_wait_is_shown_on_stderr(clean_client: None, capsys: pytest.CaptureFixture[str]) -> None:
    with Target().client() as client:
        tell = client._connection.on_rate_limit

    assert tell is not None
    tell(5.2)

    assert capsys.readouterr() == ("", "waiting 6 s (rate limit)\n")

"""Clients against failing peers: repeated requests, other requests, and raised errors."""

from __future__ import annotations

import asyncio
import gzip
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import httpx
import pytest

from pyoco_server.http_client import (
    AsyncPyocoHttpClient,
    GatewayUnreachable,
    PyocoClientError,
    PyocoHttpClient,
    RunSnapshot,
    SubmitUncertain,
    Timing,
    Unavailable,
    UnexpectedAnswer,
)
from support.peers import Cut, Peer, Reply, Silence, Stream, unused_address
from support.twins import BOTH, Kind, Pauses, Twin

ACCEPTED = Reply.json({"run_id": "r", "status": "PENDING"})
SHOWN = Reply.json({"run_id": "r", "status": "RUNNING"})
NOTHING_KEPT = Reply.json({"detail": "nats away", "err_id": "ERR-PYOCO-0003"}, 503, Retry_After="2")
ORPHAN = Reply.json({"detail": "run r may be left", "err_id": "ERR-PYOCO-0004"}, 503, Retry_After="2")
PROXY_PAGE = Reply(status=502, body=b"<html>Bad Gateway</html>", headers={"Content-Type": "text/html"})


def twin(url: str, pauses: Pauses, kind: Kind = "async") -> Twin:
    return Twin(url, retries=3, timing=pauses.timing(), kind=kind)


@BOTH
def test_a_read_is_repeated_over_lost_connections_and_proxies(kind: Kind) -> None:
    pauses = Pauses()
    with Peer(Cut(), PROXY_PAGE, Cut(), SHOWN) as peer:
        run = twin(peer.url, pauses, kind=kind).ask("get_run", "r")

    assert run["status"] == "RUNNING"
    assert pauses.slept == [0.2, 0.4, 0.8]


def test_a_submit_is_repeated_when_the_gateway_stored_nothing() -> None:
    with Peer(NOTHING_KEPT, ACCEPTED) as peer:
        accepted = twin(peer.url, Pauses()).ask("submit_run", "hello")

    assert accepted["run_id"] == "r"
    assert [requests.body for requests in peer.requests] == [b'{"flow_name":"hello","params":{}}'] * 2


@BOTH
@pytest.mark.parametrize("failing", [Cut(), PROXY_PAGE, ORPHAN], ids=["cut", "proxy", "orphan"])
@pytest.mark.parametrize("method", ["submit_run", "submit_run_yaml"])
def test_a_submit_that_may_have_been_accepted_is_repeated_with_the_same_key(
    kind: Kind, method: str, failing: Cut | Reply
) -> None:
    with Peer(failing, failing, ACCEPTED) as peer:
        accepted = twin(peer.url, Pauses(), kind=kind).ask(method, "main")

    assert accepted["run_id"] == "r"
    assert len(peer.requests) == 3
    assert len({requests.headers["idempotency-key"] for requests in peer.requests}) == 1


@BOTH
def test_a_submit_that_lost_every_connection_is_uncertain_and_names_its_key(kind: Kind) -> None:
    with Peer(Cut()) as peer, pytest.raises(SubmitUncertain, match="look for it") as caught:
        twin(peer.url, Pauses(), kind=kind).ask("submit_run", "hello")

    assert len(peer.requests) == 4
    assert caught.value.idempotency_key == peer.requests[0].headers["idempotency-key"]
    assert isinstance(caught.value, httpx.TransportError)
    assert isinstance(caught.value.__cause__, httpx.TransportError)


@pytest.mark.parametrize("method", ["health", "submit_run"])
def test_an_unreachable_gateway_is_retried_and_then_reported(method: str) -> None:
    pauses = Pauses()
    arguments = ("hello",) if method == "submit_run" else ()

    with pytest.raises(GatewayUnreachable, match=r"tried 4 times \(ERR-PYOCO-0001\)") as caught:
        twin(unused_address(), pauses).ask(method, *arguments)

    assert not isinstance(caught.value, SubmitUncertain)
    assert pauses.slept == [0.2, 0.4, 0.8]


def test_a_gateway_that_stays_unavailable_is_reported_with_its_own_detail() -> None:
    with Peer(NOTHING_KEPT) as peer, pytest.raises(Unavailable, match="nats away") as caught:
        twin(peer.url, Pauses()).ask("get_run", "r")

    assert len(peer.requests) == 4
    assert caught.value.retry_after == 2.0


def test_a_missing_response_times_out() -> None:
    with Peer(Silence()) as peer, pytest.raises(GatewayUnreachable, match="cannot be reached"):
        Twin(peer.url, retries=0, timeout=0.05).ask("health")


@BOTH
def test_the_timeout_applies_to_the_whole_response(kind: Kind) -> None:
    ticks = count(0.0, 6.0)  # each reading of the clock is six seconds after the last
    slow = Timing(monotonic=lambda: next(ticks))
    drops = Stream([b"{"] * 100, content_type="application/json")

    with Peer(drops) as peer, pytest.raises(GatewayUnreachable, match="too slowly"):
        Twin(peer.url, retries=0, timeout=10.0, timing=slow, kind=kind).ask("health")


def test_a_compressed_response_is_decompressed() -> None:
    packed = Reply(body=gzip.compress(b'{"status": "ok"}'), headers={"Content-Encoding": "gzip"})

    with Peer(packed) as peer:
        assert twin(peer.url, Pauses()).ask("health") == {"status": "ok"}


def test_a_successful_response_of_another_server_is_an_error() -> None:
    with Peer(Reply(body=b"<html>Log in</html>")) as peer, pytest.raises(UnexpectedAnswer, match="what stands between"):
        twin(peer.url, Pauses()).ask("list_runs")


def test_redirects_are_not_followed_so_that_keys_stay_with_the_gateway() -> None:
    elsewhere = Reply(status=307, headers={"Location": "http://127.0.0.1:1/"})

    with Peer(elsewhere) as peer, pytest.raises(UnexpectedAnswer):
        Twin(peer.url, api_key="s3cret", timing=Pauses().timing()).ask("health")

    assert len(peer.requests) == 1


@BOTH
@pytest.mark.parametrize("failing", [Cut(), Reply.json({"detail": "no"}, 403)], ids=["cut", "refused"])
def test_secrets_are_sent_and_are_in_no_error(kind: Kind, failing: Cut | Reply) -> None:
    with Peer(failing) as peer:
        address = peer.url.replace("http://", "http://ann:p4ss@")
        with pytest.raises(httpx.HTTPError) as caught:
            Twin(address, api_key="s3cret", retries=0, kind=kind).ask("submit_run", "hello")

    assert peer.requests[0].headers["x-api-key"] == "s3cret"
    assert peer.requests[0].headers["authorization"].startswith("Basic ")
    error: BaseException | None = caught.value
    while isinstance(error, httpx.HTTPError):
        shown = f"{error!r} {error} {error.request.headers.multi_items()} {error.request.url}"
        assert "s3cret" not in shown
        assert "p4ss" not in shown
        assert "authorization" not in error.request.headers
        error = error.__cause__


def test_a_loopback_gateway_is_not_reached_by_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, unused_address())
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)

    with Peer(SHOWN) as peer:
        Twin(peer.url, retries=0).ask("get_run", "r")

    assert peer.requests[0].target == "/runs/r"


@BOTH
def test_every_page_is_fetched_once(kind: Kind) -> None:
    first, last = {"items": [{"run_id": "a"}], "next_cursor": "c1"}, {"items": [{"run_id": "b"}], "next_cursor": None}
    with Peer(Reply.json(first), Reply.json(last)) as peer:
        runs = twin(peer.url, Pauses(), kind=kind).take("iter_runs", status="FAILED", limit=1)

    assert [run["run_id"] for run in runs] == ["a", "b"]
    assert [requests.target for requests in peer.requests] == [
        "/runs?status=FAILED&limit=1&cursor=",
        "/runs?status=FAILED&limit=1&cursor=c1",
    ]


def test_a_list_that_repeats_a_cursor_is_an_error() -> None:
    page = Reply.json({"items": [], "next_cursor": "c1"})

    with Peer(page) as peer, pytest.raises(PyocoClientError, match="no end"):
        twin(peer.url, Pauses()).take("iter_runs")


def test_the_prefix_of_an_address_and_the_language_are_sent() -> None:
    with Peer(SHOWN) as peer:
        Twin(f"{peer.url}/pyoco/", language="ja", token="t0ken").ask("patch_worker", "w 1", hidden=True)

    requests = peer.requests[0]
    assert (requests.method, requests.target, requests.body) == ("PATCH", "/pyoco/workers/w%201", b'{"hidden":true}')
    assert requests.headers["accept-language"] == "ja"
    assert requests.headers["authorization"] == "Bearer t0ken"


@BOTH
def test_one_client_serves_many_callers_at_once(kind: Kind) -> None:
    async def ask_async(url: str) -> list[RunSnapshot]:
        async with AsyncPyocoHttpClient(url) as client:
            return await asyncio.gather(*(client.get_run(f"r{number}") for number in range(20)))

    with Peer(SHOWN) as peer:
        if kind == "async":
            runs = asyncio.run(ask_async(peer.url))
        else:
            with PyocoHttpClient(peer.url) as client, ThreadPoolExecutor(8) as threads:
                runs = list(threads.map(client.get_run, [f"r{number}" for number in range(20)]))

    assert len(runs) == 20
    assert {requests.target for requests in peer.requests} == {f"/runs/r{number}" for number in range(20)}

"""Run logs over real sockets: pages, following to the end, peers that disconnect."""

from __future__ import annotations

from typing import Any

from support.peers import Cut, Peer, Reply
from support.twins import BOTH, Kind, Pauses, Twin

NOT_FOUND = Reply.json({"detail": "run not found", "err_id": "ERR-PYOCO-0005"}, 404)


def page(*numbers: int, token: str, complete: bool = False, scanned_to: int = 30) -> Reply:
    items = [{"n": number, "message": f"line {number}"} for number in numbers]
    body = {"run_id": "r", "items": items, "next_token": token, "complete": complete}
    return Reply.json(body | {"scanned_to": scanned_to, "lines": 30})


def twin(peer: Peer, **options: Any) -> Twin:
    return Twin(peer.url, timing=Pauses().timing(), **options)


@BOTH
def test_a_search_continues_over_pages_without_matches(kind: Kind) -> None:
    with Peer(page(7, token="a", scanned_to=10), page(token="b", scanned_to=20), page(23, token="c")) as peer:
        items = twin(peer, kind=kind).take("search_run_logs", "r", "x y", level="ERROR")

    assert [item["n"] for item in items] == [7, 23]
    assert [request.target for request in peer.requests] == [
        "/runs/r/logs?limit=10000&q=x+y&level=ERROR",
        "/runs/r/logs?since_token=a&limit=10000&q=x+y&level=ERROR",
        "/runs/r/logs?since_token=b&limit=10000&q=x+y&level=ERROR",
    ]


@BOTH
def test_a_log_is_followed_to_its_end_through_a_broken_connection(kind: Kind) -> None:
    replies = page(1, 2, token="a"), page(token="a"), Cut(), page(3, token="b"), page(4, token="c", complete=True)
    with Peer(*replies) as peer:
        items = twin(peer, kind=kind).take("follow_run_logs", "r", tail=2)

    assert [item["n"] for item in items] == [1, 2, 3, 4]
    assert [requests.target for requests in peer.requests] == [
        "/runs/r/logs?tail=2&wait_sec=15.0",
        *["/runs/r/logs?since_token=a&wait_sec=15.0"] * 3,
        "/runs/r/logs?since_token=b&wait_sec=15.0",
    ]

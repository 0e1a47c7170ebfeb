"""Executions with peers that disconnect, stop responding and reject requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyoco_server.http_client import (
    GatewayUnreachable,
    SubmitUncertain,
)
from support.peers import Cut, Peer, Reply, Silence, Stream
from support.twins import BOTH, Kind, Pauses, Twin

ACCEPTED = Reply.json({"executionId": "e", "command": "CreateExecution", "accepted": True}, 202)
NOTHING = Reply(status=204, body=b"")
CLAIMED = Reply.json({"executionId": "e", "nodeId": "build", "attempt": 1})
BUSY = Reply.json({"error": {"code": "UNAVAILABLE", "message": "nats away", "details": {}}}, 503, Retry_After="2")
NOT_FOUND = Reply.json(
    {"error": {"code": "EXECUTION_NOT_FOUND", "message": "no e", "details": {"errId": "ERR-PYOCO-0005"}}}, 404
)
REJECTED = Reply.json(
    {
        "error": {
            "code": "COMMAND_REJECTED",
            "message": "SucceedNode rejected because execution is cancel-requested",
            "details": {"errId": "ERR-PYOCO-0030", "guard": "CANCEL_REQUESTED"},
        }
    },
    409,
)


def twin(peer: Peer, pauses: Pauses | None = None, **options: Any) -> Twin:
    return Twin(peer.url, timing=(pauses or Pauses()).timing(), **{"retries": 3, **options})


def event(name: str, id: str, **payload: Any) -> bytes:
    data = json.dumps({"type": name, "version": 1, "payload": payload})
    return f"id: {id}\nevent: {name}\ndata: {data}\n\n".encode()


@BOTH
def test_both_requests_of_execute_have_one_key(kind: Kind) -> None:
    with Peer(Cut(), ACCEPTED, Cut(), ACCEPTED) as peer:
        started = twin(peer, kind=kind).ask("execute", "release", {"version": "1"}, idempotency_key="release-1")

    assert started["executionId"] == "e"
    assert [requests.target for requests in peer.requests] == ["/executions"] * 2 + ["/executions/e/start"] * 2
    assert {requests.headers["idempotency-key"] for requests in peer.requests} == {"release-1"}


def test_an_execution_that_could_not_be_started_is_reported_with_its_key() -> None:
    with Peer(ACCEPTED, Cut()) as peer, pytest.raises(SubmitUncertain) as caught:
        twin(peer).ask("execute", "release")

    assert caught.value.idempotency_key == peer.requests[0].headers["idempotency-key"]


def test_a_claim_may_take_longer_than_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.http_client.httpx_adapter.ANSWER_SEC", 0.05)

    with Peer(Silence()) as peer, pytest.raises(GatewayUnreachable):
        twin(peer, timeout=0.01, retries=0).ask("claim_node", ["release"], "w", 0.1)
    with Peer(NOTHING) as peer:
        assert twin(peer, timeout=0.5).ask("claim_node", ["release"], "w", 20, 30) is None

    assert json.loads(peer.requests[0].body) == {
        "graphIds": ["release"],
        "workerId": "w",
        "waitSec": 20,
        "leaseSec": 30,
    }


@BOTH
def test_a_claim_whose_response_was_lost_is_repeated_with_its_key(kind: Kind) -> None:
    with Peer(Cut(), CLAIMED) as peer:
        claim = twin(peer, kind=kind).ask("claim_node", ["release"], "w")

    assert (claim["nodeId"], claim["attempt"]) == ("build", 1)
    assert len({requests.headers["idempotency-key"] for requests in peer.requests}) == 1


@pytest.mark.parametrize(
    ("method", "arguments", "named", "first", "second"),
    [
        (
            "iter_executions",
            (),
            {"status": "ACTIVE"},
            "/executions?status=ACTIVE",
            "/executions?status=ACTIVE&cursor=c",
        ),
        ("iter_events", ("e",), {"limit": 9}, "/executions/e/events?limit=9", "/executions/e/events?limit=9&cursor=c"),
        (
            "iter_events",
            ("e",),
            {"order": "desc", "node_id": "n"},
            "/executions/e/events?order=desc&nodeId=n",
            "/executions/e/events?order=desc&nodeId=n&cursor=c",
        ),
        ("iter_waits", (), {"graph_id": "g"}, "/waits?graphId=g", "/waits?graphId=g&cursor=c"),
        ("iter_graphs", (), {"q": "rel"}, "/graphs?q=rel", "/graphs?q=rel&cursor=c"),
    ],
)
def test_every_page_is_fetched(
    method: str, arguments: tuple[str, ...], named: dict[str, Any], first: str, second: str
) -> None:
    pages = Reply.json({"items": [1, 2], "nextCursor": "c"}), Reply.json({"items": [3], "nextCursor": None})
    with Peer(*pages) as peer:
        assert twin(peer).take(method, *arguments, **named) == [1, 2, 3]

    assert [requests.target for requests in peer.requests] == [first, second]


@BOTH
@pytest.mark.parametrize("cut", [True, False], ids=["cut", "closed"])
def test_events_are_followed_over_a_lost_connection_to_the_end(kind: Kind, cut: bool) -> None:
    before = Stream([event("EXECUTION_CREATED", "1.0") + event("NODE_STARTED", "2.0", nodeId="build")], cut=cut)
    after = Stream([event("EXECUTION_COMPLETED", "3.1"), event("EXECUTION_ARCHIVED", "4.0")])
    with Peer(before, BUSY, after) as peer:
        items = twin(peer, kind=kind).take("follow_events", "e")

    assert [(item["type"], item["id"]) for item in items] == [
        ("EXECUTION_CREATED", "1.0"),
        ("NODE_STARTED", "2.0"),
        ("EXECUTION_COMPLETED", "3.1"),
        ("EXECUTION_ARCHIVED", "4.0"),
    ]
    assert [requests.headers.get("last-event-id") for requests in peer.requests] == [None, "2.0", "2.0"]
    assert {requests.headers["accept"] for requests in peer.requests} == {"text/event-stream"}


def test_a_connection_lost_after_the_end_is_opened_again_for_later_events() -> None:
    with Peer(Stream([event("EXECUTION_FAILED", "3.0")], cut=True), NOTHING) as peer:
        items = twin(peer).take("follow_events", "e", after="2.0")

    assert [item["id"] for item in items] == ["3.0"]
    assert [requests.headers["last-event-id"] for requests in peer.requests] == ["2.0", "3.0"]

"""Watch and wait over real sockets, with peers that disconnect, stop responding and return."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyoco_server.http_client import (
    GatewayUnreachable,
    InvalidRequest,
    NotFound,
    RunNotFound,
    Unavailable,
    UnexpectedAnswer,
    WaitTimeout,
)
from support.peers import Cut, Peer, Reply, Silence, Stream, unused_address
from support.twins import BOTH, Kind, Pauses, Twin

NOT_FOUND = Reply.json({"detail": "run not found", "err_id": "ERR-PYOCO-0005"}, 404)
NO_SUCH_PATH = Reply.json({"detail": "no such path", "err_id": "ERR-PYOCO-0033"}, 404)
AWAY = Reply.json({"detail": "nats away", "err_id": "ERR-PYOCO-0003"}, 503, Retry_After="2")
NOTHING_NEW = Reply(status=204, body=b"")
RETRY = b"retry: 2000\n\n"


def snapshot(status: str) -> dict[str, Any]:
    return {"run_id": "r", "status": status, "tasks": {}}


def run_response(status: str) -> Reply:
    return Reply.json(snapshot(status))


def event(status: str, id: int | None = None, name: str = "snapshot") -> bytes:
    data = json.dumps({"run_id": "r", "snapshot": snapshot(status), "ts": 1.0})
    head = "" if id is None else f"id: {id}\n"
    return f"{head}event: {name}\ndata: {data}\n\n".encode()


def twin(peer: Peer, pauses: Pauses | None = None, **options: Any) -> Twin:
    return Twin(peer.url, timing=(pauses or Pauses()).timing(), **options)


def test_a_watch_yields_every_event_and_ends_with_the_run() -> None:
    stream = Stream(
        [event("PENDING", 1), event("RUNNING", 2) + event("RUNNING", name="heartbeat"), event("COMPLETED", 3)]
    )
    with Peer(stream, Cut()) as peer:
        items = twin(peer).take("watch", "r", include=["records"], since=5)

    assert [(item["event"], item["snapshot"]["status"], item["id"]) for item in items] == [
        ("snapshot", "PENDING", "1"),
        ("snapshot", "RUNNING", "2"),
        ("heartbeat", "RUNNING", "2"),
        ("snapshot", "COMPLETED", "3"),
    ]
    assert peer.requests[0].target == "/runs/r/watch?include=records&since=5"
    assert peer.requests[0].headers["accept"] == "text/event-stream"
    assert len(peer.requests) == 1


@BOTH
@pytest.mark.parametrize("cut", [True, False], ids=["cut", "closed"])
def test_a_watch_resumes_after_its_last_event(kind: Kind, cut: bool) -> None:
    pauses = Pauses()
    with Peer(Stream([RETRY, event("RUNNING", 7)], cut=cut), Stream([event("FAILED", 8)])) as peer:
        items = twin(peer, pauses, kind=kind).take("watch", "r", since=5)

    assert [item["id"] for item in items] == ["7", "8"]
    assert "last-event-id" not in peer.requests[0].headers
    assert peer.requests[1].headers["last-event-id"] == "7"
    assert peer.requests[1].target == "/runs/r/watch"
    assert pauses.slept == [2.0]


def test_a_watch_survives_an_unavailable_gateway() -> None:
    pauses = Pauses()
    with Peer(Stream([event("RUNNING", 1)]), Cut(), AWAY, Cut(), Stream([event("COMPLETED", 2)])) as peer:
        items = twin(peer, pauses).take("watch", "r")

    assert [item["id"] for item in items] == ["1", "2"]
    assert pauses.slept == [0.2, 0.4, 2.0, 1.6]


@pytest.mark.parametrize(("failing", "error"), [(AWAY, Unavailable), (Cut(), GatewayUnreachable)])
def test_a_watch_gives_up_after_retry_within_sec(failing: Reply | Cut, error: type[Exception]) -> None:
    pauses = Pauses()
    with Peer(failing) as peer, pytest.raises(error):
        twin(peer, pauses, retry_within_sec=20.0).take("watch", "r")

    assert 20.0 <= sum(pauses.slept) <= 30.0


def test_without_retries_the_first_loss_ends_the_watch() -> None:
    pauses = Pauses()
    with Peer(Cut()) as peer, pytest.raises(GatewayUnreachable):
        twin(peer, pauses, retries=0).take("watch", "r")

    assert pauses.slept == []


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (NOT_FOUND, RunNotFound),
        (NO_SUCH_PATH, NotFound),
        (Reply.json({"detail": "since: not a number"}, 422), InvalidRequest),
    ],
)
def test_a_rejection_ends_a_watch_at_once(reply: Reply, error: type[Exception]) -> None:
    with Peer(Stream([event("RUNNING", 1)]), reply) as peer, pytest.raises(error):
        twin(peer).take("watch", "r")

    assert len(peer.requests) == 2


@pytest.mark.parametrize(
    "response",
    [
        Reply(body=b"<html>", headers={"Content-Type": "text/html"}),
        Stream([b"data: {\n\n"]),
        Stream([b"data: []\n\n"]),
        Stream([b"data: " + b"[" * 100_000 + b"\n\n"]),
    ],
    ids=["page", "not-json", "no-object", "deep"],
)
def test_a_response_that_is_no_event_stream_is_an_error(response: Reply | Stream) -> None:
    with Peer(response) as peer, pytest.raises(UnexpectedAnswer):
        twin(peer).take("watch", "r")


def test_a_watch_with_a_time_limit_ends_quietly() -> None:
    pauses = Pauses()
    with Peer(Stream([RETRY, event("RUNNING", 1)])) as peer:
        items = twin(peer, pauses).take("watch", "r", timeout_sec=5)

    assert {item["id"] for item in items} == {"1"}
    assert [requests.target for requests in peer.requests] == [
        f"/runs/r/watch?timeout_sec={left}" for left in (5, 3, 1)
    ]
    assert sum(pauses.slept) == pytest.approx(5.0)


def test_a_watch_of_a_finished_run_without_new_events_is_empty() -> None:
    with Peer(NOTHING_NEW) as peer:
        assert twin(peer).take("watch", "r", since=9e9) == []


@BOTH
def test_a_watch_that_is_stopped_early_closes_its_connection(kind: Kind) -> None:
    with Peer(Stream([event("RUNNING", 1), event("RUNNING", 2)]), run_response("RUNNING")) as peer:
        items = twin(peer, kind=kind).take("watch", "r", until=lambda item: True)

    assert [item["id"] for item in items] == ["1"]


def test_an_id_that_no_header_can_carry_is_not_sent_back() -> None:
    odd = event("RUNNING", 1).replace(b"id: 1", "id: \x01日".encode())
    with Peer(Stream([odd]), Stream([event("FAILED", 2)])) as peer:
        twin(peer).take("watch", "r")

    assert "last-event-id" not in peer.requests[1].headers


def test_wait_returns_the_terminal_snapshot() -> None:
    with Peer(
        run_response("RUNNING"), Stream([event("RUNNING", 1), event("CANCELLED", 2)]), run_response("CANCELLED")
    ) as peer:
        assert twin(peer).ask("wait", "r") == snapshot("CANCELLED")


@BOTH
def test_wait_returns_when_reads_show_the_end_too(kind: Kind) -> None:
    pauses = Pauses()
    late = (run_response("RUNNING"), run_response("RUNNING"), run_response("COMPLETED"))
    with Peer(run_response("RUNNING"), Stream([event("COMPLETED", 1)]), *late) as peer:
        assert twin(peer, pauses, kind=kind).ask("wait", "r") == snapshot("COMPLETED")

    assert pauses.slept == [0.005, 0.01]


@pytest.mark.parametrize("then", [run_response("RUNNING"), AWAY, NOT_FOUND, Cut()])
def test_wait_trusts_the_stream_when_reads_lag(then: Reply | Cut) -> None:
    with Peer(run_response("RUNNING"), Stream([event("COMPLETED", 1)]), then) as peer:
        assert twin(peer).ask("wait", "r") == snapshot("COMPLETED")


def test_wait_needs_no_stream_for_a_finished_or_missing_run() -> None:
    with Peer(run_response("FAILED"), NOT_FOUND) as peer:
        assert twin(peer).ask("wait", "r")["status"] == "FAILED"
        with pytest.raises(RunNotFound):
            twin(peer).ask("wait", "r")

    assert len(peer.requests) == 2


@pytest.mark.parametrize("obstacle", [NO_SUCH_PATH, Reply(body=b"<html>"), Stream([b"data: x\n\n"])])
def test_wait_polls_when_streams_are_blocked(obstacle: Reply | Stream) -> None:
    pauses = Pauses()
    with Peer(
        run_response("PENDING"), obstacle, run_response("RUNNING"), run_response("RUNNING"), run_response("COMPLETED")
    ) as peer:
        assert twin(peer, pauses).ask("wait", "r")["status"] == "COMPLETED"

    assert pauses.slept == pytest.approx([0.2, 0.3])


@BOTH
def test_wait_polls_after_a_connection_without_events(kind: Kind) -> None:
    with Peer(
        run_response("PENDING"),
        Stream([RETRY], cut=True),
        run_response("RUNNING"),
        NOTHING_NEW,
        run_response("COMPLETED"),
    ) as peer:
        assert twin(peer, kind=kind).ask("wait", "r")["status"] == "COMPLETED"

    assert [requests.target.rpartition("/")[2] for requests in peer.requests] == ["r", "watch", "r", "watch", "r", "r"]


@BOTH
def test_wait_times_out_with_the_last_snapshot(kind: Kind) -> None:
    pauses = Pauses()
    with (
        Peer(run_response("PENDING"), Stream([RETRY, event("RUNNING", 1)])) as peer,
        pytest.raises(WaitTimeout, match="run r is RUNNING, not finished after 5 s") as caught,
    ):
        twin(peer, pauses, kind=kind).ask("wait", "r", timeout_sec=5)

    assert isinstance(caught.value, TimeoutError)
    assert caught.value.snapshot == snapshot("RUNNING")
    assert sum(pauses.slept) == pytest.approx(5.0)


@BOTH
def test_a_cancel_that_waits_returns_when_the_run_has_stopped(kind: Kind) -> None:
    with Peer(
        run_response("CANCELLING"),
        run_response("CANCELLING"),
        Stream([event("CANCELLED", 2)]),
        run_response("CANCELLED"),
    ) as peer:
        run = twin(peer, kind=kind).ask("cancel_run", "r", wait=True, timeout_sec=5)

    assert run["status"] == "CANCELLED"
    assert [requests.method for requests in peer.requests] == ["POST", "GET", "GET", "GET"]


def test_a_cancel_of_a_finished_run_has_nothing_to_wait_for() -> None:
    with Peer(run_response("COMPLETED")) as peer:
        assert twin(peer).ask("cancel_run", "r", wait=True)["status"] == "COMPLETED"

    assert len(peer.requests) == 1
    assert peer.requests[0].body == b""


@pytest.mark.parametrize("timeout_sec", [0, -1, float("nan")])
def test_a_time_limit_must_be_positive(timeout_sec: float) -> None:
    with pytest.raises(ValueError, match="timeout_sec"):
        Twin(unused_address()).take("watch", "r", timeout_sec=timeout_sec)


@BOTH
def test_a_silent_stream_is_reconnected(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"pyoco_server.http_client._{kind}.streams.SILENCE_SEC", 0.05)

    with Peer(Silence(), Stream([event("COMPLETED", 1)])) as peer:
        items = twin(peer, kind=kind).take("watch", "r")

    assert [item["id"] for item in items] == ["1"]


def test_a_snapshot_of_any_shape_is_passed_on_and_ends_nothing() -> None:
    odd = [b'data: {"snapshot": 5}\n\n', b'data: {"snapshot": {}, "event": "x", "more": 1}\n\n']
    with Peer(Stream([*odd, event("COMPLETED", 1)])) as peer:
        items = twin(peer).take("watch", "r")

    assert items[0] == {"run_id": "r", "ts": 0.0, "snapshot": 5, "event": "message", "id": ""}
    assert (items[1]["event"], items[1]["more"], len(items)) == ("message", 1, 3)


def test_a_time_limit_that_ends_in_a_lost_connection_is_no_error() -> None:
    pauses = Pauses()
    with Peer(Stream([RETRY]), Cut()) as peer:
        items = twin(peer, pauses, retry_within_sec=1.0).take("watch", "r", timeout_sec=2)

    assert items == []
    assert pauses.slept == [2.0]

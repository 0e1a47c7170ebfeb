"""Jobs and their logs from peers that disconnect, restart, send wrong responses and reject requests."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.http_client import (
    AsyncPyocoHttpClient,
    GatewayUnreachable,
    PyocoHttpClient,
    RunNotFound,
    SubmitUncertain,
    UnexpectedAnswer,
)
from support.peers import Cut, Head, Peer, Reply, Stream
from support.twins import BOTH, Kind, Pauses, Twin

JOB = {"id": "j", "status": "completed", "createdAt": "2026-02-18T12:00:00.000Z", "tags": []}
SHOWN = Reply.json(JOB)
STILL_RUNNING = Reply.json(JOB | {"status": "running"})
OVER = Reply(status=204, body=b"")
AWAY = Reply.json({"errId": "ERR-PYOCO-0003", "detail": "nats away"}, 503, Retry_After="2")
NOT_FOUND = Reply.json({"errId": "ERR-PYOCO-0005", "detail": "no job j", "code": "EXECUTION_NOT_FOUND"}, 404)


def twin(peer: Peer, pauses: Pauses | None = None, **options: Any) -> Twin:
    return Twin(peer.url, timing=(pauses or Pauses()).timing(), **{"retries": 3, **options})


def line(number: int) -> bytes:
    data = json.dumps({"n": number, "message": f"line {number}"})
    return f"id: p-{number}\nevent: logEntry\ndata: {data}\n\n".encode()


def the_end(status: str = "completed") -> bytes:
    return f'id: p-end\nevent: end\ndata: {{"status": "{status}"}}\n\n'.encode()


def followed(
    peer: Peer, pauses: Pauses | None = None, kind: Kind = "async", **wanted: Any
) -> tuple[list[int], str | None]:
    """The numbers of the lines, and how the job ended."""
    how: dict[str, Any] = {"base_url": peer.url, "timing": (pauses or Pauses()).timing()}

    async def follow_async() -> tuple[list[int], str | None]:
        async with AsyncPyocoHttpClient(**how) as client, client.follow_job_logs("j", **wanted) as lines:
            return [entry["n"] async for entry in lines], lines.status

    if kind == "async":
        return asyncio.run(follow_async())
    with PyocoHttpClient(**how) as client, client.follow_job_logs("j", **wanted) as lines:
        return [entry["n"] for entry in lines], lines.status


def text(body: bytes, first: int | None = None, whole: int | None = None, **headers: str) -> Reply:
    """A log as text: completely, or from a byte on."""
    named = {name.replace("_", "-"): value for name, value in headers.items()} | {"Content-Type": "text/plain"}
    if first is None:
        return Reply(body=body, headers=named)
    last = first + len(body) - 1
    return Reply(status=206, body=body, headers=named | {"Content-Range": f"bytes {first}-{last}/{whole or last + 1}"})


def range_not_satisfiable(size: int) -> Reply:
    return Reply(status=416, body=b"", headers={"Content-Range": f"bytes */{size}"})


def head_of(size: int, *, complete: bool) -> Head:
    """The head of a log of that size."""
    return Head({"Content-Length": str(size), "X-Log-Complete": "true" if complete else "false"})


def test_a_log_is_followed_to_the_end_of_the_job() -> None:
    with Peer(Stream([b": still here\n\n", line(1) + line(2), line(3) + the_end("failed")]), SHOWN) as peer:
        numbers, status = followed(peer, tail=3, level="INFO")

    assert (numbers, status) == ([1, 2, 3], "failed")
    assert [requests.target for requests in peer.requests] == ["/jobs/j/logs/stream?tail=3&level=INFO", "/jobs/j"]
    assert peer.requests[0].headers["accept"] == "text/event-stream"


@BOTH
@pytest.mark.parametrize("cut", [True, False], ids=["cut", "closed"])
def test_a_restart_neither_loses_nor_repeats_lines(kind: Kind, cut: bool) -> None:
    half = line(3)[:-5]
    before, after = Stream([line(1), line(2) + half], cut=cut), Stream([line(3) + line(4), the_end()])
    with Peer(before, AWAY, Cut(), after, SHOWN) as peer:
        numbers, status = followed(peer, tail=10, since_token=None, kind=kind)

    assert (numbers, status) == ([1, 2, 3, 4], "completed")
    assert [requests.target for requests in peer.requests[:4]] == [
        "/jobs/j/logs/stream?tail=10",
        *["/jobs/j/logs/stream"] * 3,
    ]
    assert [requests.headers.get("last-event-id") for requests in peer.requests[:4]] == [None, "p-2", "p-2", "p-2"]


def test_a_stream_lost_before_its_first_line_resumes_where_it_began() -> None:
    with Peer(Stream([b"id: p-0\n\n"]), Stream([line(1), the_end()]), SHOWN) as peer:
        numbers, _ = followed(peer, tail=10)

    assert numbers == [1]
    assert [requests.headers.get("last-event-id") for requests in peer.requests[:2]] == [None, "p-0"]


def test_following_from_the_end_still_yields_the_status() -> None:
    with Peer(OVER, SHOWN) as peer:
        numbers, status = followed(peer, since_token="p-end")

    assert (numbers, status) == ([], "completed")
    assert peer.requests[0].target == "/jobs/j/logs/stream?sinceToken=p-end"


def test_following_ends_when_reads_show_the_end_too() -> None:
    pauses = Pauses()
    with Peer(Stream([the_end()]), STILL_RUNNING, STILL_RUNNING, SHOWN) as peer:
        _, status = followed(peer, pauses)

    assert status == "completed"
    assert len(peer.requests) == 4
    assert pauses.slept == [0.005, 0.01]


def test_a_failing_read_after_the_end_keeps_the_status() -> None:
    with Peer(Stream([line(1) + the_end("canceled")]), NOT_FOUND) as peer:
        assert followed(peer) == ([1], "canceled")


def test_unknown_events_are_ignored() -> None:
    news = b'id: p-9\nevent: weather\ndata: {"sun": true}\n\n'
    with Peer(Stream([news, line(1), the_end()]), SHOWN) as peer:
        assert followed(peer) == ([1], "completed")


@BOTH
def test_following_that_is_stopped_early_sends_nothing_more(kind: Kind) -> None:
    with Peer(Stream([line(1) + line(2) + line(3)])) as peer:
        if kind == "sync":
            with PyocoHttpClient(peer.url) as client, client.follow_job_logs("j") as lines:
                first, place = next(lines)["n"], lines.place
        else:

            async def one() -> tuple[int, str | None]:
                async with AsyncPyocoHttpClient(peer.url) as client, client.follow_job_logs("j") as lines:
                    return (await anext(lines))["n"], lines.place

            first, place = asyncio.run(one())

    assert (first, place) == (1, "p-1")
    assert len(peer.requests) == 1


def test_a_download_resumes_at_the_end_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(b"one\n")
    with Peer(text(b"two\n", 4, X_Log_Complete="false"), range_not_satisfiable(8), head_of(8, complete=True)) as peer:
        first = twin(peer).ask("download_job_log", "j", path)
        second = twin(peer).ask("download_job_log", "j", path)

    assert path.read_bytes() == b"one\ntwo\n"
    assert first == {"bytes_written": 4, "size_bytes": 8, "complete": False}
    assert second == {"bytes_written": 0, "size_bytes": 8, "complete": True}
    assert [requests.method for requests in peer.requests] == ["GET", "GET", "HEAD"]
    assert [requests.headers.get("range") for requests in peer.requests] == ["bytes=4-", "bytes=8-", None]


def test_a_log_that_has_grown_meanwhile_is_not_complete() -> None:
    file = io.BytesIO(b"one\n")
    with Peer(range_not_satisfiable(4), head_of(8, complete=True)) as peer:
        received = twin(peer).ask("download_job_log", "j", file)

    assert received == {"bytes_written": 0, "size_bytes": 4, "complete": False}


def test_without_a_head_it_is_unknown_whether_the_log_is_complete() -> None:
    with Peer(range_not_satisfiable(4), Cut()) as peer:
        received = twin(peer).ask("download_job_log", "j", io.BytesIO(b"one\n"))

    assert received["complete"] is None


def test_a_download_of_a_new_file_asks_for_no_range_and_says_what_is_known(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    with Peer(text(b"one\n")) as peer:
        received = twin(peer).ask("download_job_log", "j", str(path))

    assert path.read_bytes() == b"one\n"
    assert received == {"bytes_written": 4, "size_bytes": 4, "complete": None}
    assert "range" not in peer.requests[0].headers


def test_a_full_response_to_a_range_replaces_the_file(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(b"another log\n")
    with Peer(text(b"one\ntwo\n")) as peer:
        received = twin(peer).ask("download_job_log", "j", path)

    assert path.read_bytes() == b"one\ntwo\n"
    assert (received["bytes_written"], received["size_bytes"]) == (8, 8)


@BOTH
def test_a_lost_download_resumes_by_itself(kind: Kind) -> None:
    broken = Stream([b"one\ntw"], cut=True, content_type="text/plain")
    file = io.BytesIO()
    with Peer(broken, AWAY, Cut(), text(b"o\nthree\n", 6)) as peer:
        received = twin(peer, kind=kind).ask("download_job_log", "j", file)

    assert file.getvalue() == b"one\ntwo\nthree\n"
    assert received["bytes_written"] == 14
    assert [requests.headers.get("range") for requests in peer.requests] == [None, *["bytes=6-"] * 3]


def test_a_download_that_stays_broken_leaves_what_came(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    broken = Stream([b"one\n"], cut=True, content_type="text/plain")
    with Peer(broken, Cut()) as peer, pytest.raises(GatewayUnreachable):
        twin(peer).ask("download_job_log", "j", path)

    assert path.read_bytes() == b"one\n"
    assert len(peer.requests) == 4


def test_a_part_that_begins_elsewhere_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(b"one\n")
    with Peer(text(b"three\n", 8)) as peer, pytest.raises(UnexpectedAnswer, match="does not begin at byte 4"):
        twin(peer).ask("download_job_log", "j", path)

    assert path.read_bytes() == b"one\n"


def test_a_missing_job_creates_no_file(tmp_path: Path) -> None:
    with Peer(NOT_FOUND) as peer, pytest.raises(RunNotFound):
        twin(peer).ask("download_job_log", "j", tmp_path / "log.txt")

    assert list(tmp_path.iterdir()) == []


def test_a_job_is_submitted_again_with_its_key_or_is_uncertain() -> None:
    with Peer(Cut(), AWAY, SHOWN) as peer:
        job = twin(peer).ask("submit_job", {"input": "data.csv"}, tags=["urgent"])
    with Peer(Cut()) as silent, pytest.raises(SubmitUncertain) as caught:
        twin(silent).ask("submit_job", {})

    assert job["id"] == "j"
    assert len({requests.headers["idempotency-key"] for requests in peer.requests}) == 1
    assert caught.value.idempotency_key == silent.requests[0].headers["idempotency-key"]


def test_all_pages_are_read_including_empty_ones() -> None:
    pages = [{"jobs": [JOB], "nextToken": "a"}, {"jobs": [], "nextToken": "b"}, {"jobs": [JOB]}]
    with Peer(*map(Reply.json, pages)) as peer:
        jobs = twin(peer).take("iter_jobs", tags=["x", "y"], status="completed", limit=1)

    assert len(jobs) == 2
    requests = "/jobs?tag=x&tag=y&status=completed&limit=1"
    assert [one.target for one in peer.requests] == [requests, f"{requests}&nextToken=a", f"{requests}&nextToken=b"]

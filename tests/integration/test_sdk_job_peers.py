"""Jobs and their logs from peers that disconnect, restart, answer wrongly and refuse."""

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
    InvalidRequest,
    PyocoClientError,
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

    async def awaited() -> tuple[list[int], str | None]:
        async with AsyncPyocoHttpClient(**how) as client, client.follow_job_logs("j", **wanted) as lines:
            return [entry["n"] async for entry in lines], lines.status

    if kind == "async":
        return asyncio.run(awaited())
    with PyocoHttpClient(**how) as client, client.follow_job_logs("j", **wanted) as lines:
        return [entry["n"] for entry in lines], lines.status


def text(body: bytes, first: int | None = None, whole: int | None = None, **headers: str) -> Reply:
    """A log as text: all of it, or what there is from a byte on."""
    named = {name.replace("_", "-"): value for name, value in headers.items()} | {"Content-Type": "text/plain"}
    if first is None:
        return Reply(body=body, headers=named)
    last = first + len(body) - 1
    return Reply(status=206, body=body, headers=named | {"Content-Range": f"bytes {first}-{last}/{whole or last + 1}"})


def nothing_beyond(size: int) -> Reply:
    return Reply(status=416, body=b"", headers={"Content-Range": f"bytes */{size}"})


def looked_at(size: int, *, complete: bool) -> Head:
    """The head of a log of that size."""
    return Head({"Content-Length": str(size), "X-Log-Complete": "true" if complete else "false"})


def test_a_log_is_followed_to_the_end_of_the_job() -> None:
    with Peer(Stream([b": still here\n\n", line(1) + line(2), line(3) + the_end("failed")]), SHOWN) as peer:
        numbers, status = followed(peer, tail=3, level="INFO")

    assert (numbers, status) == ([1, 2, 3], "failed")
    assert [asked.target for asked in peer.asked] == ["/jobs/j/logs/stream?tail=3&level=INFO", "/jobs/j"]
    assert peer.asked[0].headers["accept"] == "text/event-stream"


@BOTH
@pytest.mark.parametrize("cut", [True, False], ids=["cut", "closed"])
def test_over_a_restart_no_line_is_lost_and_none_comes_twice(kind: Kind, cut: bool) -> None:
    half = line(3)[:-5]
    before, after = Stream([line(1), line(2) + half], cut=cut), Stream([line(3) + line(4), the_end()])
    with Peer(before, AWAY, Cut(), after, SHOWN) as peer:
        numbers, status = followed(peer, tail=10, since_token=None, kind=kind)

    assert (numbers, status) == ([1, 2, 3, 4], "completed")
    assert [asked.target for asked in peer.asked[:4]] == ["/jobs/j/logs/stream?tail=10", *["/jobs/j/logs/stream"] * 3]
    assert [asked.headers.get("last-event-id") for asked in peer.asked[:4]] == [None, "p-2", "p-2", "p-2"]


def test_who_is_cut_off_before_the_first_line_goes_on_where_the_stream_began() -> None:
    with Peer(Stream([b"id: p-0\n\n"]), Stream([line(1), the_end()]), SHOWN) as peer:
        numbers, _ = followed(peer, tail=10)

    assert numbers == [1]
    assert [asked.headers.get("last-event-id") for asked in peer.asked[:2]] == [None, "p-0"]


def test_whoever_comes_behind_the_end_learns_how_the_job_ended_all_the_same() -> None:
    with Peer(OVER, SHOWN) as peer:
        numbers, status = followed(peer, since_token="p-end")

    assert (numbers, status) == ([], "completed")
    assert peer.asked[0].target == "/jobs/j/logs/stream?sinceToken=p-end"


def test_what_was_left_goes_on_at_its_place() -> None:
    with Peer(Stream([line(3) + the_end()]), SHOWN) as peer:
        assert followed(peer, after="p-2", task="load") == ([3], "completed")

    assert peer.asked[0].headers["last-event-id"] == "p-2"
    assert peer.asked[0].target == "/jobs/j/logs/stream?task=load"


def test_the_end_is_told_when_reads_show_it_too() -> None:
    pauses = Pauses()
    with Peer(Stream([the_end()]), STILL_RUNNING, STILL_RUNNING, SHOWN) as peer:
        _, status = followed(peer, pauses)

    assert status == "completed"
    assert len(peer.asked) == 4
    assert pauses.slept == [0.005, 0.01]


def test_what_cannot_be_read_after_the_end_does_not_take_the_end_back() -> None:
    with Peer(Stream([line(1) + the_end("canceled")]), NOT_FOUND) as peer:
        assert followed(peer) == ([1], "canceled")


def test_events_of_a_newer_gateway_are_no_lines() -> None:
    news = b'id: p-9\nevent: weather\ndata: {"sun": true}\n\n'
    with Peer(Stream([news, line(1), the_end()]), SHOWN) as peer:
        assert followed(peer) == ([1], "completed")


def test_a_job_that_is_not_there_cannot_be_followed() -> None:
    with Peer(NOT_FOUND) as peer, pytest.raises(RunNotFound) as caught:
        followed(peer)

    assert (caught.value.code, caught.value.detail) == ("EXECUTION_NOT_FOUND", "no job j")


@BOTH
def test_following_that_is_stopped_early_asks_for_nothing_more(kind: Kind) -> None:
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
    assert len(peer.asked) == 1


def test_a_download_goes_on_where_the_file_ends(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(b"one\n")
    with Peer(text(b"two\n", 4, X_Log_Complete="false"), nothing_beyond(8), looked_at(8, complete=True)) as peer:
        first = twin(peer).ask("download_job_log", "j", path)
        second = twin(peer).ask("download_job_log", "j", path)

    assert path.read_bytes() == b"one\ntwo\n"
    assert first == {"bytes_written": 4, "size_bytes": 8, "complete": False}
    assert second == {"bytes_written": 0, "size_bytes": 8, "complete": True}
    assert [asked.method for asked in peer.asked] == ["GET", "GET", "HEAD"]
    assert [asked.headers.get("range") for asked in peer.asked] == ["bytes=4-", "bytes=8-", None]


def test_a_log_that_has_grown_since_nothing_was_new_is_not_complete() -> None:
    file = io.BytesIO(b"one\n")
    with Peer(nothing_beyond(4), looked_at(8, complete=True)) as peer:
        received = twin(peer).ask("download_job_log", "j", file)

    assert received == {"bytes_written": 0, "size_bytes": 4, "complete": False}


def test_where_nobody_says_whether_more_will_come_it_is_not_known() -> None:
    with Peer(nothing_beyond(4), Cut()) as peer:
        received = twin(peer).ask("download_job_log", "j", io.BytesIO(b"one\n"))

    assert received["complete"] is None


def test_a_download_of_a_new_file_asks_for_no_range_and_says_what_is_known(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    with Peer(text(b"one\n")) as peer:
        received = twin(peer).ask("download_job_log", "j", str(path))

    assert path.read_bytes() == b"one\n"
    assert received == {"bytes_written": 4, "size_bytes": 4, "complete": None}
    assert "range" not in peer.asked[0].headers


def test_without_resume_the_file_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(b"another log, and longer\n")
    with Peer(text(b"one\n")) as peer:
        twin(peer).ask("download_job_log", "j", path, resume=False)

    assert path.read_bytes() == b"one\n"
    assert "range" not in peer.asked[0].headers


def test_whoever_answers_a_range_with_all_of_it_is_believed(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(b"another log\n")
    with Peer(text(b"one\ntwo\n")) as peer:
        received = twin(peer).ask("download_job_log", "j", path)

    assert path.read_bytes() == b"one\ntwo\n"
    assert (received["bytes_written"], received["size_bytes"]) == (8, 8)


@BOTH
def test_a_download_that_breaks_off_goes_on_by_itself(kind: Kind) -> None:
    broken = Stream([b"one\ntw"], cut=True, content_type="text/plain")
    file = io.BytesIO()
    with Peer(broken, AWAY, Cut(), text(b"o\nthree\n", 6)) as peer:
        received = twin(peer, kind=kind).ask("download_job_log", "j", file)

    assert file.getvalue() == b"one\ntwo\nthree\n"
    assert received["bytes_written"] == 14
    assert [asked.headers.get("range") for asked in peer.asked] == [None, *["bytes=6-"] * 3]


def test_a_download_that_stays_broken_leaves_what_came(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    broken = Stream([b"one\n"], cut=True, content_type="text/plain")
    with Peer(broken, Cut()) as peer, pytest.raises(GatewayUnreachable):
        twin(peer).ask("download_job_log", "j", path)

    assert path.read_bytes() == b"one\n"
    assert len(peer.asked) == 4


def test_a_file_that_is_longer_than_the_log_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"my notes\n")
    with Peer(nothing_beyond(4)) as peer, pytest.raises(ValueError, match="the file has 9 bytes and the log 4"):
        twin(peer).ask("download_job_log", "j", path)

    assert path.read_bytes() == b"my notes\n"


def test_a_part_that_begins_elsewhere_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(b"one\n")
    with Peer(text(b"three\n", 8)) as peer, pytest.raises(UnexpectedAnswer, match="does not begin at byte 4"):
        twin(peer).ask("download_job_log", "j", path)

    assert path.read_bytes() == b"one\n"


def test_a_log_of_no_job_makes_no_file(tmp_path: Path) -> None:
    with Peer(NOT_FOUND) as peer, pytest.raises(RunNotFound):
        twin(peer).ask("download_job_log", "j", tmp_path / "log.txt")

    assert list(tmp_path.iterdir()) == []


def test_a_submit_is_repeated_with_its_key_and_says_so_when_no_answer_comes() -> None:
    with Peer(Cut(), AWAY, SHOWN) as peer:
        job = twin(peer).ask("submit_job", {"input": "data.csv"}, tags=["urgent"])
    with Peer(Cut()) as silent, pytest.raises(SubmitUncertain) as caught:
        twin(silent).ask("submit_job", {})

    assert job["id"] == "j"
    assert len({asked.headers["idempotency-key"] for asked in peer.asked}) == 1
    assert caught.value.idempotency_key == silent.asked[0].headers["idempotency-key"]


@pytest.mark.parametrize(
    ("method", "arguments", "answer"),
    [
        ("delete_job", ("j",), OVER),
        ("add_job_tag", ("j", "a/b"), Reply.json(["a/b"])),
        ("remove_job_tag", ("j", "a/b"), OVER),
    ],
)
def test_whatever_changes_a_job_is_sent_again_with_the_same_key(
    method: str, arguments: tuple[str, ...], answer: Reply
) -> None:
    with Peer(Cut(), answer) as peer:
        twin(peer).ask(method, *arguments)

    assert len({asked.headers["idempotency-key"] for asked in peer.asked}) == 1
    assert len(peer.asked) == 2


def test_a_slash_in_a_tag_stays_in_its_segment_on_the_wire() -> None:
    with Peer(OVER) as peer:
        twin(peer).ask("remove_job_tag", "j", "a/b c")

    assert (peer.asked[0].method, peer.asked[0].target) == ("DELETE", "/jobs/j/tags/a%2Fb%20c")


def test_all_pages_are_read_also_those_with_nothing_on_them() -> None:
    pages = [{"jobs": [JOB], "nextToken": "a"}, {"jobs": [], "nextToken": "b"}, {"jobs": [JOB]}]
    with Peer(*map(Reply.json, pages)) as peer:
        jobs = twin(peer).take("iter_jobs", tags=["x", "y"], status="completed", limit=1)

    assert len(jobs) == 2
    asked = "/jobs?tag=x&tag=y&status=completed&limit=1"
    assert [one.target for one in peer.asked] == [asked, f"{asked}&nextToken=a", f"{asked}&nextToken=b"]


def test_labels_are_read_page_after_page() -> None:
    pages = [{"tags": [{"tag": "a", "count": 2}], "nextToken": "a"}, {"tags": [{"tag": "b", "count": 1}]}]
    with Peer(*map(Reply.json, pages)) as peer:
        tags = twin(peer).take("iter_tags", limit=1)

    assert [one["tag"] for one in tags] == ["a", "b"]
    assert [one.target for one in peer.asked] == ["/tags?limit=1", "/tags?limit=1&nextToken=a"]


def test_a_list_that_turns_in_a_circle_is_left() -> None:
    with Peer(Reply.json({"jobs": [], "nextToken": "a"})) as peer, pytest.raises(PyocoClientError, match="no end"):
        twin(peer).take("iter_jobs")


def test_a_refusal_of_jobs_is_the_error_that_it_is_elsewhere() -> None:
    refusal = {
        "type": "urn:pyoco:error:ERR-PYOCO-0002",
        "title": "the request is not valid",
        "status": 422,
        "detail": "level: 'LOUD' is no level",
        "code": "INVALID_REQUEST",
        "errId": "ERR-PYOCO-0002",
        "msgId": "MSG-PYOCO-0002",
        "hint": "Correct it.",
    }
    reply = Reply.json(refusal, 422, Content_Type="application/problem+json")
    with Peer(reply) as peer, pytest.raises(InvalidRequest) as caught:
        twin(peer).ask("job_logs", "j", level="LOUD")

    error = caught.value
    assert (error.err_id, error.msg_id, error.code) == ("ERR-PYOCO-0002", "MSG-PYOCO-0002", "INVALID_REQUEST")
    assert (error.detail, error.hint) == ("level: 'LOUD' is no level", "Correct it.")

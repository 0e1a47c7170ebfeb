"""What is asked about jobs, their logs and their tags, before anything is sent."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.http_client import job_calls as calls
from pyoco_server.http_client.call_parts import Call


def body(call: Call[Any]) -> Any:
    return json.loads(call.content or b"null")


def test_a_submit_says_only_what_was_given() -> None:
    plain = calls.submit_job(None)
    full = calls.submit_job({"input": "data.csv"}, "report", "gpu", ["urgent", "test"], 60.0, "mine")

    assert (plain.method, plain.path, body(plain)) == ("POST", "/jobs", {"parameters": {}})
    assert body(full) == {
        "parameters": {"input": "data.csv"},
        "tags": ["urgent", "test"],
        "flow": "report",
        "tag": "gpu",
        "timeout_sec": 60.0,
    }
    assert (plain.makes, full.idempotency_key) == (True, "mine")


def test_a_list_repeats_its_tags_and_leaves_out_what_was_not_given() -> None:
    first = calls.list_jobs(tags=(), status=None, limit=50, next_token=None)
    second = calls.list_jobs(tags=["a", "b,c"], status="failed", limit=2, next_token="t")

    assert (first.path, first.query) == ("/jobs", (("limit", "50"),))
    assert second.query == (("tag", "a"), ("tag", "b,c"), ("status", "failed"), ("limit", "2"), ("nextToken", "t"))


def test_one_tag_may_be_named_without_a_list() -> None:
    assert calls.list_jobs(tags="urgent", status=None, limit=None, next_token=None).query == (("tag", "urgent"),)
    assert body(calls.submit_job({}, tags="urgent"))["tags"] == ["urgent"]


def test_a_page_of_a_log_is_asked_for_in_the_words_of_jobs() -> None:
    call = calls.job_logs("j", "t-1", limit=10, tail=None, task="load", level="WARNING", wait_sec=5)

    assert call.path == "/jobs/j/logs"
    assert dict(call.query) == {
        "sinceToken": "t-1",
        "limit": "10",
        "task": "load",
        "level": "WARNING",
        "waitSec": "5",
    }
    assert calls.job_logs("j", "", wait_sec=0).query == ()


def test_a_log_as_text_is_asked_for_from_the_byte_that_is_missing() -> None:
    whole, rest = calls.job_log_text("j", 0), calls.job_log_text("j", 17)

    assert "Range" not in whole.headers
    assert rest.headers["Range"] == "bytes=17-"
    assert {call.headers["Accept"] for call in (whole, rest)} == {"text/plain"}
    # Ranges are of the log's bytes, and not of what a compression makes of them.
    assert {call.headers["Accept-Encoding"] for call in (whole, rest)} == {"identity"}


def test_once_a_line_was_heard_its_id_says_where_a_stream_goes_on() -> None:
    first = calls.follow_job_logs("j", "", since_token="t", tail=5, task="load", level=None)
    again = calls.follow_job_logs("j", "e-9", since_token="t", tail=5, task="load", level=None)

    assert (first.path, first.query) == (
        "/jobs/j/logs/stream",
        (("sinceToken", "t"), ("tail", "5"), ("task", "load")),
    )
    assert "Last-Event-ID" not in first.headers
    assert (again.query, again.headers["Last-Event-ID"]) == ((("task", "load"),), "e-9")


@given(st.text(min_size=1, max_size=20))
def test_a_tag_of_any_text_stays_one_segment_of_the_path(tag: str) -> None:
    try:
        path = calls.remove_job_tag("j", tag).path
    except ValueError:
        assert not tag.isprintable() or {".", ".."} & set(tag.split("/"))
        return

    assert path.isascii()
    assert path.count("/") == 4
    assert unquote(path.removeprefix("/jobs/j/tags/")) == tag


@pytest.mark.parametrize("hostile", ["", ".", "..", "../..", "a/../b", "a\nb", "a\ud800"])
def test_a_tag_that_would_leave_its_place_in_the_path_is_refused(hostile: str) -> None:
    with pytest.raises(ValueError, match="tag is not a label"):
        calls.remove_job_tag("j", hostile)


def test_a_job_id_is_an_id() -> None:
    for ask in (calls.get_job, calls.delete_job, calls.job_tags):
        with pytest.raises(ValueError, match="job_id is not an id"):
            ask("../runs")


def test_what_is_deleted_is_answered_with_nothing_and_anything_else_is_not_believed() -> None:
    read = calls.delete_job("j").read

    read("")
    with pytest.raises(ValueError, match="expected an empty answer"):
        read("<html>")


def test_labels_are_asked_for_by_their_beginning() -> None:
    assert calls.list_tags(prefix="", limit=100, next_token=None).query == (("limit", "100"),)
    assert calls.list_tags(prefix="urg", limit=5, next_token="t").query == (
        ("prefix", "urg"),
        ("limit", "5"),
        ("nextToken", "t"),
    )

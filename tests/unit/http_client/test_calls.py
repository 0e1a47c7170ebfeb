"""What is asked of a gateway, before anything is sent."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.http_client import calls
from pyoco_server.http_client.call_parts import Call


@pytest.mark.parametrize(
    "hostile",
    [
        "",
        ".",
        "..",
        "a/b",
        "../workers",
        "a\\b",
        "a?x=1",
        "a#b",
        "%2e%2e",
        "a%2Ftasks",
        "a\nb",
        "a\0b",
        "\u2028",
        "a\ud800",
    ],
)
def test_an_id_that_would_leave_its_place_in_the_path_is_refused(hostile: str) -> None:
    with pytest.raises(ValueError, match="run_id is not an id"):
        calls.get_run(hostile)


@given(st.text(max_size=20))
def test_whatever_the_id_the_path_has_one_segment_for_it(run_id: str) -> None:
    try:
        path = calls.get_tasks(run_id).path
    except ValueError:
        return

    assert path.isascii()
    assert path.count("/") == 3
    assert ".." not in path.split("/")


def test_a_submit_says_only_what_was_given() -> None:
    call = calls.submit_run("hello", None, None, None)

    assert (call.method, call.path, call.makes) == ("POST", "/runs", True)
    assert json.loads(call.content or b"") == {"flow_name": "hello", "params": {}}


def test_a_submit_carries_tag_labels_and_any_text() -> None:
    call = calls.submit_run("hello", {"name": "日本"}, "gpu", ("a", "b"))

    body = {"flow_name": "hello", "params": {"name": "日本"}, "tag": "gpu", "tags": ["a", "b"]}
    assert json.loads(call.content or b"") == body


def test_a_submit_carries_the_limit_of_the_run() -> None:
    assert json.loads(calls.submit_run("hello", None, None, None, 90.5).content or b"")["timeout_sec"] == 90.5
    assert calls.submit_run_yaml("version: 1\n", None, "main", 90).fields == {"flow_name": "main", "timeout_sec": "90"}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), "\ud800"])
def test_params_that_are_not_json_are_refused_before_they_are_sent(value: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        calls.submit_run("hello", {"x": value}, None, None)


def test_a_workflow_is_sent_as_a_file_beside_its_flow_name_and_tag() -> None:
    call = calls.submit_run_yaml("version: 1\n", "gpu", "main")

    assert call.files == {"workflow": ("flow.yaml", b"version: 1\n", "application/yaml")}
    assert call.fields == {"flow_name": "main", "tag": "gpu"}
    assert call.makes


CHANGES: list[tuple[Callable[..., Call[Any]], tuple[Any, ...]]] = [
    (calls.submit_run, ("hello", None, None, None, None)),
    (calls.submit_run_yaml, ("version: 1\n", None, "main", None)),
    (calls.cancel_run, ("r", None)),
    (calls.patch_worker, ("w", True)),
    (calls.replay_dead_letter, (7,)),
    (calls.upload_wheel, ("a.whl", io.BytesIO(), True, None)),
    (calls.delete_wheel, ("a.whl",)),
]


@pytest.mark.parametrize(("make", "arguments"), CHANGES, ids=[make.__name__ for make, _ in CHANGES])
def test_every_change_has_a_key_the_callers_or_a_new_one(
    make: Callable[..., Call[Any]], arguments: tuple[Any, ...]
) -> None:
    made = [make(*arguments).idempotency_key or "" for _ in range(2)]

    assert [str(UUID(key, version=4)) for key in made] == made
    assert made[0] != made[1]
    assert make(*arguments, "mine").idempotency_key == "mine"


def test_no_read_has_a_key() -> None:
    assert calls.get_run("r").idempotency_key is None


@pytest.mark.parametrize("key", ["", " a", "a ", "a\nb", "é", "x" * 256])
def test_what_no_gateway_takes_for_a_key_is_refused_before_it_is_sent(key: str) -> None:
    with pytest.raises(ValueError, match="idempotency_key must be"):
        calls.cancel_run("r", None, key)


def test_lists_repeat_their_name_and_absent_filters_are_not_sent() -> None:
    call = calls.list_runs(status="FAILED", flow=None, tags=["a", "b"], limit=5, include="records")

    expected = (("status", "FAILED"), ("tags", "a"), ("tags", "b"), ("limit", "5"), ("include", "records"))
    assert call.query == expected


def test_the_first_page_is_asked_for_with_an_empty_cursor() -> None:
    assert ("cursor", "") in calls.list_runs_page(cursor=None).query


def test_a_flag_is_spelled_as_in_json() -> None:
    assert calls.list_workers(include_hidden=True).query == (("include_hidden", "true"),)


def test_a_watch_that_goes_on_names_the_last_event_instead_of_a_time() -> None:
    first = calls.watch_run("r", None, 5.0, 30, "")
    again = calls.watch_run("r", None, 5.0, 30, "7")

    assert first.query == (("since", "5.0"), ("timeout_sec", "30"))
    assert "Last-Event-ID" not in first.headers
    assert again.query == (("timeout_sec", "30"),)
    assert again.headers["Last-Event-ID"] == "7"


@pytest.mark.parametrize("body", ["", "[]", "1", "<html>", "nul"])
def test_an_answer_of_another_shape_is_a_value_error(body: str) -> None:
    with pytest.raises(ValueError):
        calls.get_run("r").read(body)


def test_a_page_has_items() -> None:
    with pytest.raises(ValueError):
        calls.list_runs_page(cursor=None).read("{}")

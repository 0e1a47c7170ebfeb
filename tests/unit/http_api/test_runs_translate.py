"""The words of `/runs` and the words of the core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.caller import ANYONE
from pyoco_server.domain.execution.snapshot import to_snapshot
from pyoco_server.domain.execution.state import MAX_TIMEOUT_SEC, Execution, Request
from pyoco_server.domain.ids import RunId
from pyoco_server.errors import InvalidRequest, RequestTooLarge
from pyoco_server.http_api.api.runs import translate
from pyoco_server.http_api.api.runs.routes import parse_submit
from pyoco_server.http_api.api.runs.schemas import RunCancelRequest
from pyoco_server.http_api.protocol.request_parsing import read_optional

CONFIG = NatsBackendConfig(default_tag="somewhere")
RUN = Execution(execution_id=RunId("0190a5b2-7c4e-7abc-8def-0123456789ab"), created_at=1.0, updated_at=2.0)
FACTS = {"worker_alive": False, "stale": False}


def asked(**body: Any) -> tuple[Request, tuple[str, ...]]:
    return parse_submit(orjson.dumps(body), CONFIG, ANYONE)


def test_a_flow_name_is_enough() -> None:
    assert asked(flow_name="hello") == (Request(flow_name="hello", tag="somewhere", input={}), ("somewhere",))


def test_the_tag_is_the_label_of_a_run_that_has_no_labels() -> None:
    assert asked(flow_name="hello", tag="gpu") == (Request(flow_name="hello", tag="gpu", input={}), ("gpu",))


def test_labels_are_free_text_and_replace_the_tag_among_the_labels() -> None:
    request, labels = asked(flow_name="hello", tag="gpu", tags=["夜間 バッチ", "a/b"])

    assert (request.tag, labels) == ("gpu", ("夜間 バッチ", "a/b"))


def test_no_labels_means_no_labels() -> None:
    assert asked(flow_name="hello", tags=[])[1] == ()


def test_a_run_may_have_a_limit() -> None:
    assert asked(flow_name="hello", timeout_sec=90)[0].timeout_sec == 90.0
    assert asked(flow_name="hello", timeout_sec=None)[0].timeout_sec is None


def test_params_pass_through_as_they_are() -> None:
    params = {"深い": [{"n": 2**63 - 1, "x": None}], "": 0.1}

    assert asked(flow_name="hello", params=params)[0].input == params


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, "flow_name"),
        ({"flow_name": ""}, "flow_name"),
        ({"flow_name": 7}, "flow_name"),
        ({"flow_name": "x" * 257}, "flow_name"),
        ({"flow_name": "f", "params": []}, "params"),
        ({"flow_name": "f", "params": None}, "params"),
        ({"flow_name": "f", "tag": "a.b"}, "tag"),
        ({"flow_name": "f", "tag": ""}, "tag"),
        ({"flow_name": "f", "tag": "a\n"}, "tag"),
        ({"flow_name": "f", "tag": "x" * 65}, "tag"),
        ({"flow_name": "f", "tags": "a"}, "tags"),
        ({"flow_name": "f", "tags": [""]}, "tags"),
        ({"flow_name": "f", "tags": ["a\tb"]}, "tags"),
        ({"flow_name": "f", "tags": ["x" * 129]}, "tags"),
        ({"flow_name": "f", "tags": [str(n) for n in range(65)]}, "tags"),
        ({"flow_name": "f", "flow": "f"}, "flow"),
        ({"flow_name": "f", "timeout_sec": 0}, "timeout_sec"),
        ({"flow_name": "f", "timeout_sec": -1}, "timeout_sec"),
        ({"flow_name": "f", "timeout_sec": "60"}, "timeout_sec"),
        ({"flow_name": "f", "timeout_sec": True}, "timeout_sec"),
        ({"flow_name": "f", "timeout_sec": MAX_TIMEOUT_SEC + 1}, "timeout_sec"),
    ],
)
def test_a_bad_field_is_refused_by_name(body: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        asked(**body)

    assert told in refused.value.detail


@pytest.mark.parametrize("body", [b"", b"[]", b'"hello"', b"null", b"flow_name=hello"])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_submit(body, CONFIG, ANYONE)


def test_params_may_take_half_of_a_snapshot_and_no_more() -> None:
    config = NatsBackendConfig(max_run_snapshot_bytes=2048)
    fits = {"x": "a" * (1024 - len('{"x":""}'))}

    parse_submit(orjson.dumps({"flow_name": "f", "params": fits}), config, ANYONE)
    with pytest.raises(RequestTooLarge, match="params: 1025 bytes as JSON; at most 1024"):
        parse_submit(orjson.dumps({"flow_name": "f", "params": {"x": fits["x"] + "a"}}), config, ANYONE)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", None),
        (b" \n", None),
        (b"{}", None),
        (b'{"reason": null}', None),
        (b'{"reason": "wrong input"}', "wrong input"),
    ],
)
def test_a_cancel_may_say_why(body: bytes, reason: str | None) -> None:
    assert read_optional(RunCancelRequest, body).reason == reason


@pytest.mark.parametrize("body", [b"no", b"[]", b'{"reason": 1}', b'{"reason": "' + b"x" * 1001 + b'"}'])
def test_a_cancel_that_cannot_be_understood_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        read_optional(RunCancelRequest, body)


def test_what_decide_needs_is_never_shown() -> None:
    shown = orjson.loads(translate.run_out(to_snapshot(RUN), FACTS, records=True))

    assert "state" not in shown
    assert "task_records" in shown
    assert "task_records" not in orjson.loads(translate.run_out(to_snapshot(RUN), FACTS, records=False))


def test_what_is_known_of_its_worker_is_shown_beside_a_run() -> None:
    shown = orjson.loads(translate.run_out(to_snapshot(RUN), FACTS, records=False))

    assert shown.items() >= FACTS.items()


def test_tasks_are_shown_with_the_fields_of_the_contract() -> None:
    shown = orjson.loads(translate.tasks_out(to_snapshot(RUN)))

    assert shown.keys() == {"run_id", "flow_name", "status", "tasks", "task_records", "task_records_truncated"}


def test_a_list_of_json_is_json() -> None:
    assert translate.list_out([], no_facts) == b"[]"
    assert orjson.loads(translate.list_out([b'{"a":1}', b"2"], no_facts)) == [{"a": 1}, 2]


def test_whole_runs_in_a_list_have_the_facts_and_summaries_have_not() -> None:
    summary, whole = orjson.loads(translate.list_out([b'{"a":1}', to_snapshot(RUN)], lambda snapshot: FACTS))

    assert summary == {"a": 1}
    assert whole.items() >= FACTS.items()


def no_facts(snapshot: Mapping[str, Any]) -> Mapping[str, Any]:
    return {}


@pytest.mark.parametrize("body", [b'{"params":{"a":[%b[]]}}' % (b"[]," * 100_000), b"[%b1]" % (b"1," * 200_000)])
def test_more_values_than_params_may_have_are_refused_unread(body: bytes) -> None:
    with pytest.raises(RequestTooLarge, match="more values"):
        parse_submit(body, CONFIG, ANYONE)


def test_text_of_any_marks_is_as_good_as_other_text() -> None:
    text, labels = ",:[{" * 30_000, [",:[{" * 32] * 64

    request, told = asked(flow_name=",:[{" * 64, params={"text": text}, tags=labels)

    assert (request.input, list(told)) == ({"text": text}, labels)


def test_a_body_of_many_fields_is_not_told_of_each() -> None:
    with pytest.raises(InvalidRequest, match="60 fields; known are flow_name, params, tag, tags"):
        asked(**{f"field{number}": 0 for number in range(60)})

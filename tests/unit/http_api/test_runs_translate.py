"""Translation between `/runs` and the domain."""

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


def parse(**body: Any) -> tuple[Request, tuple[str, ...]]:
    request, labels, _ = parse_submit(orjson.dumps(body), CONFIG, ANYONE)
    return request, labels


def test_only_a_flow_name_is_required() -> None:
    assert parse(flow_name="hello") == (Request(flow_name="hello", tag="somewhere", input={}), ("somewhere",))


def test_a_run_without_labels_has_its_tag_as_label() -> None:
    assert parse(flow_name="hello", tag="gpu") == (Request(flow_name="hello", tag="gpu", input={}), ("gpu",))


def test_given_labels_are_free_text_and_replace_the_tag() -> None:
    request, labels = parse(flow_name="hello", tag="gpu", tags=["夜間 バッチ", "a/b"])

    assert (request.tag, labels) == ("gpu", ("夜間 バッチ", "a/b"))


def test_no_labels_means_no_labels() -> None:
    assert parse(flow_name="hello", tags=[])[1] == ()


def test_a_run_may_have_a_limit() -> None:
    assert parse(flow_name="hello", timeout_sec=90)[0].timeout_sec == 90.0
    assert parse(flow_name="hello", timeout_sec=None)[0].timeout_sec is None


def test_params_are_unchanged() -> None:
    params = {"深い": [{"n": 2**63 - 1, "x": None}], "": 0.1}

    assert parse(flow_name="hello", params=params)[0].input == params


@pytest.mark.parametrize(
    ("body", "expected"),
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
def test_a_bad_field_is_refused_by_name(body: dict[str, Any], expected: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse(**body)

    assert expected in refused.value.detail


@pytest.mark.parametrize("body", [b"", b"[]", b'"hello"', b"null", b"flow_name=hello"])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_submit(body, CONFIG, ANYONE)


def test_params_are_limited_to_half_of_a_snapshot() -> None:
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
def test_a_cancel_may_have_a_reason(body: bytes, reason: str | None) -> None:
    assert read_optional(RunCancelRequest, body).reason == reason


@pytest.mark.parametrize("body", [b"no", b"[]", b'{"reason": 1}', b'{"reason": "' + b"x" * 1001 + b'"}'])
def test_an_invalid_cancel_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        read_optional(RunCancelRequest, body)


def test_internal_fields_are_never_shown() -> None:
    run = orjson.loads(translate.run_out(to_snapshot(RUN), FACTS, records=True))

    assert "state" not in run
    assert "task_records" in run
    assert "task_records" not in orjson.loads(translate.run_out(to_snapshot(RUN), FACTS, records=False))


def test_worker_facts_are_shown_beside_a_run() -> None:
    run = orjson.loads(translate.run_out(to_snapshot(RUN), FACTS, records=False))

    assert run.items() >= FACTS.items()


def test_tasks_are_shown_with_the_fields_of_the_contract() -> None:
    run = orjson.loads(translate.tasks_out(to_snapshot(RUN)))

    assert run.keys() == {"run_id", "flow_name", "status", "tasks", "task_records", "task_records_truncated"}


def test_a_list_of_json_is_json() -> None:
    assert translate.list_out([], no_facts) == b"[]"
    assert orjson.loads(translate.list_out([b'{"a":1}', b"2"], no_facts)) == [{"a": 1}, 2]


def test_whole_runs_in_a_list_have_worker_facts_and_summaries_do_not() -> None:
    summary, whole = orjson.loads(translate.list_out([b'{"a":1}', to_snapshot(RUN)], lambda snapshot: FACTS))

    assert summary == {"a": 1}
    assert whole.items() >= FACTS.items()


def no_facts(snapshot: Mapping[str, Any]) -> Mapping[str, Any]:
    return {}


@pytest.mark.parametrize("body", [b'{"params":{"a":[%b[]]}}' % (b"[]," * 100_000), b"[%b1]" % (b"1," * 200_000)])
def test_params_with_too_many_values_are_refused_before_parsing(body: bytes) -> None:
    with pytest.raises(RequestTooLarge, match="more values"):
        parse_submit(body, CONFIG, ANYONE)


def test_text_with_any_punctuation_is_accepted() -> None:
    text, labels = ",:[{" * 30_000, [",:[{" * 32] * 64

    request, tags = parse(flow_name=",:[{" * 64, params={"text": text}, tags=labels)

    assert (request.input, list(tags)) == ({"text": text}, labels)


def test_a_body_with_many_invalid_fields_gets_a_bounded_error() -> None:
    with pytest.raises(InvalidRequest, match="60 fields; known are flow_name, params, tag, queue, tags"):
        parse(**{f"field{number}": 0 for number in range(60)})

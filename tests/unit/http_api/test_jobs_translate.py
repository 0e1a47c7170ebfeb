"""Translation between `/jobs` and the domain."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, get_args

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.caller import ANYONE
from pyoco_server.domain.execution.commands import CreateExecution
from pyoco_server.domain.execution.decide import decide_and_fold
from pyoco_server.domain.execution.snapshot import RUN_STATUSES, to_snapshot
from pyoco_server.domain.execution.state import Request, empty_execution
from pyoco_server.domain.ids import RunId, parse_label
from pyoco_server.domain.queries.query import SnapshotSeen
from pyoco_server.domain.queries.rows import RunRow, change_of
from pyoco_server.errors import InvalidRequest, RequestTooLarge
from pyoco_server.http_api.api.jobs import translate
from pyoco_server.http_api.api.jobs.schemas import Job, JobStatus, TagRequest
from pyoco_server.http_api.protocol.request_parsing import read

CONFIG = NatsBackendConfig(default_tag="somewhere", jobs_default_flow="analyse")
JOB_ID = RunId("0190a5b2-7c4e-7abc-8def-0123456789ab")
SNAPSHOT: dict[str, Any] = {
    "run_id": JOB_ID,
    "flow_name": "main",
    "tag": "gpu",
    "tags": ["urgent", "test"],
    "status": "PENDING",
    "params": {"input": "data.csv"},
    "submitted_at": 1771416000.0,
    "start_time": None,
    "end_time": None,
    "updated_at": 1771416001.5,
    "attempt": 0,
    "error": None,
}
BEGUN = {"start_time": 1771416060.0, "attempt": 1}


def parse(**body: Any) -> tuple[Request, tuple[str, ...]]:
    request, labels, _ = translate.submit_request(orjson.dumps(body), CONFIG, ANYONE)
    return request, labels


def job_of(**changed: Any) -> dict[str, Any]:
    return translate.whole_job_out(SNAPSHOT | changed)


# --- requests ---------------------------------------------------------------------------------------------------------


def test_only_parameters_are_required() -> None:
    assert parse(parameters={"a": 1}) == (Request(flow_name="analyse", tag="somewhere", input={"a": 1}), ())


def test_all_fields_are_used_unchanged() -> None:
    request, labels = parse(parameters={}, tags=["夜間 バッチ", "a/b"], flow="other", tag="gpu", timeout_sec=90)

    assert request == Request(flow_name="other", tag="gpu", input={}, timeout_sec=90.0)
    assert labels == ("夜間 バッチ", "a/b")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, "parameters"),
        ({"parameters": None}, "parameters"),
        ({"parameters": []}, "parameters"),
        ({"parameters": {}, "tags": "urgent"}, "tags"),
        ({"parameters": {}, "tags": None}, "tags"),
        ({"parameters": {}, "tags": [1]}, "tags.0"),
        ({"parameters": {}, "tags": [""]}, "tags.0"),
        ({"parameters": {}, "tags": ["x" * 129]}, "tags.0"),
        ({"parameters": {}, "tags": [str(n) for n in range(65)]}, "tags"),
        ({"parameters": {}, "tags": ["a\0b"]}, "printable"),
        ({"parameters": {}, "tags": [".."]}, "not . or .."),
        ({"parameters": {}, "flow": ""}, "flow"),
        ({"parameters": {}, "flow": "x" * 257}, "flow"),
        ({"parameters": {}, "tag": "a.b"}, "tag"),
        ({"parameters": {}, "timeout_sec": "90"}, "timeout_sec"),
        ({"parameters": {}, "timeout_sec": 0}, "timeout_sec"),
        ({"parameters": {}, "timeoutSec": 90}, "timeoutSec"),
        ({"parameters": {}, "params": {}}, "params"),
        ({str(n): n for n in range(40)}, "known are parameters, tags, labels, flow, tag, queue, timeout_sec"),
    ],
)
def test_an_invalid_field_is_refused_by_name(body: Mapping[str, Any], expected: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse(**body)

    assert expected in refused.value.detail


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b'"x"', b"\xff"])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        translate.submit_request(body, CONFIG, ANYONE)


def test_parameters_that_leave_no_room_for_other_fields_are_too_large() -> None:
    with pytest.raises(RequestTooLarge, match="parameters: "):
        parse(parameters={"text": "x" * CONFIG.max_run_snapshot_bytes})


@pytest.mark.parametrize("body", [b"", b"{}", b'"x"', b'{"tag": ""}', b'{"tag": "a", "tags": []}', b'{"tag": ".."}'])
def test_an_invalid_tag_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_label(read(TagRequest, body).tag)


# --- responses --------------------------------------------------------------------------------------------------------


def test_a_job_has_the_fields_of_the_jobs_api() -> None:
    assert job_of() == {
        "id": JOB_ID,
        "status": "pending",
        "flow": "main",
        "tag": "gpu",
        "createdAt": "2026-02-18T12:00:00.000Z",
        "startedAt": None,
        "completedAt": None,
        "tags": ["urgent", "test"],
        "attempt": 0,
        "parameters": {"input": "data.csv"},
    }


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"status": "PENDING"}, "pending"),
        ({"status": "CANCELLING"}, "pending"),
        ({"status": "RUNNING"} | BEGUN, "running"),
        ({"status": "CANCELLING"} | BEGUN, "running"),
        ({"status": "COMPLETED"} | BEGUN, "completed"),
        ({"status": "FAILED"} | BEGUN, "failed"),
        ({"status": "CANCELLED"}, "canceled"),
        ({"status": "CANCELLED"} | BEGUN, "canceled"),
    ],
)
def test_a_job_being_cancelled_keeps_its_status(changed: dict[str, Any], status: JobStatus) -> None:
    assert job_of(**changed)["status"] == status
    assert changed["status"] in translate.RUN_STATUSES[status]


def test_every_run_status_maps_to_a_job_status() -> None:
    assert set(translate.RUN_STATUSES) == set(get_args(JobStatus))
    assert {run for runs in translate.RUN_STATUSES.values() for run in runs} == set(RUN_STATUSES)


def test_optional_fields_are_shown_when_they_have_a_value() -> None:
    ended = job_of(
        **BEGUN,
        status="FAILED",
        end_time=1771416060.25,
        error="no such file",
        cancel_requested_at=1771416060.125,
        timeout_sec=90.0,
    )

    assert (ended["startedAt"], ended["completedAt"]) == ("2026-02-18T12:01:00.000Z", "2026-02-18T12:01:00.250Z")
    assert (ended["error"], ended["cancelRequestedAt"]) == ("no such file", "2026-02-18T12:01:00.125Z")
    assert (ended["timeoutSec"], ended["attempt"]) == (90.0, 1)


def test_a_completed_job_has_its_result() -> None:
    ended = {
        "status": "COMPLETED",
        "tasks": {"load": "SUCCEEDED", "save": "SUCCEEDED"},
        "task_records": {"load": {"output": 1}, "save": {"output": [1, 2]}},
        "task_records_truncated": False,
        "state": {"result": [1]},
    }
    dropped = ended | {"task_records": {}, "task_records_truncated": True}

    assert job_of(**ended)["result"] == [1, 2]
    assert job_of(**dropped).items() >= {"result": None, "resultTruncated": True}.items()
    assert "result" not in job_of(status="RUNNING")


def test_a_list_shows_the_same_job_without_its_parameters() -> None:
    create = CreateExecution(at=5.0, request=Request(flow_name="main", tag="gpu", input={"a": 1}), labels=("x",))
    snapshot = to_snapshot(decide_and_fold(empty_execution(JOB_ID), create)[1])
    row = change_of(SnapshotSeen(run_id=JOB_ID, sequence=1, plain=orjson.loads(orjson.dumps(snapshot))))
    assert isinstance(row, RunRow)

    listed = translate.job_out(orjson.loads(row.summary), parameters=False)

    assert listed | {"parameters": {"a": 1}} == translate.job_out(snapshot, parameters=True)


def test_an_execution_with_claimable_nodes_has_no_tag() -> None:
    assert job_of(tag="")["tag"] is None


junk = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.lists(st.integers())
)


@given(st.dictionaries(st.sampled_from(sorted({*SNAPSHOT, "cancel_requested_at", "timeout_sec"} - {"run_id"})), junk))
def test_a_snapshot_with_unusual_values_is_a_valid_job(odd: dict[str, Any]) -> None:
    bare = {"run_id": JOB_ID}
    for snapshot in (bare | odd, SNAPSHOT | odd):
        job = orjson.loads(orjson.dumps(translate.whole_job_out(snapshot)))

        assert Job.model_validate(job).id == JOB_ID
        assert datetime.fromisoformat(job["createdAt"]).tzinfo is not None

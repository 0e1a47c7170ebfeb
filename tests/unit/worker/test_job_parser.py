"""Parsing of jobs: the form of the contract is accepted; anything else is refused with a reason."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.execution.state import MAX_LABELS, MAX_TIMEOUT_SEC
from pyoco_server.domain.ids import RunId
from pyoco_server.errors import InvalidJob
from pyoco_server.ports import Job
from pyoco_server.worker.attempt.job_parser import MAX_CORRELATION_ID_CHARS, parse_job

RUN_ID = "0190a5b2-7c4e-7abc-8def-0123456789ab"
GOOD: dict[str, Any] = {"run_id": RUN_ID, "flow_name": "hello", "tag": "default", "submitted_at": 1_700_000_000.5}

TEXTS = st.text(alphabet="aZ09-_. \n\x00é夜", max_size=8)


def job(**changed: Any) -> bytes:
    return orjson.dumps({key: value for key, value in {**GOOD, **changed}.items() if value is not ...})


def refusal(payload: bytes) -> InvalidJob:
    with pytest.raises(InvalidJob) as refused:
        parse_job(payload)
    return refused.value


def test_a_job_with_only_required_fields_has_no_labels_and_no_params() -> None:
    assert parse_job(job()) == Job(
        run_id=RunId(RUN_ID), flow_name="hello", tag="default", submitted_at=1_700_000_000.5, tags=(), params={}
    )


def test_a_job_may_have_labels_params_and_unknown_fields() -> None:
    read = parse_job(job(tags=["nightly", "夜間"], params={"n": 1}, schema_version=7))

    assert read.tags == ("nightly", "夜間")
    assert read.params == {"n": 1}


def test_a_job_may_have_a_time_limit() -> None:
    assert parse_job(job(timeout_sec=90)).timeout_sec == 90.0
    assert parse_job(job(timeout_sec=0.5)).timeout_sec == 0.5


@pytest.mark.parametrize("value", [0, -1, True, "60", [], 1e300, MAX_TIMEOUT_SEC + 1])
def test_an_invalid_time_limit_is_refused(value: object) -> None:
    assert "timeout_sec" in refusal(job(timeout_sec=value)).detail


@pytest.mark.parametrize("value", ["request-1", "夜間", "x" * MAX_CORRELATION_ID_CHARS])
def test_a_job_may_have_a_correlation_id(value: str) -> None:
    assert parse_job(job(correlation_id=value)).correlation_id == value


@pytest.mark.parametrize("value", ["", "a\nb", "\x00", "x" * (MAX_CORRELATION_ID_CHARS + 1), 7, ["a"], {}, True, ...])
def test_an_invalid_correlation_id_is_ignored(value: object) -> None:
    assert parse_job(job(correlation_id=value)).correlation_id is None


def test_null_means_absent() -> None:
    read = parse_job(job(tags=None, params=None))

    assert (read.tags, read.params) == ((), {})


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"run_id": "', "not JSON"),
        (b'{"a": NaN}', "not JSON"),
        (b'"hello"', "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"[" * 5000, "not JSON"),
        (job(run_id=...), "run_id"),
        (job(run_id=7), "run_id"),
        (job(run_id=""), "run_id"),
        (job(flow_name=...), "flow_name"),
        (job(flow_name=["hello"]), "flow_name"),
        (job(flow_name="x" * 257), "flow_name"),
        (job(tag=...), "tag"),
        (job(tag="a.b"), "tag"),
        (job(tag="*"), "tag"),
        (job(tag="x" * 65), "tag"),
        (job(submitted_at=...), "submitted_at"),
        (job(submitted_at="now"), "submitted_at"),
        (job(submitted_at=True), "submitted_at"),
        (job(submitted_at=-1), "submitted_at"),
        (job(submitted_at=1_767_225_600_000), "submitted_at"),
        (job(submitted_at=1e300), "submitted_at"),
        (job(params=[1]), "params"),
        (job(params="a=1"), "params"),
        (job(tags="nightly"), "tags"),
        (job(tags=[1]), "tags"),
        (job(tags=["line\nbreak"]), "tags"),
        (job(tags=[str(n) for n in range(MAX_LABELS + 1)]), "tags"),
    ],
)
def test_an_invalid_job_is_rejected_with_the_reason(payload: bytes, reason: str) -> None:
    assert reason in refusal(payload).detail


def test_a_refused_job_names_its_run_if_it_has_one() -> None:
    assert refusal(job(flow_name=...)).facts["run_id"] == RUN_ID


def test_an_invalid_run_id_is_reported() -> None:
    refused = refusal(job(run_id="../../etc/passwd"))

    assert "run_id" in refused.detail


@given(
    st.dictionaries(
        st.sampled_from([*GOOD, "params", "tags", "else"]),
        st.recursive(
            st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | TEXTS,
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
            max_leaves=4,
        ),
    )
)
def test_any_object_is_a_job_or_an_invalid_job(changed: dict[str, Any]) -> None:
    try:
        read = parse_job(orjson.dumps({**GOOD, **changed}))
    except InvalidJob:
        return
    assert isinstance(read, Job)


@given(st.binary(max_size=64))
def test_arbitrary_bytes_are_rejected_as_an_invalid_job(payload: bytes) -> None:
    assert refusal(payload).err_id == "ERR-PYOCO-0012"

"""Queue message → Job, and its flow.yaml. Rejects what no attempt could ever run; imports no user code."""

from __future__ import annotations

from typing import Any, TypeGuard

import orjson

from pyoco_server.adapters.flow_graph import read_flow_file
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution.state import MAX_LABELS, MAX_TIMEOUT_SEC, Execution
from pyoco_server.domain.flow_yaml import patterns_of
from pyoco_server.domain.ids import RunId, parse_label, parse_run_id, parse_tag
from pyoco_server.errors import InvalidJob, InvalidRequest, PyocoError, RunNotFound, WorkflowTooLarge
from pyoco_server.ports import Job
from pyoco_server.services.executions.submit import Workflow, is_submitted_text, workflow_text
from pyoco_server.stores import EventLog

# The limit over HTTP: the name is repeated in every event, snapshot and dead letter of the run.
MAX_FLOW_NAME_CHARS = 256
# The end of the year 9999, the last one that datetime supports. Milliseconds exceed it.
LAST_TIME = 253_402_300_799
MAX_CORRELATION_ID_CHARS = 256


def parse_job(payload: bytes) -> Job:
    """Parses a job (contract, appendix E). `InvalidJob` names the fault, and the run if the message has one."""
    try:
        plain = orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        raise InvalidJob("the job is not JSON") from error
    if not isinstance(plain, dict):
        raise InvalidJob("the job is not a JSON object")
    try:
        return _job(plain)
    except PyocoError as error:
        known = {name: plain.get(name) for name in ("run_id", "flow_name")}
        raise InvalidJob(error.detail, **known) from error


def parse_workflow(job: Job, config: NatsBackendConfig) -> Workflow:
    """Parses the flow.yaml in a foreign producer's job under the same rules as the gateway."""
    text = job.workflow_yaml or ""
    allowed = patterns_of(config.callable_allow)
    try:
        flow = read_flow_file(text.encode(), max_bytes=config.workflow_yaml_max_bytes, allowed=allowed)
    except (InvalidRequest, WorkflowTooLarge) as error:
        raise InvalidJob(error.detail, run_id=job.run_id, flow_name=job.flow_name) from error
    return Workflow(text, flow)


async def workflow_text_of(log: EventLog, execution: Execution, job: Job) -> str | None:
    """The flow.yaml that the run was submitted with: the job's copy if it is the same text, else the log's; or None."""
    if execution.request.workflow_yaml_sha256 is None:
        return None
    if is_submitted_text(execution, job.workflow_yaml):
        return job.workflow_yaml
    text = await workflow_text(log, execution)
    if text is None:
        raise InvalidJob("the flow.yaml of the run is not in its log", run_id=job.run_id, flow_name=job.flow_name)
    return text


def _job(plain: dict[str, Any]) -> Job:
    run_id, flow_name, tag = (_text(plain, key) for key in ("run_id", "flow_name", "tag"))
    submitted_at, params, tags = plain.get("submitted_at"), plain.get("params") or {}, plain.get("tags") or []
    if not _is_number(submitted_at) or not 0 <= submitted_at <= LAST_TIME:
        raise InvalidJob("submitted_at must be a number (unix seconds)")
    if not isinstance(params, dict):
        raise InvalidJob("params must be an object")
    if not isinstance(tags, list) or not all(isinstance(label, str) for label in tags) or len(tags) > MAX_LABELS:
        raise InvalidJob(f"tags must be a list of at most {MAX_LABELS} strings")
    if len(flow_name) > MAX_FLOW_NAME_CHARS:
        raise InvalidJob(f"flow_name has more than {MAX_FLOW_NAME_CHARS} characters")
    workflow_yaml = plain.get("workflow_yaml")
    if workflow_yaml is not None and not isinstance(workflow_yaml, str):
        raise InvalidJob("workflow_yaml must be a string")
    return Job(
        run_id=_run_id(run_id),
        flow_name=flow_name,
        tag=parse_tag(tag),
        tags=tuple(parse_label(label) for label in tags),
        params=params,
        submitted_at=float(submitted_at),
        workflow_yaml=workflow_yaml,
        timeout_sec=_timeout_sec(plain.get("timeout_sec")),
        correlation_id=_correlation_id(plain.get("correlation_id")),
    )


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _timeout_sec(value: object) -> float | None:
    if value is None:
        return None
    if not _is_number(value) or not 0 < value <= MAX_TIMEOUT_SEC:
        raise InvalidJob(f"timeout_sec must be a number above 0 and at most {MAX_TIMEOUT_SEC:.0f}")
    return float(value)


def _correlation_id(value: object) -> str | None:
    """Never a reason to reject a job: an id that does not fit into a log line is ignored."""
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_CORRELATION_ID_CHARS:
        return None
    return value if value.isprintable() else None


def _text(plain: dict[str, Any], key: str) -> str:
    value = plain.get(key)
    if not isinstance(value, str) or not value:
        raise InvalidJob(f"{key} is missing or not a string")
    return value


def _run_id(text: str) -> RunId:
    try:
        return parse_run_id(text)
    except RunNotFound as error:
        raise InvalidJob("run_id is not a UUID") from error

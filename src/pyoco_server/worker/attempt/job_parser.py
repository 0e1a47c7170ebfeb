"""Queue message → Job, and its flow.yaml. Rejects what no attempt could ever run; imports no user code."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import orjson
from msgspec import Meta

from pyoco_server.adapters.flow_graph import read_flow_file
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution.state import MAX_LABELS, MAX_TIMEOUT_SEC, Execution
from pyoco_server.domain.flow_yaml import patterns_of
from pyoco_server.domain.ids import parse_label, parse_run_id, parse_tag
from pyoco_server.domain.ulid import parse_ulid
from pyoco_server.errors import InvalidJob, InvalidRequest, RunNotFound, WorkflowTooLarge
from pyoco_server.ports import Job
from pyoco_server.services.executions.submit import Workflow, is_submitted_text, workflow_text
from pyoco_server.stores import EventLog
from pyoco_server.tracing.trace_context import accepted_tracestate, parse_traceparent

# The limit over HTTP: the name is repeated in every event, snapshot and dead letter of the run.
MAX_FLOW_NAME_CHARS = 256
# The end of the year 9999, the last one that datetime supports. Milliseconds exceed it.
LAST_TIME = 253_402_300_799
MAX_CORRELATION_ID_CHARS = 256


class _StoredJob(msgspec.Struct):
    """The fields of a job as the contract has them; ids for log lines of any form are no reason to reject it."""

    run_id: str
    flow_name: Annotated[str, Meta(min_length=1, max_length=MAX_FLOW_NAME_CHARS)]
    tag: str
    submitted_at: Annotated[float, Meta(ge=0, le=LAST_TIME)]
    params: dict[str, Any] | None = None
    tags: Annotated[list[str], Meta(max_length=MAX_LABELS)] | None = None
    workflow_yaml: str | None = None
    timeout_sec: Annotated[float, Meta(gt=0, le=MAX_TIMEOUT_SEC)] | None = None
    correlation_id: Any = None
    request_id: Any = None
    traceparent: Any = None
    tracestate: Any = None


def parse_job(payload: bytes) -> Job:
    """Parses a job (contract, appendix E). `InvalidJob` names the fault, and the run if the message has one."""
    try:
        plain = orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        raise InvalidJob("the job is not JSON") from error
    if not isinstance(plain, dict):
        raise InvalidJob("the job is not a JSON object")
    try:
        # A foreign producer may write an absent value as any empty one.
        read = msgspec.convert(plain | {name: plain.get(name) or None for name in ("params", "tags")}, _StoredJob)
        return Job(
            run_id=parse_run_id(read.run_id),
            flow_name=read.flow_name,
            tag=parse_tag(read.tag),
            tags=tuple(parse_label(label) for label in read.tags or ()),
            params=read.params or {},
            submitted_at=read.submitted_at,
            workflow_yaml=read.workflow_yaml,
            timeout_sec=read.timeout_sec,
            correlation_id=_correlation_id(read.correlation_id),
            request_id=parse_ulid(read.request_id) if isinstance(read.request_id, str) else None,
            traceparent=read.traceparent if parse_traceparent(read.traceparent) else None,
            tracestate=accepted_tracestate(read.tracestate),
        )
    except (msgspec.ValidationError, RunNotFound, InvalidRequest) as error:
        reason = "run_id is not a UUID" if isinstance(error, RunNotFound) else getattr(error, "detail", str(error))
        raise InvalidJob(reason, run_id=plain.get("run_id"), flow_name=plain.get("flow_name")) from error


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


def _correlation_id(value: object) -> str | None:
    """The id if it fits into a log line."""
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_CORRELATION_ID_CHARS:
        return None
    return value if value.isprintable() else None

"""The message of a job, in the shape that the contract fixes (appendix E)."""

from __future__ import annotations

import orjson

from pyoco_server.ports import Job


def encode_job(job: Job) -> bytes:
    """A message for workers of any version; optional fields are left out when unset."""
    plain = {
        "run_id": job.run_id,
        "flow_name": job.flow_name,
        "tag": job.tag,
        "tags": job.tags,
        "params": job.params,
        "submitted_at": job.submitted_at,
    }
    if job.workflow_yaml is not None:
        plain["workflow_yaml"] = job.workflow_yaml
    if job.timeout_sec is not None:
        plain["timeout_sec"] = job.timeout_sec
    if job.correlation_id is not None:
        plain["correlation_id"] = job.correlation_id
    return orjson.dumps(plain)

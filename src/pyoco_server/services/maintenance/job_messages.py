"""What a job in the queue says of its run, for those who only look at it; it may say anything, or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from pyoco_server.domain.ids import RunId, parse_run_id
from pyoco_server.errors import RunNotFound
from pyoco_server.ports import StoredJob


def plain_of(job: StoredJob) -> Mapping[str, Any]:
    """The job as it was written; empty when it is none."""
    try:
        plain = orjson.loads(job.payload)
    except orjson.JSONDecodeError:
        return {}
    return plain if isinstance(plain, dict) else {}


def run_id_of(plain: Mapping[str, Any]) -> RunId | None:
    """The run that a job names, when it names one."""
    run_id = plain.get("run_id")
    try:
        return parse_run_id(run_id) if isinstance(run_id, str) else None
    except RunNotFound:
        return None

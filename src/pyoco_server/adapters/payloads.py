"""Jobs and dead letters ⇄ bytes, in the shapes that the contract fixes (appendix E); refuses nothing it can read."""

from __future__ import annotations

from dataclasses import asdict, fields

import orjson

from pyoco_server.application.ports import DeadLetter, Job

_LETTER_FIELDS = frozenset(field.name for field in fields(DeadLetter))


def encode_job(job: Job) -> bytes:
    """The message that a worker of any version understands; a flow.yaml or a time limit is one more field."""
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
    return orjson.dumps(plain)


def encode_letter(letter: DeadLetter) -> bytes:
    """What is not known is left out, except `error`, which the contract wants to see."""
    known = {name: value for name, value in asdict(letter).items() if value is not None}
    return orjson.dumps({"error": None} | known)


def decode_letter(data: bytes) -> DeadLetter | None:
    """The letter that was stored; unknown fields are ignored, and what is no letter at all is None."""
    try:
        known = {name: value for name, value in orjson.loads(data).items() if name in _LETTER_FIELDS}
        tags = known.get("tags")
        return DeadLetter(**known | {"tags": None if tags is None else tuple(tags)})
    except (ValueError, TypeError, AttributeError):
        return None

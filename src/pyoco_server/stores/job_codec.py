"""Jobs and dead letters ⇄ bytes, in the shapes that the contract fixes (appendix E); refuses nothing it can read."""

from __future__ import annotations

from dataclasses import asdict

import orjson

from pyoco_server.ports import DeadLetter, Job

_TEXTS = ("reason", "error", "run_id", "flow_name", "tag", "worker_id", "subject")
# A page has many letters; whoever publishes one may write what the broker takes.
LONGEST_TEXT = 10_000


def encode_job(job: Job) -> bytes:
    """The message that a worker of any version understands; what not every run has is one more field."""
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


def encode_letter(letter: DeadLetter) -> bytes:
    """What is not known is left out, except `error`, which the contract wants to see."""
    known = {name: value for name, value in asdict(letter).items() if value is not None}
    return orjson.dumps({"error": None} | known)


def decode_letter(data: bytes) -> DeadLetter | None:
    """The letter that was stored; what it says in a way that is not ours is not said, and what is no letter is None."""
    try:
        plain = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(plain, dict):
        return None
    texts = {name: value[:LONGEST_TEXT] for name in _TEXTS if isinstance(value := plain.get(name), str)}
    timestamp, tags, delivered = (plain.get(name) for name in ("timestamp", "tags", "num_delivered"))
    if "reason" not in texts or not isinstance(timestamp, int | float) or isinstance(timestamp, bool):
        return None
    labels = tuple(tags) if isinstance(tags, list) and all(isinstance(tag, str) for tag in tags) else None
    count = delivered if isinstance(delivered, int) and not isinstance(delivered, bool) else None
    return DeadLetter(timestamp=timestamp, tags=labels, num_delivered=count, **texts)

"""Jobs and their labels as words: rows, facts, and the last line about one that was followed. Nothing is printed here.

Whatever comes from a server may be missing, may be of a newer version, and may have been named by somebody unkind.
"""

from __future__ import annotations

from pyoco_server.cli.client.execution_view import shown, unix_sec
from pyoco_server.cli.client.render import STYLES, Json, Row, duration, moment, text, took_sec
from pyoco_server.cli.plain import line

JOB_HEAD = ("JOB_ID", "STATUS", "FLOW", "TAG", "CREATED", "TOOK", "LABELS", "ERROR")
LABEL_HEAD = ("LABEL", "JOBS")
JOB_STYLES = {status.lower(): style for status, style in STYLES.items()}


def took(job: Json) -> str:
    """How long it ran; `-` while it does, or when it never did."""
    return duration(
        took_sec({"start_time": unix_sec(job.get("startedAt")), "end_time": unix_sec(job.get("completedAt"))})
    )


def job_row(job: Json) -> Row:
    return (
        text(job.get("id")),
        text(job.get("status")),
        text(job.get("flow")),
        text(job.get("tag")),
        moment(unix_sec(job.get("createdAt"))),
        took(job),
        text(job.get("tags")),
        text(job.get("error")),
    )


def label_row(label: Json) -> Row:
    return (text(label.get("tag")), text(label.get("count")))


def job_facts(job: Json) -> list[tuple[str, str]]:
    """What is worth knowing of one job, as name and value; what it does not say is left out."""
    facts = [
        ("job", text(job.get("id"))),
        ("status", text(job.get("status"))),
        ("flow", text(job.get("flow"))),
        ("tag", text(job.get("tag"))),
        ("labels", text(job.get("tags"))),
        ("parameters", shown(job.get("parameters")) or "-"),
        ("attempt", text(job.get("attempt") or None)),
        ("created", moment(unix_sec(job.get("createdAt")))),
        ("started", moment(unix_sec(job.get("startedAt")))),
        ("ended", moment(unix_sec(job.get("completedAt")))),
        ("took", took(job)),
        ("limit", duration(job.get("timeoutSec"))),
        ("canceled", moment(unix_sec(job.get("cancelRequestedAt")))),
        ("error", text(job.get("error"))),
    ]
    return [(name, value) for name, value in facts if value != "-"]


def last_line(job_id: str, status: object, job: Json) -> str:
    """What is left to say of a job that was followed."""
    told = f"job {line(job_id)} {text(status)}"
    told += f" in {took(job)}" if took(job) != "-" else ""
    return f"{told}: {line(job['error'])}" if job.get("error") else told

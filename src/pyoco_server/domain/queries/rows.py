"""Snapshots → rows of the index. Never raises: one malformed snapshot must not keep the others out of the lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from pyoco_server.domain.execution.snapshot import TERMINAL_RUN_STATUSES
from pyoco_server.domain.execution.state import StopHow
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.histograms import Times
from pyoco_server.domain.queries.json_values import integer, number, text
from pyoco_server.domain.queries.query import Listed, SnapshotSeen, terms_of
from pyoco_server.domain.queries.steps import Step, steps_of

MAX_ERROR_CHARS = 500
UNKNOWN_STATUS = "UNKNOWN"
_HOWS = tuple(how.value for how in StopHow)

Position = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run in the index: the columns that queries use, and the summary that lists return."""

    run_id: RunId
    version: int
    revision: int
    status: str
    flow: str
    tag: str
    tenant_id: str
    archived: bool
    updated_at: float
    ended_at: float | None
    labels: tuple[str, ...]
    workflow_yaml_sha256: str | None
    times: Times
    steps: tuple[Step, ...]
    summary: bytes

    @property
    def terms(self) -> tuple[str, ...]:
        return terms_of(self.labels, self.workflow_yaml_sha256)

    @property
    def listed(self) -> Listed:
        return Listed(self.updated_at, self.run_id, self.summary)

    @property
    def position(self) -> Position:
        """The higher is newer: the version, then the revision of the key (a heartbeat does not change the version)."""
        return (self.version, self.revision)

    @classmethod
    def of(cls, seen: SnapshotSeen) -> RunRow:
        """The row of a stored snapshot."""
        plain = seen.plain or {}
        status = text(plain.get("status")) or UNKNOWN_STATUS
        updated_at = number(plain.get("updated_at")) or 0
        finished = status in TERMINAL_RUN_STATUSES
        labels = _labels(plain.get("tags"))
        return cls(
            run_id=seen.run_id,
            version=integer(plain.get("version")),
            revision=seen.sequence,
            status=status,
            flow=text(plain.get("flow_name")) or "",
            tag=text(plain.get("tag")) or "",
            tenant_id=text(plain.get("tenant_id")) or "",
            archived=number(plain.get("archived_at")) is not None,
            updated_at=float(updated_at),
            ended_at=float(number(plain.get("end_time")) or updated_at) if finished else None,
            labels=tuple(dict.fromkeys(labels)),
            workflow_yaml_sha256=text(plain.get("workflow_yaml_sha256")),
            times=_times(plain),
            steps=steps_of(plain),
            summary=_summary(seen, status=status, updated_at=updated_at, labels=labels),
        )


def fresh(changes: Iterable[SnapshotSeen], *, after: int) -> list[SnapshotSeen]:
    """The changes after `after`, in order. Earlier ones are skipped: they could revive a removed run."""
    return sorted((seen for seen in changes if seen.sequence > after), key=lambda seen: seen.sequence)


def newest(changes: Iterable[SnapshotSeen]) -> Sequence[RunRow]:
    """The newest row of each run; `changes` holds no removals. Rows of earlier states are never built."""
    kept: dict[RunId, SnapshotSeen] = {}
    for seen in changes:
        known = kept.get(seen.run_id)
        if known is None or _position(seen) > _position(known):
            kept[seen.run_id] = seen
    return [RunRow.of(seen) for seen in kept.values()]


def _position(seen: SnapshotSeen) -> Position:
    return (integer((seen.plain or {}).get("version")), seen.sequence)


def _times(plain: Mapping[str, Any]) -> Times:
    submitted_at, started_at, ended_at = (
        number(plain.get("submitted_at")),
        number(plain.get("start_time")),
        number(plain.get("end_time")),
    )
    cancel = plain.get("cancel")
    if not isinstance(cancel, dict):
        return Times(submitted_at, started_at, ended_at)
    how = cancel.get("how")
    return Times(
        submitted_at,
        started_at,
        ended_at,
        cancel_requested_at=number(cancel.get("requested_at")),
        stopped_at=number(cancel.get("stopped_at")),
        how=how if how in _HOWS else "",
    )


def _summary(seen: SnapshotSeen, *, status: str, updated_at: float, labels: list[str]) -> bytes:
    plain = seen.plain or {}
    error = text(plain.get("error"))
    summary = {
        "run_id": seen.run_id,
        "flow_name": text(plain.get("flow_name")),
        "tag": text(plain.get("tag")),
        "tags": labels,
        "status": status,
        "updated_at": updated_at,
        "heartbeat_at": number(plain.get("heartbeat_at")),
        "worker_id": text(plain.get("worker_id")),
        "error": error[:MAX_ERROR_CHARS] if error else error,
        "submitted_at": number(plain.get("submitted_at")),
        "start_time": number(plain.get("start_time")),
        "end_time": number(plain.get("end_time")),
        "attempt": integer(plain.get("attempt")),
        "version": integer(plain.get("version")),
    }
    for key in ("cancel_requested_at", "archived_at", "timeout_sec"):
        known = number(plain.get(key))
        if known is not None:
            summary[key] = known
    for key in ("workflow_yaml_sha256", "replay_of"):
        if (value := text(plain.get(key))) is not None:
            summary[key] = value
    return orjson.dumps(summary)


def _labels(value: Any) -> list[str]:
    return [label for label in value if isinstance(label, str)] if isinstance(value, (list, tuple)) else []

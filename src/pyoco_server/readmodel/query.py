"""The words spoken with an index of runs: what was seen of the bucket, how far, and what is asked for. No behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyoco_server.execution.ids import RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Which runs to list; None means any. Archived runs have a list of their own; of `labels` a run has all."""

    limit: int = 50
    status: str | None = None
    flow: str | None = None
    tag: str | None = None
    tenant_id: str | None = None
    archived: bool = False
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPosition:
    """How far the index has read, and of which stream: a recreated bucket must not pass for the old one."""

    stream_created: str
    sequence: int
    last_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSeen:
    """One change of the snapshot bucket; `plain` is None when the key was removed."""

    sequence: int
    run_id: RunId
    plain: Mapping[str, Any] | None

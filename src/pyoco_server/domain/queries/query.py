"""The vocabulary of the run index: changes of the snapshot bucket, positions in it, queries and results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyoco_server.domain.ids import RunId, is_run_id

# The statuses in which a worker may be working on a run.
AT_WORK = ("RUNNING", "CANCELLING")
_LABEL = "label:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """The filters by range that runs and jobs share; None means any.

    A run was submitted at `submitted_after` or later, and earlier than `submitted_before`. Its id is a UUID that begins
    with `id_prefix`.
    """

    submitted_after: float | None = None
    submitted_before: float | None = None
    id_prefix: str | None = None

    @property
    def given_ranges(self) -> tuple[object, ...]:
        """What a cursor is bound to; empty without ranges, so that cursors of lists without ranges stay as they are."""
        ranges = (self.submitted_after, self.submitted_before, self.id_prefix)
        return () if ranges == (None, None, None) else ranges

    def holds(self, submitted_at: float, run_id: str) -> bool:
        """Whether a run with this time and id is within the ranges."""
        return (
            (self.submitted_after is None or submitted_at >= self.submitted_after)
            and (self.submitted_before is None or submitted_at < self.submitted_before)
            and (self.id_prefix is None or (is_run_id(run_id) and run_id.startswith(self.id_prefix)))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery(Ranges):
    """Which runs to list; None means any. Archived runs have their own list.

    A run must have all `labels` and one of `statuses` (empty: any); `status` applies in addition. Its error, as lists
    show it, contains `error` in any case. `updated_after` and `before` are exclusive: pass the key of a page's last run
    as `before` for the next page.
    """

    limit: int = 50
    status: str | None = None
    statuses: tuple[str, ...] = ()
    flow: str | None = None
    tag: str | None = None
    tenant_id: str | None = None
    archived: bool = False
    labels: tuple[str, ...] = ()
    workflow_yaml_sha256: str | None = None
    updated_after: float | None = None
    error: str | None = None
    before: tuple[float, str] | None = None

    @property
    def is_counted(self) -> bool:
        """Whether it selects by nothing but status, tenant and archived: the index knows how many runs these are."""
        others = (self.flow, self.tag, self.workflow_yaml_sha256, self.updated_after, self.error, self.before)
        return not any((self.labels, self.given_ranges)) and all(other is None for other in others)

    @property
    def terms(self) -> tuple[str, ...]:
        return terms_of(self.labels, self.workflow_yaml_sha256)


class Listed(NamedTuple):
    """One run in a list; lists are sorted by the first two fields, descending."""

    updated_at: float
    run_id: RunId
    summary: bytes

    @property
    def key(self) -> tuple[float, str]:
        return (self.updated_at, self.run_id)


class SearchPage(NamedTuple):
    """The next runs of a search. The work per page is bounded, so a page may be short or empty without being the last.

    `unread` is the key for `before` of the next page; None at the end.
    """

    runs: Sequence[Listed]
    unread: tuple[float, str] | None


def folded(text: str) -> str:
    """The text as a search in any case compares it."""
    return text.casefold()


def terms_of(labels: Iterable[str], workflow_yaml_sha256: str | None) -> tuple[str, ...]:
    """The search terms of a run beside its columns: its labels and the digest of its YAML, unique and sorted.

    The prefixes keep them apart: a label that looks like a digest must not match a YAML.
    """
    yaml = [f"yaml:{workflow_yaml_sha256}"] if workflow_yaml_sha256 else []
    return tuple(sorted({*(f"{_LABEL}{label}" for label in labels), *yaml}))


def labels_of(terms: Iterable[str]) -> list[str]:
    return [term.removeprefix(_LABEL) for term in terms if term.startswith(_LABEL)]


class KnownRun(NamedTuple):
    """What the index knows of a run; the tenant is empty for a run without one."""

    version: int
    status: str
    tenant_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPosition:
    """How far the index has read, and of which stream: a recreated bucket must not be mistaken for the old one."""

    stream_created: str
    sequence: int
    last_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSeen:
    """One change of the snapshot bucket; `plain` is None when the key was removed."""

    sequence: int
    run_id: RunId
    plain: Mapping[str, Any] | None

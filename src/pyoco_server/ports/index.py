"""The run index: rows of all snapshots for lists, counts and claims. A cache that can be deleted and rebuilt."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.histograms import Tallies, Waiting
from pyoco_server.domain.queries.jobs import JobPage, JobQuery, LabelCount, LabelQuery
from pyoco_server.domain.queries.query import IndexPosition, KnownRun, Listed, RunQuery, SearchPage
from pyoco_server.domain.queries.rows import Change
from pyoco_server.domain.queries.stats import Stats, StatsQuery
from pyoco_server.domain.queries.steps import ClaimableNode, DueNode, StepKind, WaitingNode, WaitQuery


class RunIndex(Protocol):
    """A local, synchronous cache. Raises `IndexUnavailable` while it is damaged and waits for `reset`."""

    def position(self) -> IndexPosition | None:
        """How far it has read; None when it is empty or damaged."""

    def reset(self, *, count_after: int = 0) -> None:
        """Start empty. Revisions up to `count_after` are listed but not counted in the histograms: they are older than
        the index.
        """

    def apply(self, changes: Sequence[Change], position: IndexPosition) -> None:
        """Store changes and the position behind them in one transaction; an older revision of a run changes nothing."""

    def rows(self, query: RunQuery) -> Sequence[Listed]:
        """The matching runs, last `updated_at` first; at the same time the greater id first."""

    def search(self, query: RunQuery) -> SearchPage:
        """The same by `error`, with bounded work: a page may be short, even empty, and still have a following one."""

    def count(self, query: RunQuery) -> int | None:
        """The number of matching runs, whatever the limit; None for a query that is not `is_counted`."""

    def changed(self, query: RunQuery, *, since: int, after: str, upto: str) -> Sequence[Listed]:
        """The matching runs with ids behind `after` and up to `upto` that changed behind the sequence `since`, by id.

        A heartbeat is no change, but counts as one after a rebuild, which cannot tell them apart.
        """

    def last_run_id(self) -> str:
        """The greatest id of all runs; empty without runs."""

    def jobs(self, query: JobQuery) -> JobPage:
        """The matching unarchived runs, newest id first.

        The work for a page is bounded: a page may be short, even empty, and still have a following one.
        """

    def labels(self, query: LabelQuery) -> Sequence[LabelCount]:
        """The labels of unarchived runs (of one tenant), by code points; reads no runs."""

    def known(self, run_ids: Sequence[RunId]) -> Mapping[RunId, KnownRun]:
        """What is indexed of each of these runs; unknown runs are left out."""

    def mark(self, name: str) -> int:
        """A number stored beside the rows (0 by default): the position of another reader of the streams."""

    def set_mark(self, name: str, value: int) -> None: ...
    def counts(self, tenant_id: str | None = None) -> Mapping[str, int]:
        """The number of runs per status (of one tenant)."""

    def waiting(self, tenant_id: str | None = None, *, limit: int) -> Sequence[Waiting]:
        """The tags with the most PENDING runs (of one tenant), the longest queue first."""

    def tallies(self, tenant_id: str | None = None) -> Tallies:
        """Histograms of what has happened to runs (of one tenant) since the last reset; they never decrease."""

    def stats(self, query: StatsQuery) -> Stats:
        """Counters of the stored runs by interval."""

    def finished_before(self, ended_at: float, limit: int) -> Sequence[RunId]:
        """Finished runs that ended earlier, oldest first, for retention."""

    def at_work(self, limit: int) -> Mapping[RunId, int]:
        """RUNNING and CANCELLING runs with the revision of their snapshot, which every heartbeat raises."""

    def oldest(
        self,
        status: str,
        *,
        tag: str | None = None,
        updated_before: float | None = None,
        after: tuple[float, str] | None = None,
        limit: int,
    ) -> Sequence[Listed]:
        """Runs of a status, least recently updated first. `after` is the `key` of the last run of the previous page."""

    def claimable(
        self, graph_ids: Collection[str], *, tenant_id: str | None, now: float, limit: int
    ) -> Sequence[ClaimableNode]:
        """Nodes of these graphs (of one tenant) that can be claimed: ready, or with an expired lease.

        Oldest execution first, its nodes in their order. The cost grows with the limit, not with the number of ready
        nodes.
        """

    def next_lease_end(self, graph_ids: Collection[str], *, tenant_id: str | None) -> float | None:
        """The earliest end, past or future, of a lease on a claimable node of these graphs (of one tenant)."""

    def waits(self, query: WaitQuery) -> Sequence[WaitingNode]:
        """Waiting nodes by (since, run id, place): the longest wait first."""

    def due(self, *, before: float, limit: int) -> Sequence[DueNode]:
        """Nodes whose wait or last lease is over at `before`, earliest first."""

    def steps_count(self, tenant_id: str | None = None) -> Mapping[StepKind, int]:
        """The number of steps of each kind (of one tenant)."""

    def close(self) -> None: ...

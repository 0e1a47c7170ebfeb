"""The rows of all snapshots, for lists, counts and claims: a cache that can be deleted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.histograms import Tallies, Waiting
from pyoco_server.domain.queries.jobs import JobPage, JobQuery, LabelCount, LabelQuery
from pyoco_server.domain.queries.query import IndexPosition, Listed, RunQuery, SnapshotSeen
from pyoco_server.domain.queries.steps import ClaimableNode, DueNode, StepKind, WaitingNode, WaitQuery


class RunIndex(Protocol):
    """Rows of all snapshots, for lists and counts: a cache that can be deleted and comes back. Synchronous, local."""

    def position(self) -> IndexPosition | None: ...
    def reset(self, *, count_after: int = 0) -> None:
        """Forget everything. What the bucket held up to `count_after` will be listed, but adds nothing to the tallies:
        it happened before this index was there to see it.
        """

    def apply(self, changes: Sequence[SnapshotSeen], position: IndexPosition) -> None:
        """Take in changes and the position behind them in one transaction; older positions of a run change nothing."""

    def rows(self, query: RunQuery) -> Sequence[Listed]:
        """The runs asked for, newest `updated_at` first; of the same moment the greater id first."""

    def changed(self, query: RunQuery, *, since: int, after: str, upto: str) -> Sequence[Listed]:
        """The runs asked for that changed behind the sequence `since`, by id, of those behind `after` and up to `upto`.

        A heartbeat is no change, but may be taken for one: after a rebuild nobody can tell them apart.
        """

    def last_run_id(self) -> str:
        """The greatest id of all runs; empty when there are none."""

    def summaries(self, query: RunQuery) -> Sequence[bytes]:
        """The JSON summaries of `rows`."""

    def run_ids(self, query: RunQuery) -> Sequence[RunId]:
        """The ids of `rows`."""

    def jobs(self, query: JobQuery) -> JobPage:
        """The unarchived runs asked for, the newest id first.

        The work for a page is bounded, whatever is stored: it may be short, even empty, and have another one behind it.
        """

    def labels(self, query: LabelQuery) -> Sequence[LabelCount]:
        """The labels of unarchived runs (of one tenant), by code points; no run is looked at for it."""

    def known(self, run_ids: Sequence[RunId]) -> Mapping[RunId, tuple[int, str]]:
        """Version and status that each of these runs has here; runs it does not know are left out."""

    def tenants(self, run_ids: Sequence[RunId]) -> Mapping[RunId, str]:
        """Whose each of these runs is (empty: nobody's); runs it does not know are left out."""

    def mark(self, name: str) -> int:
        """A number kept beside the rows (0 until it was set): how far another reader of the streams has come."""

    def set_mark(self, name: str, value: int) -> None: ...
    def counts(self, tenant_id: str | None = None) -> Mapping[str, int]:
        """How many runs per status (of one tenant)."""

    def waiting(self, tenant_id: str | None = None, *, limit: int) -> Sequence[Waiting]:
        """The tags with the most PENDING runs (of one tenant), the deepest queue first; no run is looked at for it."""

    def tallies(self, tenant_id: str | None = None) -> Tallies:
        """What has happened to runs (of one tenant) since the index was begun; removing a run takes nothing back."""

    def finished_before(self, ended_at: float, limit: int) -> Sequence[RunId]:
        """Finished runs whose end is older, oldest first: what retention removes."""

    def at_work(self, limit: int) -> Mapping[RunId, int]:
        """Runs that somebody may be working on, with the revision of their snapshot: every heartbeat raises it."""

    def unfinished(self, *, status: str, tag: str, updated_before: float, limit: int) -> Sequence[RunId]:
        """Runs of an unfinished status and a tag that have not changed since then, oldest first."""

    def oldest(self, status: str, *, after: tuple[float, str] | None = None, limit: int) -> Sequence[Listed]:
        """Runs of a status, least recently updated first. `after` is the `key` of the last run of the previous page."""

    def claimable(
        self, graph_ids: Collection[str], *, tenant_id: str | None, now: float, limit: int
    ) -> Sequence[ClaimableNode]:
        """Nodes of these graphs (of one tenant) that can be taken: ready, or with a lease that has ended.

        The oldest execution first (its id begins with its time), its nodes in their order. The cost is that of the
        limit, however many are ready.
        """

    def next_lease_end(self, graph_ids: Collection[str], *, tenant_id: str | None) -> float | None:
        """When the first lease ends, or has ended, after which a node of these graphs (of one tenant) can be taken."""

    def waits(self, query: WaitQuery) -> Sequence[WaitingNode]:
        """Nodes that wait for somebody, by (since, run id, place): the longest wait first."""

    def due(self, *, before: float, limit: int) -> Sequence[DueNode]:
        """Nodes whose wait, or whose last lease, is over at `before`, the earliest first."""

    def steps_count(self) -> Mapping[StepKind, int]:
        """How many steps of each kind there are; no step is looked at for it."""

    def close(self) -> None: ...

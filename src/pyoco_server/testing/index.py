"""The run index as a dictionary: the reference model of the contract suite. It is not persistent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.histograms import Tallies, Waiting, bucket_of, gathered, news
from pyoco_server.domain.queries.jobs import JobPage, JobQuery, LabelCount, LabelQuery, order_of
from pyoco_server.domain.queries.query import (
    AT_WORK,
    IndexPosition,
    KnownRun,
    Listed,
    RunQuery,
    SearchPage,
    folded,
)
from pyoco_server.domain.queries.rows import Change, Removed, RunRow, fresh
from pyoco_server.domain.queries.stats import COUNTERS, Stats, StatsQuery, counted
from pyoco_server.domain.queries.steps import ClaimableNode, DueNode, Step, StepKind, WaitingNode, WaitQuery


class MemoryRunIndex:
    """See `ports.RunIndex`."""

    def __init__(self) -> None:
        self.reset()

    def position(self) -> IndexPosition | None:
        return self._position

    def reset(self, *, count_after: int = 0) -> None:
        self._rows: dict[RunId, RunRow] = {}
        self._changed: dict[RunId, int] = {}
        self._position: IndexPosition | None = None
        self._marks: dict[str, int] = {}
        self._counted: list[tuple[str, str, str, int, float]] = []
        self._count_after = count_after

    def apply(self, changes: Sequence[Change], position: IndexPosition) -> None:
        known = self._position
        for change in fresh(changes, after=known.sequence if known else 0):
            old = self._rows.get(change.run_id)
            if isinstance(change, Removed):
                self._rows.pop(change.run_id, None)
            elif old is None or change.position > old.position:
                self._rows[change.run_id] = change
                self._count(change, old.status if old else None)
                if old is None or _listed_by(change) != _listed_by(old):
                    self._changed[change.run_id] = change.revision
        if known is None or position.sequence > known.sequence:
            self._position = position

    def rows(self, query: RunQuery) -> Sequence[Listed]:
        return sorted(self._matching(query), key=lambda listed: listed.key, reverse=True)[: query.limit]

    def search(self, query: RunQuery) -> SearchPage:
        found = self.rows(replace(query, limit=query.limit + 1))
        more = len(found) > query.limit
        return SearchPage(found[: query.limit], found[query.limit - 1].key if more else None)

    def count(self, query: RunQuery) -> int | None:
        return len(self._matching(query)) if query.is_counted else None

    def changed(self, query: RunQuery, *, since: int, after: str, upto: str) -> Sequence[Listed]:
        found = [run for run in self._matching(query) if self._changed[run.run_id] > since]
        return sorted((run for run in found if after < run.run_id <= upto), key=lambda run: run.run_id)[: query.limit]

    def last_run_id(self) -> str:
        return max(self._rows, default="")

    def jobs(self, query: JobQuery) -> JobPage:
        runs = RunQuery(
            statuses=query.status,
            tenant_id=query.tenant_id,
            labels=query.labels,
            submitted_after=query.submitted_after,
            submitted_before=query.submitted_before,
            id_prefix=query.id_prefix,
        )
        asked = self._matching(runs)
        behind = [run for run in asked if query.before is None or order_of(run.run_id) < order_of(query.before)]
        page = sorted(behind, key=lambda listed: order_of(listed.run_id), reverse=True)[: query.limit]
        return JobPage(runs=page, following=page[-1].run_id if len(behind) > len(page) else None)

    def labels(self, query: LabelQuery) -> Sequence[LabelCount]:
        labels = Counter(label for row in self._of(query.tenant_id) if not row.archived for label in row.labels)
        asked = [LabelCount(label, runs) for label, runs in sorted(labels.items()) if label.startswith(query.prefix)]
        return [found for found in asked if query.after is None or found.label > query.after][: query.limit]

    def known(self, run_ids: Sequence[RunId]) -> Mapping[RunId, KnownRun]:
        rows = [self._rows[run_id] for run_id in run_ids if run_id in self._rows]
        return {row.run_id: KnownRun(row.version, row.status, row.tenant_id) for row in rows}

    def mark(self, name: str) -> int:
        return self._marks.get(name, 0)

    def set_mark(self, name: str, value: int) -> None:
        self._marks[name] = value

    def counts(self, tenant_id: str | None = None) -> Mapping[str, int]:
        return Counter(row.status for row in self._of(tenant_id))

    def waiting(self, tenant_id: str | None = None, *, limit: int) -> Sequence[Waiting]:
        queues: dict[str, list[float]] = {}
        for row in self._of(tenant_id):
            if row.status == "PENDING":
                queues.setdefault(row.tag, []).append(row.updated_at)
        found = [Waiting(tag, len(times), min(times)) for tag, times in queues.items()]
        return sorted(found, key=lambda queue: (-queue.runs, queue.tag))[:limit]

    def tallies(self, tenant_id: str | None = None) -> Tallies:
        return gathered(
            (tally, label, bucket_of(seconds), runs, seconds)
            for theirs, tally, label, runs, seconds in self._counted
            if tenant_id in (None, theirs)
        )

    def stats(self, query: StatsQuery) -> Stats:
        points: dict[int, list[int]] = {}
        total = [0] * COUNTERS
        for row in self._rows.values():
            for minute, counter in counted(row.run_times):
                if query.covers(row.tenant_id, row.flow, row.tag, minute):
                    points.setdefault(query.start_of(minute), [0] * COUNTERS)[counter] += 1
                    total[counter] += 1
        return Stats(points=points, total=total)

    def finished_before(self, ended_at: float, limit: int) -> Sequence[RunId]:
        ended = [(row.ended_at, row.run_id) for row in self._rows.values() if row.ended_at is not None]
        return [run_id for at, run_id in sorted(ended) if at < ended_at][:limit]

    def at_work(self, limit: int) -> Mapping[RunId, int]:
        found = [row for row in self._rows.values() if row.status in AT_WORK]
        return {row.run_id: row.revision for row in found[:limit]}

    def oldest(
        self,
        status: str,
        *,
        tag: str | None = None,
        updated_before: float | None = None,
        after: tuple[float, str] | None = None,
        limit: int,
    ) -> Sequence[Listed]:
        found = [row.listed for row in self._rows.values() if row.status == status and tag in (None, row.tag)]
        following = [
            run
            for run in found
            if (after is None or run.key > after) and (updated_before is None or run.updated_at < updated_before)
        ]
        return sorted(following, key=lambda run: run.key)[:limit]

    def claimable(
        self, graph_ids: Collection[str], *, tenant_id: str | None, now: float, limit: int
    ) -> Sequence[ClaimableNode]:
        found = sorted(
            ((row.run_id, step.place), ClaimableNode(row.run_id, step.node_id, step.attempt, row.flow))
            for row, step in self._claimable(graph_ids, tenant_id)
            if step.lease_until is None or step.lease_until <= now
        )
        return [node for _, node in found[:limit]]

    def next_lease_end(self, graph_ids: Collection[str], *, tenant_id: str | None) -> float | None:
        ends = [step.lease_until for _, step in self._claimable(graph_ids, tenant_id) if step.lease_until is not None]
        return min(ends, default=None)

    def waits(self, query: WaitQuery) -> Sequence[WaitingNode]:
        found = [
            WaitingNode(
                step.since or 0.0,
                row.run_id,
                step.place,
                step.node_id,
                step.attempt,
                step.wait_key,
                step.prompt,
                step.due_at,
                step.worker_id,
                row.flow,
            )
            for row, step in self._steps(query.tenant_id)
            if step.kind is StepKind.WAITING
            and query.graph_id in (None, row.flow)
            and query.run_id in (None, row.run_id)
        ]
        behind = [wait for wait in found if query.after is None or wait.key > query.after]
        return sorted(behind, key=lambda wait: wait.key)[: query.limit]

    def due(self, *, before: float, limit: int) -> Sequence[DueNode]:
        found = [
            ((step.due_at, row.run_id, step.place), DueNode(row.run_id, step.node_id, step.attempt, step.kind))
            for row, step in self._steps()
            if step.due_at is not None and step.due_at <= before
        ]
        return [node for _, node in sorted(found, key=lambda item: item[0])[:limit]]

    def steps_count(self, tenant_id: str | None = None) -> Mapping[StepKind, int]:
        kinds = Counter(step.kind for _, step in self._steps(tenant_id))
        return {kind: kinds[kind] for kind in StepKind}

    def close(self) -> None:
        self.reset()

    def _of(self, tenant_id: str | None) -> list[RunRow]:
        return [row for row in self._rows.values() if tenant_id in (None, row.tenant_id)]

    def _matching(self, query: RunQuery) -> list[Listed]:
        return [row.listed for row in self._rows.values() if matches(row, query)]

    def _steps(self, tenant_id: str | None = None) -> Iterator[tuple[RunRow, Step]]:
        return ((row, step) for row in self._of(tenant_id) for step in row.steps)

    def _claimable(self, graph_ids: Collection[str], tenant_id: str | None) -> Iterator[tuple[RunRow, Step]]:
        return ((row, step) for row, step in self._steps(tenant_id) if step.claimable and row.flow in graph_ids)

    def _count(self, row: RunRow, before: str | None) -> None:
        if row.revision > self._count_after:
            for tally, label, seconds in news(row.status, row.times, before=before):
                self._counted.append((row.tenant_id, tally.value, label, 1, seconds))


def matches(row: RunRow, query: RunQuery) -> bool:
    return (
        row.archived == query.archived
        and query.status in (None, row.status)
        and (not query.statuses or row.status in query.statuses)
        and query.flow in (None, row.flow)
        and query.tag in (None, row.tag)
        and query.tenant_id in (None, row.tenant_id)
        and set(query.terms) <= set(row.terms)
        and (query.updated_after is None or row.updated_at > query.updated_after)
        and (query.error is None or folded(query.error) in (row.error or ""))
        and (query.before is None or row.listed.key < query.before)
        and query.holds(row.submitted_at, row.run_id)
    )


def _listed_by(row: RunRow) -> tuple[object, ...]:
    """What lists go by; a heartbeat changes none of it."""
    partition = (row.status, row.tenant_id, row.archived, row.flow, row.tag, row.terms)
    return (row.version, *partition, row.updated_at, row.ended_at)

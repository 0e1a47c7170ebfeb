"""The flows that active workers announce, each with its versions: the different announcements of one name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyoco_server.domain.fleet.flows import AnnouncedFlow
from pyoco_server.domain.fleet.worker_status import WorkerStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowVersion:
    """One announcement of a flow, the tags under which it is served, and by how many workers."""

    flow: AnnouncedFlow
    tags: tuple[str, ...]
    workers: int


@dataclass(slots=True)
class _Servers:
    tags: set[str]
    workers: int
    started_at: float


def flow_versions(fleet: Iterable[WorkerStatus]) -> Mapping[str, tuple[FlowVersion, ...]]:
    """Every announced flow by name, its versions by the last start of a worker that has it, the newest first."""
    # Workers of a team announce equal flows, which are the same value (`flows_from_plain`).
    by_list: defaultdict[int, list[WorkerStatus]] = defaultdict(list)
    for seen in fleet:
        if seen.is_active and seen.record.flows:
            by_list[id(seen.record.flows)].append(seen)
    found: defaultdict[str, dict[AnnouncedFlow, _Servers]] = defaultdict(dict)
    for workers in by_list.values():
        tags = {tag for seen in workers for tag in seen.record.tags}
        started_at = max(seen.record.started_at or 0.0 for seen in workers)
        for flow in workers[0].record.flows:
            servers = found[flow.name].setdefault(flow, _Servers(set(), 0, 0.0))
            servers.tags |= tags
            servers.workers += len(workers)
            servers.started_at = max(servers.started_at, started_at)
    return {name: _in_order(found[name]) for name in sorted(found)}


def _in_order(versions: Mapping[AnnouncedFlow, _Servers]) -> tuple[FlowVersion, ...]:
    newest_first = sorted(versions.items(), key=lambda one: (-one[1].started_at, sorted(one[1].tags)))
    return tuple(
        FlowVersion(flow=flow, tags=tuple(sorted(servers.tags)), workers=servers.workers)
        for flow, servers in newest_first
    )

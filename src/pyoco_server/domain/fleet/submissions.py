"""Whether the workers can run what is submitted, as far as they announce it: unknown tags, flows and parameters.

A doubt is certain only where every active worker of the tag announces all of its flows. Otherwise a worker may know
what it does not announce; and a queue takes work before its workers are there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple

from pyoco_server.domain.fleet.flows import AnnouncedFlow
from pyoco_server.domain.fleet.worker_status import WorkerStatus

# Of names in one text. A hostile name must not cost much: comparing takes the product of both lengths.
MAX_NAMED = 5
MAX_SHOWN_CHARS = 80
MAX_COMPARED_CHARS = 100
MAX_COMPARED = 500


class Doubt(NamedTuple):
    """What may be wrong; `is_certain` if no active worker can run it as it is."""

    text: str
    is_certain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedTag:
    """The active workers of a tag: how many, their announcements by flow, and whether these are all of their flows."""

    workers: int
    flows: Mapping[str, tuple[AnnouncedFlow, ...]]
    is_complete: bool


def served_tags(fleet: Iterable[WorkerStatus]) -> Mapping[str, ServedTag]:
    """What the active workers serve, by tag. Different announcements of a flow are all kept."""
    by_tag: defaultdict[str, list[WorkerStatus]] = defaultdict(list)
    for seen in fleet:
        if seen.is_active:
            for tag in seen.record.tags:
                by_tag[tag].append(seen)
    return {tag: _served(workers) for tag, workers in sorted(by_tag.items())}


def _served(workers: Sequence[WorkerStatus]) -> ServedTag:
    found: defaultdict[str, dict[AnnouncedFlow, None]] = defaultdict(dict)
    # Workers of a team announce equal flows, which are the same value (`flows_from_plain`).
    for flows in {id(seen.record.flows): seen.record.flows for seen in workers}.values():
        for flow in flows:
            found[flow.name][flow] = None
    return ServedTag(
        workers=len(workers),
        flows={name: tuple(versions) for name, versions in found.items()},
        is_complete=all(seen.record.flows_complete for seen in workers),
    )


def doubts(
    served: Mapping[str, ServedTag], *, tag: str, flow_name: str | None, params: Collection[str] = ()
) -> list[Doubt]:
    """What may be wrong with a submission; without a name the flow is part of it."""
    if not served:
        return [Doubt("no worker is running now, and the run waits for one", False)]
    here = served.get(tag)
    if here is None:
        return [_unserved(tag, served)]
    if flow_name is None:
        return []
    versions = here.flows.get(flow_name)
    if versions is None:
        return [_unknown_flow(flow_name, tag, served, here)]
    return [*_unknown_params(flow_name, versions, here, params), *_missing_params(flow_name, versions, here, params)]


def unknown_graph(served: Mapping[str, ServedTag], graph_id: str, graphs: Collection[str] | None) -> list[Doubt]:
    """About a name that is neither a graph nor an announced flow: certain only where all flows are announced.

    Without the stored graphs only a similar name is a reason to doubt: any name is one of an open graph.
    """
    flows = {name for here in served.values() for name in here.flows}
    is_certain = bool(served) and all(here.is_complete for here in served.values())
    near = nearest(graph_id, sorted(flows.union(graphs or ())))
    if near is not None:
        return [Doubt(f"there is no graph or flow {_shown(graph_id)}, did you mean {near!r}?", is_certain)]
    is_asked = is_certain and graphs is not None
    return [Doubt(f"there is no graph or flow {_shown(graph_id)}", True)] if is_asked else []


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is spelled most alike, if one is."""
    if len(name) > MAX_COMPARED_CHARS:
        return None
    some = [one for _, one in zip(range(MAX_COMPARED), known, strict=False) if len(one) <= MAX_COMPARED_CHARS]
    by_lower = {one.lower(): one for one in some}
    found = get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[found[0]] if found else None


def _unserved(tag: str, served: Mapping[str, ServedTag]) -> Doubt:
    near = nearest(tag, served)
    if near is not None:
        return Doubt(f"no running worker serves the tag {tag!r}, did you mean {near!r}?", True)
    return Doubt(f"no running worker serves the tag {tag!r}, but others serve {_listed(served)}", True)


def _unknown_flow(name: str, tag: str, served: Mapping[str, ServedTag], here: ServedTag) -> Doubt:
    elsewhere = [other for other, there in served.items() if name in there.flows]
    if elsewhere:
        text = f"no worker of the tag {tag!r} announces the flow {_shown(name)}, but those of {_listed(elsewhere)} do"
        return Doubt(text, here.is_complete)
    near = nearest(name, here.flows)
    if near is not None:
        text = f"no worker of the tag {tag!r} announces the flow {_shown(name)}, did you mean {near!r}?"
        return Doubt(text, here.is_complete)
    if here.flows:
        text = (
            f"no worker of the tag {tag!r} announces the flow {_shown(name)}, but they announce {_listed(here.flows)}"
        )
        return Doubt(text, here.is_complete)
    return Doubt(f"the workers of the tag {tag!r} do not announce their flows", False)


def _unknown_params(
    flow: str, versions: Sequence[AnnouncedFlow], here: ServedTag, params: Collection[str]
) -> Iterator[Doubt]:
    known = {name for version in versions for name, _ in version.params or ()}
    # The result of a task can be replaced by a parameter of its name.
    taken = known.union(*(version.nodes for version in versions))
    is_certain = here.is_complete and not any(version.params is None or version.takes_others for version in versions)
    for name in [name for name in params if name not in taken][:MAX_NAMED]:
        # Of a rerun or with defaults, the name that is meant may be given, too.
        near = nearest(name, sorted(known - set(params))) or nearest(name, sorted(known))
        if near is not None:
            text = f"the flow {_shown(flow)} has no parameter {_shown(name)}, did you mean {near!r}?"
            yield Doubt(text, is_certain)
        elif is_certain and known:
            yield Doubt(f"the flow {_shown(flow)} has no parameter {_shown(name)}, but {_listed(known)}", True)
        elif is_certain:
            yield Doubt(f"the flow {_shown(flow)} has no parameters, and {_shown(name)} is given", True)


def _missing_params(
    flow: str, versions: Sequence[AnnouncedFlow], here: ServedTag, params: Collection[str]
) -> Iterator[Doubt]:
    required = [{name for name, is_required in version.params or () if is_required} for version in versions]
    missing = set.intersection(*required) - set(params)
    if missing:
        yield Doubt(f"the flow {_shown(flow)} requires the parameter {_listed(missing)}", here.is_complete)


def _listed(names: Collection[str]) -> str:
    shown = ", ".join(_shown(name) for name in sorted(names)[:MAX_NAMED])
    return shown if len(names) <= MAX_NAMED else f"{shown}, …"


def _shown(name: str) -> str:
    return repr(name if len(name) <= MAX_SHOWN_CHARS else f"{name[:MAX_SHOWN_CHARS]}…")

"""The flows that workers announce: names and, where known, graphs; bounded. No stranger's word breaks it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeGuard

import orjson

MAX_FLOWS = 500
MAX_NODES = 2_000  # as many as an execution may have
MAX_NAME_CHARS = 256
# A record has it, and is written with every heartbeat; a broker takes messages of four times that.
MAX_BYTES = 256 * 1024
# The shortest edge in a record, ["a","b"] and a comma, has ten bytes: more cannot fit.
MAX_EDGES = MAX_BYTES // 10
MAX_REASONS, MAX_REASON_CHARS = 20, 300


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncedFlow:
    """A flow under the name by which it is asked for; no nodes: nobody has said what it looks like.

    `tags` are those under which it is served. A worker's own word has none: they are the worker's.
    """

    name: str
    nodes: tuple[str, ...] = ()
    edges: tuple[tuple[str, str], ...] = ()
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowAnnouncement:
    """What a worker has to announce, and in words what it would have had to and could not."""

    flows: tuple[AnnouncedFlow, ...] = ()
    left_out: tuple[str, ...] = ()


def bounded(flows: Sequence[AnnouncedFlow], left_out: Iterable[str] = ()) -> FlowAnnouncement:
    """As much of it as a record may have: graphs are left out first, the largest before the others, then flows."""
    reasons = [reason[:MAX_REASON_CHARS] for reason in left_out]
    named = {flow.name: flow for flow in flows if _is_name(flow.name)}
    sound = [_with_sound_graph(flow) for flow in named.values()][:MAX_FLOWS]
    kept = _as_many_as_fit(_with_graphs_that_fit(sound))
    if len(kept) < len(flows):
        reasons.append(
            f"flows: {MAX_FLOWS} with names of 1 to {MAX_NAME_CHARS} characters, once each, in {MAX_BYTES} bytes"
        )
    if any(named[flow.name].nodes and not flow.nodes for flow in kept):
        reasons.append(f"graphs of flows: {MAX_NODES} nodes each, {MAX_BYTES} bytes in all")
    return FlowAnnouncement(flows=tuple(kept), left_out=tuple(reasons[:MAX_REASONS]))


def flows_to_plain(flows: Iterable[AnnouncedFlow]) -> list[dict[str, Any]]:
    """The stored form."""
    return [_plain(flow) for flow in flows]


def flows_from_plain(plain: object) -> tuple[AnnouncedFlow, ...]:
    """The flows in a stored form; of what is not one, as much as makes sense, and never an error.

    Workers say the same with every heartbeat, and those of one team what the others say: it is the same value then, and
    costs almost nothing to read and to compare.
    """
    try:
        return _read(orjson.dumps(plain))
    except TypeError:  # not JSON
        return ()


@lru_cache(maxsize=64)
def _read(stored: bytes) -> tuple[AnnouncedFlow, ...]:
    plain = orjson.loads(stored)
    found: dict[str, AnnouncedFlow] = {}
    for one in plain if isinstance(plain, list) else ():
        if len(found) == MAX_FLOWS:
            break
        if isinstance(one, Mapping) and _is_name(name := one.get("name")) and name not in found:
            nodes, edges = one.get("nodes"), one.get("edges")
            found[name] = _with_sound_graph(AnnouncedFlow(name=name, nodes=_texts(nodes), edges=_pairs(edges)))
    return tuple(found.values())


def _is_name(name: object) -> TypeGuard[str]:
    return isinstance(name, str) and 1 <= len(name) <= MAX_NAME_CHARS and _is_encodable(name)


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate: no JSON has it
        return False
    return True


def _with_sound_graph(flow: AnnouncedFlow) -> AnnouncedFlow:
    """The flow; without its graph, if that is none: half a graph would be a wrong one."""
    nodes = set(flow.nodes)
    is_sound = (
        len(nodes) == len(flow.nodes) <= MAX_NODES
        and len(flow.edges) <= MAX_EDGES
        and all(_is_name(node) for node in nodes)
        and all(begin in nodes and end in nodes for begin, end in flow.edges)
    )
    return flow if is_sound else AnnouncedFlow(name=flow.name)


def _with_graphs_that_fit(flows: Sequence[AnnouncedFlow]) -> list[AnnouncedFlow]:
    kept, sizes = list(flows), [_bytes(flow) for flow in flows]
    total = sum(sizes)
    for place in sorted(range(len(flows)), key=sizes.__getitem__, reverse=True):
        if total <= MAX_BYTES:
            break
        kept[place] = AnnouncedFlow(name=flows[place].name)
        total -= sizes[place] - _bytes(kept[place])
    return kept


def _as_many_as_fit(flows: Sequence[AnnouncedFlow]) -> list[AnnouncedFlow]:
    kept: list[AnnouncedFlow] = []
    total = 0
    for flow in flows:
        total += _bytes(flow)
        if total > MAX_BYTES:
            break
        kept.append(flow)
    return kept


def _bytes(flow: AnnouncedFlow) -> int:
    return len(orjson.dumps(_plain(flow))) + 1


def _plain(flow: AnnouncedFlow) -> dict[str, Any]:
    return {"name": flow.name, "nodes": flow.nodes, "edges": flow.edges}


def _texts(plain: object) -> tuple[str, ...]:
    if not isinstance(plain, list) or not all(isinstance(one, str) for one in plain):
        return ()
    return tuple(plain)


def _pairs(plain: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(plain, list):
        return ()
    pairs = [_texts(one) for one in plain]
    # An edge to nowhere: what it belongs to is then no graph, and known as such.
    return tuple((pair[0], pair[1]) if len(pair) == 2 else ("", "") for pair in pairs)

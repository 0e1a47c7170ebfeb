"""The flows that workers announce: names and, where known, graphs. Bounded, and tolerant of foreign records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import Any, TypeGuard

import orjson

MAX_FLOWS = 500
MAX_NODES = 2_000  # the limit of an execution
MAX_NAME_CHARS = 256
# The flows are part of a record that is written with every heartbeat; brokers accept messages of four times this size.
MAX_BYTES = 256 * 1024
# The shortest edge in a record, ["a","b"] and a comma, has ten bytes: more cannot fit.
MAX_EDGES = MAX_BYTES // 10
MAX_PARAMS = 500
MAX_REASONS, MAX_REASON_CHARS = 20, 300


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncedFlow:
    """A flow under the name by which it is submitted; without nodes its graph is unknown.

    `params` are its parameters, and whether each is required; None: not known. `takes_others`: it may read further
    ones. `tags` are those under which it is served. They are empty in a worker's record: there the worker's tags apply.
    """

    name: str
    nodes: tuple[str, ...] = ()
    edges: tuple[tuple[str, str], ...] = ()
    params: tuple[tuple[str, bool], ...] | None = None
    takes_others: bool = True
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowAnnouncement:
    """The flows a worker announces, and the reasons why others are left out.

    `is_complete`: they are all that were declared, and something was.
    """

    flows: tuple[AnnouncedFlow, ...] = ()
    left_out: tuple[str, ...] = ()
    is_complete: bool = False


def bounded(
    flows: Sequence[AnnouncedFlow], left_out: Iterable[str] = (), *, is_complete: bool = False
) -> FlowAnnouncement:
    """As much as a record may hold: first all graphs are dropped, then the last flows."""
    reasons = [reason[:MAX_REASON_CHARS] for reason in left_out]
    named = {flow.name: flow for flow in flows if _is_name(flow.name)}
    kept = [_with_valid_graph(flow) for flow in named.values()][:MAX_FLOWS]
    if _total_bytes(kept)[-1:] > [MAX_BYTES]:
        kept = [replace(flow, nodes=(), edges=()) for flow in kept]
        kept = [flow for flow, total in zip(kept, _total_bytes(kept), strict=True) if total <= MAX_BYTES]
    if len(kept) < len(flows):
        reasons.append(
            f"flows: {MAX_FLOWS} with names of 1 to {MAX_NAME_CHARS} characters, once each, in {MAX_BYTES} bytes"
        )
    if any(named[flow.name].nodes and not flow.nodes for flow in kept):
        reasons.append(f"graphs of flows: {MAX_NODES} nodes each, {MAX_BYTES} bytes in all")
    is_whole = is_complete and len(kept) == len(flows) > 0
    return FlowAnnouncement(flows=tuple(kept), left_out=tuple(reasons[:MAX_REASONS]), is_complete=is_whole)


def flows_to_plain(flows: Iterable[AnnouncedFlow]) -> list[dict[str, Any]]:
    """The stored form; a flow whose parameters are not known has none, as with workers of earlier versions."""
    return [
        {"name": flow.name, "nodes": flow.nodes, "edges": flow.edges}
        | ({} if flow.params is None else {"params": dict(flow.params), "takes_others": flow.takes_others})
        for flow in flows
    ]


def flows_from_plain(plain: object) -> tuple[AnnouncedFlow, ...]:
    """The flows in a stored form; skips what is not valid and never raises.

    Workers repeat their flows with every heartbeat, and workers of a team announce the same ones. Equal forms are read
    once and give the same value, so that comparing them is cheap too.
    """
    try:
        return _read(orjson.dumps(plain))
    except TypeError:  # not JSON
        return ()


@lru_cache(maxsize=64)
def _read(stored: bytes) -> tuple[AnnouncedFlow, ...]:
    plain = orjson.loads(stored)
    found: dict[str, AnnouncedFlow] = {}
    for one in _list(plain):
        name = one.get("name") if isinstance(one, dict) else None
        if len(found) < MAX_FLOWS and _is_name(name) and name not in found:
            nodes, edges = _texts(one.get("nodes")), [_texts(edge) for edge in _list(one.get("edges"))]
            # A malformed edge becomes an edge to an unknown node, which makes the graph invalid.
            pairs = tuple((edge[0], edge[1]) if len(edge) == 2 else ("", "") for edge in edges)
            params = _params(one.get("params"))
            takes_others = params is None or one.get("takes_others") is not False
            flow = AnnouncedFlow(name=name, nodes=nodes, edges=pairs, params=params, takes_others=takes_others)
            found[name] = _with_valid_graph(flow)
    return tuple(found.values())


def _list(plain: object) -> list[Any]:
    return plain if isinstance(plain, list) else []


def _texts(plain: object) -> tuple[str, ...]:
    texts = _list(plain)
    return tuple(texts) if all(isinstance(text, str) for text in texts) else ()


def _params(plain: object) -> tuple[tuple[str, bool], ...] | None:
    if not isinstance(plain, dict) or len(plain) > MAX_PARAMS:
        return None
    valid = all(_is_name(name) and isinstance(required, bool) for name, required in plain.items())
    return tuple(plain.items()) if valid else None


def _is_name(name: object) -> TypeGuard[str]:
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME_CHARS:
        return False
    try:
        return bool(name.encode())
    except UnicodeEncodeError:  # a lone surrogate, which JSON cannot hold
        return False


def _with_valid_graph(flow: AnnouncedFlow) -> AnnouncedFlow:
    """The flow, without its graph or parameters if they are invalid: half of them would be misleading."""
    nodes = set(flow.nodes)
    is_valid = (
        len(nodes) == len(flow.nodes) <= MAX_NODES
        and len(flow.edges) <= MAX_EDGES
        and all(_is_name(node) for node in nodes)
        and all(begin in nodes and end in nodes for begin, end in flow.edges)
    )
    flow = flow if is_valid else replace(flow, nodes=(), edges=())
    known = flow.params is None or _params(dict(flow.params)) == flow.params
    return flow if known else replace(flow, params=None, takes_others=True)


def _total_bytes(flows: Sequence[AnnouncedFlow]) -> list[int]:
    """The size of the stored form up to and including each flow."""
    return list(accumulate(len(orjson.dumps(flow)) + 1 for flow in flows_to_plain(flows)))

"""Graphs as text and as Mermaid. Names come from workers and users: they may be anything. Prints nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyoco_server.cli.tables import Json, duration, text
from pyoco_server.cli.terminal_escape import escape_line

# Every character that Mermaid could take for syntax; `#` begins an entity.
_PLAIN = frozenset("-_ .,:/()[]{}+=@!?~")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Nodes in order, and edges with the choices on which they are followed."""

    nodes: Sequence[str]
    edges: Sequence[tuple[str, str, tuple[str, ...]]]


def drawing_of(graph: Json) -> Drawing:
    """The graph of a flow's version or of a stored graph."""
    nodes = [node["id"] if isinstance(node, Mapping) else node for node in graph.get("nodes") or ()]
    return Drawing(nodes=nodes, edges=[_edge(edge) for edge in graph.get("edges") or ()])


def _edge(edge: Any) -> tuple[str, str, tuple[str, ...]]:
    if isinstance(edge, Mapping):
        return edge["from"], edge["to"], tuple(edge.get("when") or ())
    return edge[0], edge[1], ()


def as_text(drawing: Drawing) -> Iterator[str]:
    """One line per node, behind its predecessors."""
    before: dict[str, list[str]] = {}
    for source, target, when in drawing.edges:
        chosen = f" if {' or '.join(escape_line(choice) for choice in when)}" if when else ""
        before.setdefault(target, []).append(f"{escape_line(source)}{chosen}")
    width = max((len(escape_line(node)) for node in drawing.nodes if node in before), default=0)
    for node in drawing.nodes:
        shown = escape_line(node)
        yield f"  {shown:<{width}}  <- {', '.join(before[node])}" if node in before else f"  {shown}"


def as_mermaid(drawing: Drawing) -> Iterator[str]:
    """A Mermaid flowchart, for Markdown: GitHub, GitLab and many editors draw it."""
    places = {node: f"n{place}" for place, node in enumerate(drawing.nodes)}
    yield "flowchart TD"
    for node, place in places.items():
        yield f'    {place}["{_label(node)}"]'
    for source, target, when in drawing.edges:
        if source in places and target in places:
            chosen = f'|"{_label(" / ".join(when))}"|' if when else ""
            yield f"    {places[source]} -->{chosen} {places[target]}"


def _label(name: str) -> str:
    """The name in quotes of Mermaid, where only entities are safe."""
    return "".join(one if one.isalnum() or one in _PLAIN else f"#{ord(one)};" for one in name) or "#32;"


def about_flow(flow: Json, version: Json) -> Iterator[str]:
    """Tags, workers, parameters and figures of a flow."""
    yield f"{text(flow.get('name'))}  tags: {text(version.get('tags'))}  workers: {text(version.get('workers'))}"
    yield f"parameters: {params_line(version)}"
    if line := recent_line(flow):
        yield f"last runs: {line}"


def params_line(version: Json) -> str:
    """The parameters; required ones are marked by a star."""
    params = version.get("params")
    if params is None:
        return "unknown"
    names = [f"{escape_line(one['name'])}{'*' if one.get('required') else ''}" for one in params]
    more = ["…"] if version.get("takes_others") else []
    return ", ".join([*names, *more]) or "none"


def recent_line(flow: Json) -> str:
    """Counts by status, and the times of completed runs; empty without runs."""
    recent = flow.get("recent") or {}
    statuses = recent.get("statuses") or {}
    line = ", ".join(f"{count} {text(status)}" for status, count in statuses.items())
    if recent.get("median_sec") is not None:
        line += f"; median {duration(recent['median_sec'])}, p95 {duration(recent.get('p95_sec'))}"
    return line


def version_on(versions: Iterable[Json], tag: str | None) -> Json | None:
    """The newest version, or the newest one of a tag."""
    return next((one for one in versions if tag is None or tag in (one.get("tags") or ())), None)

"""A parsed graph → the nodes and edges that pyoco builds from it, or the reason why it cannot run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from pyoco_server.domain.flow_yaml.graph_parser import (
    MAX_NESTING,
    MAX_TERMS,
    Block,
    Pipeline,
    PipeTerm,
    TaskTerm,
    Term,
    parse,
)
from pyoco_server.domain.flow_yaml.graph_tokens import GraphFault
from pyoco_server.domain.strict_yaml import shown

MAX_NODES = 2_000  # the limit of an execution
MAX_NODE_CHARS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowGraph:
    """The nodes in order, the edges between neighbours, and whether there are blocks."""

    nodes: tuple[str, ...]
    edges: frozenset[tuple[str, str]]
    tasks: frozenset[str]
    has_control_flow: bool


def read_graph(text: str, pipes: Mapping[str, str], tasks: Collection[str]) -> FlowGraph:
    """The graph in `text` with its pipes expanded; `GraphFault` names what is wrong."""
    expanded = _Pipes(pipes).expand(parse(text), ())
    linear = all(isinstance(term, TaskTerm) for term in expanded.terms)
    survey = _Survey(tasks, linear=linear)
    survey.walk(expanded.terms)
    return FlowGraph(
        nodes=tuple(survey.named),
        edges=frozenset(survey.edges),
        tasks=frozenset(survey.used),
        has_control_flow=not linear,
    )


@dataclass(frozen=True, slots=True)
class _Expanded:
    """A pipeline without pipes; `cost` is what pyoco counts against its limit (bodies count at each level)."""

    terms: Pipeline
    terms_in_all: int
    cost: int
    height: int


class _Pipes:
    """Expands pipes. Each is parsed and expanded once, so that doubling pipes cannot blow up the work."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._known: dict[str, _Expanded] = {}

    def expand(self, pipeline: Pipeline, within: tuple[str, ...]) -> _Expanded:
        terms: list[Term] = []
        in_all = cost = height = 0
        for term in pipeline:
            part = self._expand_term(term, within)
            in_all, cost, height = in_all + part.terms_in_all, cost + part.cost, max(height, part.height)
            if cost > MAX_TERMS:
                raise GraphFault(f"with its pipes expanded, the graph has more than {MAX_TERMS} terms", term.line)
            if height > MAX_NESTING:
                raise GraphFault(f"with its pipes expanded, the graph is nested deeper than {MAX_NESTING}", term.line)
            terms += part.terms
        return _Expanded(tuple(terms), in_all, cost, height)

    def _expand_term(self, term: Term, within: tuple[str, ...]) -> _Expanded:
        if isinstance(term, TaskTerm):
            return _Expanded((term,), 1, 1, 0)
        if isinstance(term, PipeTerm):
            return self._expand_pipe(term, within)
        bodies = [self.expand(body, within) for body in term.bodies]
        in_all = 1 + sum(body.terms_in_all for body in bodies)
        cost = in_all + sum(body.cost for body in bodies)
        block = Block(tuple(body.terms for body in bodies), term.line)
        return _Expanded((block,), in_all, cost, 1 + max(body.height for body in bodies))

    def _expand_pipe(self, term: PipeTerm, within: tuple[str, ...]) -> _Expanded:
        name = term.pipe
        if name not in self._texts:
            raise GraphFault(f"there is no pipe {shown(name)}", term.line)
        if name in within:
            cycle = " -> ".join([*within, name])
            raise GraphFault(f"pipes refer to each other in a cycle: {cycle[:200]}", term.line)
        if name not in self._known:
            if len(within) == MAX_NESTING:
                raise GraphFault(f"pipes refer to pipes more than {MAX_NESTING} levels deep", term.line)
            try:
                self._known[name] = self.expand(parse(self._texts[name]), (*within, name))
            except GraphFault as fault:
                raise GraphFault(f"in pipe {shown(name)}: {fault.what}", term.line) from fault
        known = self._known[name]
        return _Expanded(known.terms, known.terms_in_all, known.cost, known.height + 1)


@dataclass(slots=True)
class _Survey:
    """Walks the terms as pyoco compiles them: nodes by name, edges between neighbours."""

    tasks: Collection[str]
    linear: bool
    named: dict[str, bool] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    edges: set[tuple[str, str]] = field(default_factory=set)

    def walk(self, pipeline: Pipeline) -> tuple[str, str]:
        """The first and the last node of the pipeline."""
        ends = [self._node(term) if isinstance(term, TaskTerm) else self._bodies(term) for term in pipeline]
        for (_, before), (after, _) in pairwise(ends):
            if before != after:
                self.edges.add((before, after))
        return ends[0][0], ends[-1][1]

    def _bodies(self, term: Term) -> tuple[str, str]:
        assert isinstance(term, Block)  # noqa: S101 - pipes are expanded
        ends = [self.walk(body) for body in term.bodies]
        return ends[0][0], ends[-1][1]

    def _node(self, term: TaskTerm) -> tuple[str, str]:
        if term.task not in self.tasks:
            raise GraphFault(f"there is no task {shown(term.task)} under tasks", term.line)
        name, has_own_name = term.node or term.task, term.node is not None
        if name in self.named and (has_own_name or self.named[name]):
            raise GraphFault(f"two nodes are named {shown(name)}", term.line)
        if name in self.named and self.linear:
            raise GraphFault(
                f"task {shown(name)} is used twice and would wait for itself; rename one, as in again: {name[:40]}",
                term.line,
            )
        if len(name) > MAX_NODE_CHARS:
            raise GraphFault(f"the name {shown(name)} has more than {MAX_NODE_CHARS} characters", term.line)
        self.named[name] = has_own_name
        self.used.add(term.task)
        if len(self.named) > MAX_NODES:
            raise GraphFault(f"more than {MAX_NODES} tasks", term.line)
        return name, name

"""The invariants of a log by itself: cancel wins, the order of the graph, the fence. Pure; chaos uses them too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pyoco_server.domain.execution.choices import choices_of
from pyoco_server.domain.execution.events import (
    Event,
    ExecutionArchived,
    ExecutionCanceled,
    ExecutionCancelRequested,
    ExecutionCompleted,
    ExecutionCreated,
    ExecutionFailed,
    NodeCanceled,
    NodeFailed,
    NodeProgressReported,
    NodeReady,
    NodeResumed,
    NodeStarted,
    NodeSucceeded,
    NodeWaiting,
)
from pyoco_server.domain.execution.graph import Graph
from pyoco_server.domain.ids import NodeId, RunId
from simulation.evidence import Finding, Log

Logs = Mapping[RunId, Log] | Mapping[str, Log]

_ENDS = (ExecutionCompleted, ExecutionFailed, ExecutionCanceled)
_OF_AN_ATTEMPT = (NodeProgressReported, NodeWaiting, NodeResumed, NodeSucceeded, NodeFailed)
_AFTER_A_CANCEL = (NodeCanceled, ExecutionCanceled)


def after_the_end(logs: Logs) -> Iterator[Finding]:
    """A finished execution does not change."""
    for run_id, log in logs.items():
        end: str | None = None
        for event in _events(log):
            name = type(event).__name__
            if end is not None and not isinstance(event, ExecutionArchived):
                yield run_id, f"{name} follows {end}"
            if isinstance(event, _ENDS):
                end = name


def cancel_lost(logs: Logs) -> Iterator[Finding]:
    """After a cancel request only the cancel continues."""
    for run_id, log in logs.items():
        requested = False
        for event in _events(log):
            if requested and not isinstance(event, (*_AFTER_A_CANCEL, ExecutionArchived)):
                yield run_id, f"{type(event).__name__} follows EXECUTION_CANCEL_REQUESTED"
            requested = requested or isinstance(event, ExecutionCancelRequested)


def out_of_order(logs: Logs) -> Iterator[Finding]:
    """A node gets READY once, after its predecessors and along a followed edge, or it is skipped and never runs.

    A graph is complete when every node has succeeded once or was skipped.
    """
    for run_id, log in logs.items():
        walk = _Walk()
        for event in _events(log):
            yield from ((run_id, violation) for violation in walk.step(event))


def superseded_reports(logs: Logs) -> Iterator[Finding]:
    """The attempts of a node increase, and a report of another attempt than the current one changes nothing."""
    for run_id, log in logs.items():
        attempts: dict[NodeId, int] = {}
        for event in _events(log):
            if isinstance(event, NodeStarted):
                if event.attempt <= attempts.get(event.node_id, 0):
                    yield run_id, f"attempt {event.attempt} of {event.node_id} started after {attempts[event.node_id]}"
                attempts[event.node_id] = event.attempt
            elif isinstance(event, _OF_AN_ATTEMPT):
                # A wait node starts to wait by itself, with the first attempt.
                present = attempts.setdefault(event.node_id, event.attempt)
                if event.attempt != present:
                    name = type(event).__name__
                    yield run_id, f"{name} of attempt {event.attempt} of {event.node_id}, the current one is {present}"


@dataclass(slots=True)
class _Walk:
    """The state of a graph, from the events only: `decide` has no part in it."""

    graph: Graph | None = None
    ready: set[NodeId] = field(default_factory=set)
    succeeded: set[NodeId] = field(default_factory=set)
    skipped: set[NodeId] = field(default_factory=set)
    offered: dict[NodeId, tuple[str, ...]] = field(default_factory=dict)
    chosen: dict[NodeId, str] = field(default_factory=dict)

    def step(self, event: Event) -> Iterator[str]:
        if getattr(event, "node_id", None) in self.skipped:
            yield f"{type(event).__name__} of a skipped node"
        yield from self._step(event)

    def _step(self, event: Event) -> Iterator[str]:
        match event:
            case ExecutionCreated(graph=graph):
                self.graph = graph
            case NodeReady(node_id=node_id):
                if node_id in self.ready:
                    yield f"{node_id} became ready twice"
                self.ready.add(node_id)
                yield from self._too_early(node_id, "ready")
            case NodeStarted(node_id=node_id):
                self.chosen.pop(node_id, None)
                if self.graph is not None and node_id not in self.ready:
                    yield f"{node_id} started before it was ready"
                yield from self._too_early(node_id, "started")
            case NodeWaiting(node_id=node_id, prompt=prompt):
                self.offered[node_id] = choices_of(prompt)
                yield from self._too_early(node_id, "waiting")
            case NodeResumed():
                yield from self._resumed(event)
            case NodeSucceeded(node_id=node_id):
                if self.graph is not None and node_id in self.succeeded:
                    yield f"{node_id} succeeded twice"
                self.succeeded.add(node_id)
            case NodeCanceled(node_id=node_id, reason="skipped"):
                self.skipped.add(node_id)
                yield from self._skipped_too_early(node_id)
            case ExecutionCompleted():
                yield from self._incomplete()
            case _:
                return

    def _resumed(self, event: NodeResumed) -> Iterator[str]:
        offered = self.offered.get(event.node_id, ())
        if offered and event.choice not in offered:
            yield f"{event.node_id} was resumed with {event.choice!r}, which is none of {offered}"
        if event.choice is not None:
            self.chosen[event.node_id] = event.choice

    def _too_early(self, node_id: NodeId, what: str) -> Iterator[str]:
        before = self._before(node_id)
        missing = sorted(source for source in before if source not in self.succeeded | self.skipped)
        if missing:
            yield f"{node_id} was {what} before {', '.join(missing)} had ended"
        if before and not any(self._is_followed(source, node_id) for source in before):
            yield f"{node_id} was {what}, but no edge to it was followed"

    def _skipped_too_early(self, node_id: NodeId) -> Iterator[str]:
        for source in self._before(node_id):
            if source not in self.succeeded | self.skipped:
                yield f"{node_id} was skipped before {source} had ended"
            elif self._is_followed(source, node_id):
                yield f"{node_id} was skipped, but {source} leads to it"

    def _before(self, node_id: NodeId) -> list[NodeId]:
        edges = self.graph.edges if self.graph else ()
        return [source for source, target in edges if target == node_id]

    def _is_followed(self, source: NodeId, target: NodeId) -> bool:
        when = self.graph.when.get((source, target)) if self.graph else None
        return source in self.succeeded and (when is None or self.chosen.get(source) in when)

    def _incomplete(self) -> Iterator[str]:
        nodes = self.graph.nodes if self.graph else ()
        missing = [node.node_id for node in nodes if node.node_id not in self.succeeded | self.skipped]
        if missing:
            yield f"COMPLETED, but {', '.join(missing)} had not ended"


def _events(log: Log) -> Iterator[Event]:
    return (event for stored in log for event in stored.commit.events)

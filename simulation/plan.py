"""The plan of one seed: gateways, workers, fault rates and graphs."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from pyoco_server.domain.graphs import TASK, WAIT, ConditionalEdge, DocumentNode, GraphDocument
from pyoco_server.domain.ids import NodeId

WAIT_KEY = "key"
CHOICES = ("yes", "no")
ASK = {"question": "go on?", "choices": list(CHOICES)}
_NAMES = "abcde"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The parameters of one interleaving; the seed also chooses the order of calls."""

    gateways: int
    workers: int
    graphs: tuple[GraphDocument, ...]
    are_begun: bool
    """Whether the executions of the graphs exist and are started at the beginning."""
    nodes_done: int
    """How many roots of each of those are done at the beginning, at most."""
    open_executions: int
    unsteady_sec: float
    fault_rate: float
    slowness: float
    crash_at: tuple[int, ...]
    ahead_sec: float
    cancels: int
    people: bool
    answers_come: bool
    """Whether people answer every wait in the end; otherwise some executions stay waiting."""
    requests: int = 0
    """Requests of the PDCA API, of three batches each, which all gateways drive at once."""


def drawn(random: Random) -> Plan:
    """The plan of a seed."""
    graphs = random.choices((1, 2, 3), (30, 3, 1))[0]
    crashes = random.choices((0, 1, 2), (5, 5, 1))[0]
    return Plan(
        gateways=random.choices((2, 3), (15, 1))[0],
        workers=random.choices((1, 2, 3), (6, 4, 1))[0],
        graphs=tuple(_graph(random) for _ in range(graphs)),
        are_begun=random.random() < 0.85,
        nodes_done=random.choices((0, 1), (4, 6))[0],
        open_executions=random.choices((0, 1), (15, 1))[0],
        unsteady_sec=random.uniform(0.5, 2.0),
        fault_rate=random.choice((0.0, 0.0, 0.005, 0.015, 0.04)),
        slowness=random.choice((0.0, 0.01, 0.05)),
        crash_at=tuple(random.randrange(5, 150) for _ in range(crashes)),
        ahead_sec=random.choice((0.0, 0.0, 0.3, 3.0)),
        cancels=random.choices((0, 1, 2), (6, 4, 1))[0],
        people=random.random() < 0.5,
        answers_come=random.random() < 0.7,
    )


def _graph(random: Random) -> GraphDocument:
    size = random.choices((2, 3, 4, 5), (24, 5, 2, 1))[0]
    names = [NodeId(name) for name in _NAMES[:size]]
    nodes = tuple(_node(random, name) for name in names)
    edges = tuple(
        _edge(random, source, target.id)
        for place, target in enumerate(nodes)
        for source in nodes[:place]
        if random.random() < 0.5
    )
    return GraphDocument(nodes=nodes, edges=edges)


def _edge(random: Random, source: DocumentNode, target: NodeId) -> tuple[NodeId, NodeId] | ConditionalEdge:
    """Mostly with `when` if its source asks; a task may ask, too."""
    if random.random() < (0.1 if source.type == TASK else 0.7) and (source.type == TASK or source.prompt is not None):
        return ConditionalEdge(source=source.id, target=target, when=random.choice((("yes",), ("no",), CHOICES)))
    return source.id, target


def _node(random: Random, name: NodeId) -> DocumentNode:
    if random.random() < 0.2:
        timeout_sec, prompt = random.choice((None, 1.0)), random.choice((None, ASK, ASK))
        return DocumentNode(id=name, type=WAIT, wait_key=WAIT_KEY, timeout_sec=timeout_sec, prompt=prompt)
    return DocumentNode(id=name, type=TASK, max_attempts=random.choice((None, None, None, 1, 2)))

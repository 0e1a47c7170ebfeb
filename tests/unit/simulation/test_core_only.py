"""The core, broken on purpose, is found out by its seeds; one that is not has nothing to hide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from simulation import core_only
from simulation.core_only import NOT_ONCE, OVERTAKEN, play_bare

from pyoco_server.domain.execution import decide, decide_nodes
from pyoco_server.domain.execution.graph import Graph
from pyoco_server.domain.execution.rejection import Rejection, finished
from pyoco_server.domain.execution.state import Execution
from pyoco_server.services.context import CommandContext
from pyoco_server.services.executions.command_handler import commit

MOST_SEEDS = 1_000

Sabotage = Callable[[pytest.MonkeyPatch], None]


def nothing_carried_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def anew(stores: Any, known: Execution, command: Any, origin: CommandContext) -> Any:
        return await commit(stores, known, command, replace(origin, resumed=False, hold=None))

    monkeypatch.setattr(core_only, "commit", anew)


def without_the_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    running = decide_nodes._running
    monkeypatch.setattr(decide_nodes, "_running", lambda execution, node_id, attempt: running(execution, node_id, None))


def joins_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    def ready_after(graph: Graph, done: str, succeeded: object) -> Any:
        followers = {target for source, target in graph.edges if source == done}
        return (node for node in graph.nodes if node.node_id in followers)

    monkeypatch.setattr(Graph, "ready_after", ready_after)


def cancel_without_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_the_end_counts(execution: Execution, command: object) -> Rejection | None:
        return finished(execution) if execution.status.is_terminal else None

    monkeypatch.setattr(decide, "no_progress", only_the_end_counts)


@pytest.mark.parametrize(
    ("sabotage", "wanted"),
    [
        (nothing_carried_on, NOT_ONCE),
        (without_the_fence, OVERTAKEN),
        (joins_forgotten, "nodes out of the graph's order"),
        (cancel_without_effect, "logs in which a cancel lost"),
    ],
)
def test_what_is_broken_is_found(sabotage: Sabotage, wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sabotage(monkeypatch)

    found = {violation.broken for seed in range(MOST_SEEDS) for violation in play_bare(seed)[0]}

    assert wanted in found


def test_what_is_not_broken_has_nothing_to_hide() -> None:
    assert [seed for seed in range(300) if play_bare(seed)[0]] == []

"""A program that is broken on purpose is found out by its seeds; one that is not has nothing to hide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from simulation.play import play, without_small_talk

from pyoco_server.domain.execution import decide, decide_nodes
from pyoco_server.domain.execution.graph import Graph
from pyoco_server.domain.execution.rejection import Rejection, finished
from pyoco_server.domain.execution.state import Execution
from pyoco_server.services.claims import claim_node
from pyoco_server.services.executions import execution_cache, service
from pyoco_server.services.maintenance import cancels, snapshots
from pyoco_server.stores import IdempotencyStore
from pyoco_server.testing.index import MemoryRunIndex

# Each is found by one of the first few dozen; where it takes so many, something has become blind.
MOST_SEEDS = 400

Sabotage = Callable[[pytest.MonkeyPatch], None]


def broken_by(sabotage: Sabotage, wanted: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a seed finds this promise broken."""
    sabotage(monkeypatch)
    with without_small_talk():
        return any(violation.broken == wanted for seed in range(MOST_SEEDS) for violation in play(seed).violations)


def without_the_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    running = decide_nodes._running
    monkeypatch.setattr(decide_nodes, "_running", lambda execution, node_id, attempt: running(execution, node_id, None))


def joins_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    def ready_after(graph: Graph, done: str, succeeded: object) -> Any:
        followers = {target for source, target in graph.edges if source == done}
        return (node for node in graph.nodes if node.node_id in followers)

    monkeypatch.setattr(Graph, "ready_after", ready_after)


def followers_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Graph, "ready_after", lambda graph, done, succeeded: ())


def cancel_without_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_the_end_counts(execution: Execution, command: object) -> Rejection | None:
        return finished(execution) if execution.status.is_terminal else None

    monkeypatch.setattr(decide, "no_progress", only_the_end_counts)


def cancels_not_seen_through(monkeypatch: pytest.MonkeyPatch) -> None:
    async def see_nothing_through(*args: object, **named: object) -> None:
        return

    monkeypatch.setattr(service, "confirm_or_signal", see_nothing_through)
    monkeypatch.setattr(cancels, "confirm_or_signal", see_nothing_through)


def records_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    create = IdempotencyStore.create

    async def create_anew(store: IdempotencyStore, key: Any, record: Any) -> Any:
        await store._bucket.purge(key)
        return await create(store, key, record)

    monkeypatch.setattr(IdempotencyStore, "create", create_anew)


def leases_of_the_dead_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide_nodes, "_expire", lambda execution, command: ())


def snapshots_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the gateway that should write them, and by those who look after what it has left."""

    async def write_nothing(*args: object) -> None:
        return

    monkeypatch.setattr(execution_cache.ExecutionCache, "_write", write_nothing)
    monkeypatch.setattr(snapshots.SnapshotRepairer, "_repair", write_nothing)


def snapshots_without_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.domain.execution.snapshot._node_state", lambda node: [0, 0])


def waits_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryRunIndex, "waits", lambda index, query: ())


def a_claim_that_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    async def break_down(*args: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(claim_node, "_start", break_down)


@pytest.mark.parametrize(
    ("sabotage", "promise"),
    [
        (without_the_fence, "nodes not held by whom they were given to"),
        (joins_forgotten, "nodes out of the graph's order"),
        (followers_forgotten, "executions stuck"),
        (cancel_without_effect, "logs in which a cancel lost"),
        (cancels_not_seen_through, "accepted cancels that came to nothing"),
        (records_forgotten, "requests done twice"),
        (leases_of_the_dead_kept, "executions stuck"),
        (snapshots_left_behind, "worlds that never rest"),
        (snapshots_without_attempts, "snapshots unlike their log"),
        (waits_not_listed, "indexes unlike the snapshots"),
        (a_claim_that_breaks, "errors that nobody expected"),
    ],
)
def test_a_program_that_is_broken_on_purpose_is_found_out(
    sabotage: Sabotage, promise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert broken_by(sabotage, promise, monkeypatch)


def test_the_same_seed_is_the_same_interleaving_down_to_the_last_byte() -> None:
    for seed in range(20):
        first, second = play(seed), play(seed, tell=True)

        assert first.digest == second.digest
        assert first.figures == second.figures


def test_seeds_differ() -> None:
    assert len({play(seed).digest for seed in range(10)}) == 10


def test_a_told_interleaving_names_every_request_and_its_answer() -> None:
    played = play(3, tell=True)

    for told in played.evidence.told:
        assert any(f"{told.request.key} to gateway-" in line for line in played.story)
        assert any(f"{told.request.key} at gateway-" in line and str(told.status) in line for line in played.story)

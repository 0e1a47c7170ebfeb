"""The simulation finds deliberately broken programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from simulation.play import play, without_logs

from pyoco_server.domain.execution import decide, decide_nodes
from pyoco_server.domain.execution.graph import Graph
from pyoco_server.domain.execution.rejection import Rejection, finished
from pyoco_server.domain.execution.state import Execution
from pyoco_server.services.claims import claim_node
from pyoco_server.services.executions import command_handler, execution_cache, service
from pyoco_server.services.maintenance import cancels, snapshots
from pyoco_server.stores import IdempotencyStore
from pyoco_server.testing.index import MemoryRunIndex

# One of the first few dozen seeds finds most of them.
MOST_SEEDS = 400

Sabotage = Callable[[pytest.MonkeyPatch], None]


def broken_by(sabotage: Sabotage, wanted: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a seed finds this violation."""
    sabotage(monkeypatch)
    with without_logs():
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
    """By the gateway and by maintenance."""

    async def write_nothing(*args: object) -> None:
        return

    monkeypatch.setattr(execution_cache.ExecutionCache, "_write", write_nothing)
    monkeypatch.setattr(snapshots.SnapshotRepairer, "_repair", write_nothing)


def snapshots_without_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.domain.execution.snapshot._node_state", lambda node: [0, 0])


def waits_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryRunIndex, "waits", lambda index, query: ())


def nothing_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*args: object) -> bool:
        return False

    monkeypatch.setattr(command_handler, "_may_contain_ours", never)


def a_claim_that_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    async def break_down(*args: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(claim_node, "_start", break_down)


@pytest.mark.parametrize(
    ("sabotage", "promise"),
    [
        (without_the_fence, "nodes with a wrong holder"),
        (joins_forgotten, "nodes out of order"),
        (followers_forgotten, "executions stuck"),
        (cancel_without_effect, "events after a cancel request"),
        (cancels_not_seen_through, "accepted cancels without effect"),
        (records_forgotten, "requests done twice"),
        (leases_of_the_dead_kept, "executions stuck"),
        (snapshots_left_behind, "systems that do not become idle"),
        (snapshots_without_attempts, "snapshots unlike their log"),
        (waits_not_listed, "indexes unlike the snapshots"),
        (nothing_resumed, "requests with different responses"),
        (a_claim_that_breaks, "unexpected errors"),
    ],
)
def test_a_deliberately_broken_program_is_found(
    sabotage: Sabotage, promise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert broken_by(sabotage, promise, monkeypatch)


def test_the_same_seed_gives_the_same_trace() -> None:
    for seed in range(20):
        first, second = play(seed), play(seed, trace=True)

        assert first.digest == second.digest
        assert first.figures == second.figures


def test_different_seeds_give_different_traces() -> None:
    assert len({play(seed).digest for seed in range(10)}) == 10


def test_a_trace_has_every_request_and_its_response() -> None:
    played = play(3, trace=True)

    for response in played.evidence.responses:
        assert any(f"{response.request.key} to gateway-" in line for line in played.trace)
        assert any(
            f"{response.request.key} at gateway-" in line and str(response.status) in line for line in played.trace
        )

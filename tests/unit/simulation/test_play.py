"""The simulation finds deliberately broken programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from simulation.play import play, without_logs

from pyoco_server.domain.execution import decide, decide_nodes
from pyoco_server.domain.execution.graph import Follow, Graph, IsFollowed
from pyoco_server.domain.execution.rejection import Rejection, finished
from pyoco_server.domain.execution.state import Execution
from pyoco_server.domain.ids import NodeId
from pyoco_server.services.claims import claim_node
from pyoco_server.services.executions import cancel, command_handler, execution_cache
from pyoco_server.services.maintenance import cancels, snapshots
from pyoco_server.services.pdca import request_run
from pyoco_server.stores import IdempotencyStore
from pyoco_server.testing.batch_engine import MemoryBatchEngine
from pyoco_server.testing.index import MemoryRunIndex

# One of the first few dozen seeds finds most of them; the search for a rare one begins where it is.
MOST_SEEDS = 400

Sabotage = Callable[[pytest.MonkeyPatch], None]


def broken_by(sabotage: Sabotage, wanted: str, monkeypatch: pytest.MonkeyPatch, first: int) -> bool:
    """Whether a seed from the first one on finds this violation."""
    sabotage(monkeypatch)
    seeds = range(first, first + MOST_SEEDS)
    with without_logs():
        return any(violation.broken == wanted for seed in seeds for violation in play(seed).violations)


def without_the_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    running = decide_nodes._running
    monkeypatch.setattr(decide_nodes, "_running", lambda execution, node_id, attempt: running(execution, node_id, None))


def joins_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    def follow(graph: Graph, done: str, is_followed: object) -> Follow:
        followers = {target for source, target in graph.edges if source == done}
        return Follow([node for node in graph.nodes if node.node_id in followers], [])

    monkeypatch.setattr(Graph, "follow", follow)


def followers_not_notified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Graph, "follow", lambda graph, done, is_followed: Follow([], []))


def choices_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every answer is accepted, and what it chose leads everywhere."""
    monkeypatch.setattr("pyoco_server.domain.execution.evolve.choices_of", lambda prompt: ())
    follow = Graph.follow
    monkeypatch.setattr(
        Graph, "follow", lambda graph, done, is_followed: follow(graph, done, lambda source, _: is_followed(source, ()))
    )


def skips_do_not_cascade(monkeypatch: pytest.MonkeyPatch) -> None:
    follow = Graph.follow

    def follow_once(graph: Graph, done: NodeId, is_followed: IsFollowed) -> Follow:
        ready, skipped = follow(graph, done, is_followed)
        return Follow(ready, [node_id for node_id in skipped if done in graph.before(node_id)])

    monkeypatch.setattr(Graph, "follow", follow_once)


def skipped_nodes_run(monkeypatch: pytest.MonkeyPatch) -> None:
    follow = Graph.follow

    def follow_all(graph: Graph, done: NodeId, is_followed: IsFollowed) -> Follow:
        ready, skipped = follow(graph, done, is_followed)
        return Follow([*ready, *(node for node in graph.nodes if node.node_id in skipped)], [])

    monkeypatch.setattr(Graph, "follow", follow_all)


def cancel_without_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_the_end_counts(execution: Execution, command: object) -> Rejection | None:
        return finished(execution) if execution.status.is_terminal else None

    monkeypatch.setattr(decide, "no_progress", only_the_end_counts)


def cancels_not_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def confirm_nothing(*args: object, **named: object) -> None:
        return

    monkeypatch.setattr(cancel, "confirm_or_signal", confirm_nothing)
    monkeypatch.setattr(cancels, "confirm_or_signal", confirm_nothing)


def records_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    create = IdempotencyStore.create

    async def overwrite_record(store: IdempotencyStore, key: Any, record: Any) -> Any:
        await store._bucket.purge(key)
        return await create(store, key, record)

    monkeypatch.setattr(IdempotencyStore, "create", overwrite_record)


def expired_leases_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide_nodes, "_expire", lambda execution, command: ())


def snapshots_not_advanced(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the gateway and by maintenance."""

    async def write_nothing(*args: object) -> None:
        return

    monkeypatch.setattr(execution_cache.ExecutionCache, "_write", write_nothing)
    monkeypatch.setattr(snapshots.SnapshotRepairer, "_repair", write_nothing)


def snapshots_without_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.domain.execution.snapshot._node_state", lambda node, graph: [0, 0])


def waits_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryRunIndex, "waits", lambda index, query: ())


def nothing_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*args: object) -> bool:
        return False

    monkeypatch.setattr(command_handler, "_may_contain_ours", never)


def claims_raising(monkeypatch: pytest.MonkeyPatch) -> None:
    async def raise_error(*args: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(claim_node, "_start", raise_error)


def requests_ended_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_run, "_is_open", lambda execution: not execution.status.is_terminal)


def batches_not_canceled(monkeypatch: pytest.MonkeyPatch) -> None:
    async def do_nothing(*args: object) -> None:
        return

    monkeypatch.setattr(MemoryBatchEngine, "cancel", do_nothing)
    monkeypatch.setattr(request_run, "_GOING_ON", ())


@pytest.mark.parametrize(
    ("sabotage", "promise", "first"),
    [
        (without_the_fence, "nodes with a wrong holder", 0),
        (joins_ignored, "nodes out of order", 0),
        (followers_not_notified, "executions stuck", 0),
        (choices_ignored, "nodes out of order", 0),
        (skips_do_not_cascade, "executions stuck", 380),
        (skipped_nodes_run, "nodes out of order", 0),
        (cancel_without_effect, "events after a cancel request", 0),
        (cancels_not_confirmed, "accepted cancels without effect", 0),
        (records_overwritten, "requests done twice", 0),
        (expired_leases_kept, "executions stuck", 0),
        (snapshots_not_advanced, "systems that do not become idle", 0),
        (snapshots_without_attempts, "snapshots unlike their log", 0),
        (waits_not_listed, "indexes unlike the snapshots", 0),
        (nothing_resumed, "requests with different responses", 4_900),
        (claims_raising, "unexpected errors", 0),
        (requests_ended_early, "requests whose batches do not add up", 0),
        (batches_not_canceled, "batches that run after the end of their request", 0),
    ],
)
def test_a_deliberately_broken_program_is_found(
    sabotage: Sabotage, promise: str, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert broken_by(sabotage, promise, monkeypatch, first)


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

"""The promises about executions whose nodes are taken over HTTP, each as a function that finds what broke it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from chaos.evidence import Evidence, Finding
from chaos.journal import Journal, Told
from chaos.keyed_client import DONE
from chaos.states import final
from pyoco_server.domain.execution.codec import event_id, type_name
from pyoco_server.domain.execution.commands import CancelExecution, StopNode
from pyoco_server.domain.execution.events import (
    ExecutionCompleted,
    NodeStarted,
    NodeSucceeded,
    NodeWaiting,
    StoredCommit,
)
from pyoco_server.domain.execution.graph import Graph
from pyoco_server.domain.execution.state import Status, Work
from pyoco_server.domain.ids import NodeId

Check = Callable[[Evidence, Journal], Iterator[Finding]]

# A holder's last word after a cancel is refused, and counts as this under the same key.
HAS_STOPPED = StopNode.__name__


def not_done_once(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """What was accepted is in the log once, under its key; what was refused is not there."""
    done = _by_key(evidence.logs)
    for key, told in _certain(journal).items():
        found = [(run_id, stored) for run_id, stored in done.get(key, ()) if stored.commit.command == told.command]
        asked_twice_is_once = told.command == CancelExecution.__name__
        if told.status not in DONE and found:
            yield told.execution_id, f"{told.command} {key} was refused, but it is in the log"
        elif told.status in DONE and not found and not asked_twice_is_once:
            yield told.execution_id, f"{told.command} {key} was accepted, but it is not in the log"
        elif told.status in DONE and any(run_id != told.execution_id for run_id, _ in found):
            yield told.execution_id, f"{told.command} {key} was done to another execution: {found[0][0]}"
        elif told.status in DONE and found and told.body["version"] != found[0][1].sequence:
            yield told.execution_id, f"{key} says version {told.body['version']}, the log {found[0][1].sequence}"
    for key, commits in done.items():
        commands = [stored.commit.command for _, stored in commits]
        if len(commands) - commands.count(HAS_STOPPED) > 1 or commands.count(HAS_STOPPED) > 1:
            yield commits[0][0], f"{key} is in the log more than once: {commands}"


def answered_differently(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """All who sent the same key got the same answer."""
    certain = _certain(journal)
    for told in journal.told:
        first = certain[told.key]
        if told.body != first.body or (told.status in DONE) != (first.status in DONE):
            yield told.execution_id, f"{told.key}: {first.status} {first.body}, and then {told.status} {told.body}"


def not_canceled(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    for told in _certain(journal).values():
        if told.command == CancelExecution.__name__ and told.status in DONE:
            status = final(told.execution_id, evidence.logs.get(told.execution_id, ())).status
            if status is not Status.CANCELED:
                yield told.execution_id, f"the cancel {told.key} was accepted, but it ended {status.value}"


def out_of_order(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """No node begins before all that come before it; each succeeds once; COMPLETED means all of them."""
    for run_id, log in evidence.logs.items():
        graph = final(run_id, log).graph
        if graph is not None:
            yield from ((run_id, wrong) for wrong in _misplaced(graph, log))


def held_by_two(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """Of one attempt one holder was told that it is theirs, and the log says the same."""
    holders: dict[tuple[str, str, int], set[str]] = {}
    for told in journal.told:
        if told.command == "StartNode" and told.status in DONE:
            attempt = (told.execution_id, told.body["nodeId"], told.body["attempt"])
            holders.setdefault(attempt, set()).add(told.key)
    for (run_id, node_id, number), keys in holders.items():
        if len(keys) > 1:
            yield run_id, f"attempt {number} of {node_id} was given to {sorted(keys)}"
        starts = [
            stored.commit.idempotency_key
            for stored in evidence.logs.get(run_id, ())
            for event in stored.commit.events
            if isinstance(event, NodeStarted) and (event.node_id, event.attempt) == (node_id, number)
        ]
        if starts != list(keys):
            yield run_id, f"attempt {number} of {node_id} was given to {sorted(keys)}, the log says {starts}"


def unlike_their_events(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """Every gateway tells the events of an execution, and the execution, as the log has them."""
    for run_id, shown in evidence.executions.items():
        log = evidence.logs.get(run_id, ())
        stored = [
            (event_id(one.commit.commit_id, number), type_name(event))
            for one in log
            for number, event in enumerate(one.commit.events)
        ]
        execution = final(run_id, log)
        for one in shown:
            told = [(event["eventId"], event["type"]) for event in one.events]
            if told != stored:
                yield run_id, f"{one.gateway} tells {len(told)} events, the log has {len(stored)}, or others"
            says = (one.body.get("status"), one.body.get("version"))
            if says != (execution.status.value, execution.version):
                yield run_id, f"{one.gateway} says {says}, the log {execution.status.value}, {execution.version}"


def is_for_hands(log: Sequence[StoredCommit]) -> bool:
    """Whether its nodes are taken one by one: then no worker executes it."""
    return final("", log).request.work is Work.NODES


def taken_for_nobody(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """Who repeats a claim is not told that there is nothing when the first try has taken a node."""
    done = _by_key(evidence.logs)
    for key, asked_at in journal.empty:
        for run_id, stored in done.get(key, ()):
            if evidence.stored_at[stored.sequence] < asked_at:
                yield run_id, f"the claim {key} had taken a node (#{stored.sequence}), and was told that there is none"


NODE_CHECKS: Mapping[str, Check] = {
    "commands that were not done once": not_done_once,
    "answers that differ for one key": answered_differently,
    "cancels that ended other than CANCELED": not_canceled,
    "nodes out of their order": out_of_order,
    "nodes given to two": held_by_two,
    "nodes taken for nobody": taken_for_nobody,
    "events told otherwise than stored": unlike_their_events,
}


def _certain(journal: Journal) -> dict[str, Told]:
    """The first answer of each key."""
    found: dict[str, Told] = {}
    for told in journal.told:
        found.setdefault(told.key, told)
    return found


def _by_key(logs: Mapping[str, Sequence[StoredCommit]]) -> dict[str, list[tuple[str, StoredCommit]]]:
    found: dict[str, list[tuple[str, StoredCommit]]] = {}
    for run_id, log in logs.items():
        for stored in log:
            if stored.commit.idempotency_key is not None:
                found.setdefault(stored.commit.idempotency_key, []).append((run_id, stored))
    return found


def _misplaced(graph: Graph, log: Sequence[StoredCommit]) -> Iterator[str]:
    done: Counter[NodeId] = Counter()
    for event in (event for stored in log for event in stored.commit.events):
        if isinstance(event, NodeStarted | NodeWaiting):
            if missing := [source for source in graph.before(event.node_id) if not done[source]]:
                yield f"{event.node_id} began before {missing} had succeeded"
            if done[event.node_id]:
                yield f"{event.node_id} began after it had succeeded"
        elif isinstance(event, NodeSucceeded):
            done[event.node_id] += 1
        elif isinstance(event, ExecutionCompleted) and len(done) != len(graph.nodes):
            yield f"COMPLETED, but only {sorted(done)} have succeeded"
    yield from (f"{node_id} succeeded {times} times" for node_id, times in done.items() if times > 1)

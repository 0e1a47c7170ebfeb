"""The invariants of executions whose nodes are claimed over HTTP. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from simulation.history_invariants import after_the_end, cancel_lost, out_of_order, superseded_reports

from chaos.evidence import Check, Evidence, Finding
from chaos.journal import CommandResponse, Journal
from chaos.recheck_invariants import is_request
from chaos.states import final
from pyoco_server.domain.execution.codec import event_id
from pyoco_server.domain.execution.commands import CancelExecution, StopNode
from pyoco_server.domain.execution.events import (
    NodeStarted,
    StoredCommit,
    type_name,
)
from pyoco_server.domain.execution.state import Status, Work

# A holder's final report after a cancel is rejected and stored as this command under the same key.
STOPPED = StopNode.__name__


def commands_not_applied_once(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """An accepted command is in the log exactly once under its key; a rejected one is not."""
    done = _by_key(evidence.logs)
    for key, response in _first_responses(journal).items():
        found = [(run_id, stored) for run_id, stored in done.get(key, ()) if stored.commit.command == response.command]
        may_change_nothing = response.command == CancelExecution.__name__ or _is_repetition(evidence, response)
        if not response.is_done and found:
            yield response.execution_id, f"{response.command} {key} was rejected, but it is in the log"
        elif response.is_done and not found and not may_change_nothing:
            yield response.execution_id, f"{response.command} {key} was accepted, but it is not in the log"
        elif response.is_done and any(run_id != response.execution_id for run_id, _ in found):
            yield response.execution_id, f"{response.command} {key} was applied to another execution: {found[0][0]}"
        elif response.is_done and found and response.body["version"] != found[0][1].sequence:
            yield (
                response.execution_id,
                f"{key} says version {response.body['version']}, the log {found[0][1].sequence}",
            )
    for key, commits in done.items():
        commands = [stored.commit.command for _, stored in commits]
        if is_request(evidence.logs[commits[0][0]]):
            # One call creates and starts it, and without batches completes it.
            commands = [one for one in commands if commands.count(one) > 1]
        if len(commands) - commands.count(STOPPED) > 1 or commands.count(STOPPED) > 1:
            yield commits[0][0], f"{key} is in the log more than once: {commands}"


def differing_responses(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """All requests with the same key got the same response."""
    certain = _first_responses(journal)
    for response in journal.responses:
        first = certain[response.key]
        if response.body != first.body or response.is_done != first.is_done:
            yield (
                response.execution_id,
                f"{response.key}: {first.status} {first.body}, and then {response.status} {response.body}",
            )


def unhonoured_execution_cancels(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    for response in _first_responses(journal).values():
        if response.command == CancelExecution.__name__ and response.is_done:
            status = final(response.execution_id, evidence.logs.get(response.execution_id, ())).status
            if status is not Status.CANCELED:
                yield response.execution_id, f"the cancel {response.key} was accepted, but it ended {status.value}"


def nodes_out_of_order(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """Nodes follow the order of their graph, and no event follows a cancel, an end, or a higher attempt."""
    logs = {run_id: log for run_id, log in evidence.logs.items() if is_node_execution(log)}
    for check in (after_the_end, cancel_lost, out_of_order, superseded_reports):
        yield from check(logs)


def double_leases(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """Each attempt is leased to one claim, and the log names the same one."""
    holders: dict[tuple[str, str, int], set[str]] = {}
    for response in journal.responses:
        if response.command == "StartNode" and response.is_done and "nodeId" in response.body:
            attempt = (response.execution_id, response.body["nodeId"], response.body["attempt"])
            holders.setdefault(attempt, set()).add(response.key)
    for (run_id, node_id, number), keys in holders.items():
        if len(keys) > 1:
            yield run_id, f"attempt {number} of {node_id} was leased to {sorted(keys)}"
        starts = [
            stored.commit.idempotency_key
            for stored in evidence.logs.get(run_id, ())
            for event in stored.commit.events
            if isinstance(event, NodeStarted) and (event.node_id, event.attempt) == (node_id, number)
        ]
        if starts != list(keys):
            yield run_id, f"attempt {number} of {node_id} was leased to {sorted(keys)}, the log has {starts}"


def event_mismatches(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """Every gateway returns the execution and its events as the log has them."""
    for run_id, shown in evidence.executions.items():
        log = evidence.logs.get(run_id, ())
        stored = [
            (event_id(one.commit.commit_id, number), type_name(event))
            for one in log
            for number, event in enumerate(one.commit.events)
        ]
        execution = final(run_id, log)
        for one in shown:
            returned = [(event["eventId"], event["type"]) for event in one.events]
            if returned != stored:
                yield run_id, f"{one.gateway} returns {len(returned)} events, the log has {len(stored)}, or others"
            state = (one.body.get("status"), one.body.get("version"))
            if state != (execution.status.value, execution.version):
                yield (
                    run_id,
                    f"{one.gateway} returns {state}, the log has {execution.status.value}, {execution.version}",
                )


def is_node_execution(log: Sequence[StoredCommit]) -> bool:
    """Whether its nodes are claimed over HTTP; then no worker executes it."""
    return final("", log).request.work is Work.NODES


def lost_leases(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """A repeated claim is not answered with 204 if the first one leased a node."""
    done = _by_key(evidence.logs)
    for key, asked_at in journal.empty_claims:
        for run_id, stored in done.get(key, ()):
            if evidence.stored_at[stored.sequence] < asked_at:
                yield run_id, f"the claim {key} leased a node (#{stored.sequence}) and was answered with 204"


NODE_CHECKS: Mapping[str, Check] = {
    "commands not applied exactly once": commands_not_applied_once,
    "different responses to one key": differing_responses,
    "cancels that ended other than CANCELED": unhonoured_execution_cancels,
    "nodes executed out of order": nodes_out_of_order,
    "nodes leased to two workers": double_leases,
    "nodes leased to disconnected clients": lost_leases,
    "events delivered differently than stored": event_mismatches,
}


def _first_responses(journal: Journal) -> dict[str, CommandResponse]:
    """The first response to each key."""
    found: dict[str, CommandResponse] = {}
    for response in journal.responses:
        found.setdefault(response.key, response)
    return found


def _is_repetition(evidence: Evidence, response: CommandResponse) -> bool:
    """Whether it may have found its effect in place: at an open graph, clients send commands that say the same."""
    log = evidence.logs.get(response.execution_id, ())
    is_open = bool(log) and final(response.execution_id, log).graph is None
    return is_open and response.command not in ("CreateExecution", "ReportNodeProgress")


def _by_key(logs: Mapping[str, Sequence[StoredCommit]]) -> dict[str, list[tuple[str, StoredCommit]]]:
    found: dict[str, list[tuple[str, StoredCommit]]] = {}
    for run_id, log in logs.items():
        for stored in log:
            if stored.commit.idempotency_key is not None:
                found.setdefault(stored.commit.idempotency_key, []).append((run_id, stored))
    return found

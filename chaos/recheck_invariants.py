"""The invariants of requests of the PDCA API: numbers, batches, and what gateways show of strategies. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from chaos.evidence import Check, Evidence, Finding, Plain
from chaos.journal import Journal
from chaos.states import final
from pyoco_server.domain.execution.events import (
    ExecutionCanceled,
    ExecutionCompleted,
    ExecutionFailed,
    NodeSucceeded,
    StoredCommit,
)
from pyoco_server.domain.execution.state import Execution, NodeStatus, Status, StopHow
from pyoco_server.domain.pdca.ids import number_of, run_id_of, ulid_of
from pyoco_server.domain.pdca.recheck import BATCH_FLOW, REQUEST_FLOW, child_run_id
from pyoco_server.domain.pdca.strategies import read_output
from pyoco_server.http_api.protocol.times import rfc3339

ENDS = (ExecutionCompleted, ExecutionFailed, ExecutionCanceled)
STATUSES = {
    Status.ACTIVE: "running",
    Status.COMPLETED: "success",
    Status.FAILED: "failed",
    Status.CANCELED: "failed",
}


def lost_requests(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """An accepted request is stored as it was estimated, once per key; a dry run is not."""
    by_key: dict[str, str] = {}
    for asked in journal.rechecks:
        run_id = run_id_of(asked.request_id)
        if by_key.setdefault(asked.key, asked.request_id) != asked.request_id:
            yield run_id, f"the key {asked.key} made two requests: {by_key[asked.key]} and {asked.request_id}"
        log = evidence.logs.get(run_id, ())
        if asked.dry_run and log:
            yield run_id, "a dry run is in the log"
        elif not asked.dry_run and not log:
            yield run_id, "accepted, but it has no events"
        elif log:
            stored = final(run_id, log).request.input
            if (stored["strategies"], stored["batches"]) != (asked.strategies, asked.batches):
                yield run_id, f"accepted with {asked.strategies} in {asked.batches} batches, the log has {stored}"


def wrong_numbers(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """The numbers of a request add up whenever they are read; at its end every gateway has those of the log."""
    for body in journal.progress:
        yield from ((run_id_of(body["request_id"]), wrong) for wrong in _sums(body))
    for run_id, execution in _requests(evidence).items():
        expected = _expected(execution)
        for gateway, body in evidence.rechecks.get(run_id, {}).items():
            yield from ((run_id, f"{gateway}: {wrong}") for wrong in _sums(body))
            shown = {name: body[name] for name in expected}
            if shown != expected:
                yield run_id, f"{gateway} shows {shown}, the log has {expected}"


def wrong_batches(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """A batch succeeds once, after its run; its request ends after all of its runs, and as its batches say."""
    for run_id, execution in _requests(evidence).items():
        log = evidence.logs[run_id]
        ended = _end_of(log)
        for node in execution.nodes.values():
            child_id = child_run_id(execution.execution_id, number_of(node.node_id))
            child = evidence.logs.get(child_id, ())
            succeeded = [
                stored.sequence
                for stored in log
                for event in stored.commit.events
                if isinstance(event, NodeSucceeded) and event.node_id == node.node_id
            ]
            if len(succeeded) > 1:
                yield run_id, f"{node.node_id} succeeded {len(succeeded)} times"
            child_ended = _end_of(child)
            if succeeded and (final(child_id, child).status is not Status.COMPLETED or child_ended > succeeded[0]):
                yield run_id, f"{node.node_id} succeeded before its run {child_id}"
            if child and ended and child_ended > ended and not _was_given_up(execution):
                yield run_id, f"it ended (#{ended}) before the run {child_id} of {node.node_id} (#{child_ended})"
        all_succeeded = all(node.status is NodeStatus.SUCCEEDED for node in execution.nodes.values())
        if execution.status in (Status.COMPLETED, Status.FAILED) and all_succeeded != (
            execution.status is Status.COMPLETED
        ):
            yield run_id, f"it is {execution.status.value}, its batches are not"


def foreign_batch_runs(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """Every run of the flow of batches is that of a batch that was started."""
    known = {
        child_run_id(execution.execution_id, number_of(node.node_id))
        for execution in _requests(evidence).values()
        for node in execution.nodes.values()
        if node.attempt
    }
    for run_id, log in evidence.logs.items():
        if final(run_id, log).request.flow_name == BATCH_FLOW and run_id not in known:
            yield run_id, "the run of no batch that was started"


def wrong_results(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """Every gateway shows for every strategy the results that the log has, and the newest of them in its list."""
    results = _results(evidence)
    for shown in evidence.strategies:
        expected = results.get(shown.strategy, [])
        found = sorted((one["checked_at"], one["request_id"], one["health"]) for one in shown.results)
        if found != expected:
            missing = [one for one in expected if one not in found]
            yield (
                shown.strategy,
                f"{shown.gateway} has {len(found)} results, the log {len(expected)}; missing: {missing}",
            )
        newest = expected[-1][0] if expected else None
        healths = {health for at, _, health in expected if at == newest} or {"unknown"}
        if shown.listed["last_checked_at"] != newest or shown.listed["last_health"] not in healths:
            yield shown.strategy, f"{shown.gateway} lists {dict(shown.listed)}, the newest result is of {newest}"
    for strategy in journal.puts.keys() - {shown.strategy for shown in evidence.strategies}:
        yield strategy, "registered, but no gateway lists it"


RECHECK_CHECKS: Mapping[str, Check] = {
    "rechecks that were lost or doubled": lost_requests,
    "numbers of rechecks that do not add up": wrong_numbers,
    "batches that ended other than their runs": wrong_batches,
    "runs of batches that nobody asked for": foreign_batch_runs,
    "strategies that differ from the log": wrong_results,
}


def is_request(log: Sequence[StoredCommit]) -> bool:
    return final("", log).request.flow_name == REQUEST_FLOW


def _requests(evidence: Evidence) -> dict[str, Execution]:
    return {run_id: final(run_id, log) for run_id, log in evidence.logs.items() if is_request(log)}


def _sums(body: Plain) -> Iterator[str]:
    progress, summary = body["progress"], body["summary"]
    done = progress["completed_strategies"]
    if summary["success"] + summary["failed"] != done or sum(summary["health"].values()) != done:
        yield f"{done} strategies are completed, but {summary}"
    if progress["completed_batches"] > progress["total_batches"] or done > progress["total_strategies"]:
        yield f"more is completed than there is: {progress}"


def _expected(execution: Execution) -> Plain:
    """What gateways show of a request that has ended: nothing of it is open."""
    success = 0
    health = {"healthy": 0, "degraded": 0, "unknown": 0}
    for node in execution.nodes.values():
        output = read_output(node.output) if node.status is NodeStatus.SUCCEEDED else None
        for result in () if output is None else output.results:
            success += 1
            health[result.health.value] += 1
    batches, strategies = execution.request.input["batches"], execution.request.input["strategies"]
    health["unknown"] += strategies - success
    return {
        "status": STATUSES[execution.status],
        "progress": {
            "total_batches": batches,
            "completed_batches": batches,
            "total_strategies": strategies,
            "completed_strategies": strategies,
        },
        "summary": {"success": success, "failed": strategies - success, "health": health},
    }


def _results(evidence: Evidence) -> dict[str, list[tuple[str, str, str]]]:
    """Time, request and health of the results of each strategy, oldest first."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for run_id in _requests(evidence):
        for event in (event for stored in evidence.logs[run_id] for event in stored.commit.events):
            output = read_output(event.output) if isinstance(event, NodeSucceeded) else None
            for result in () if output is None else output.results:
                request_id = ulid_of(final(run_id, evidence.logs[run_id]).execution_id)
                found.setdefault(result.strategy, []).append((rfc3339(event.at), request_id, result.health.value))
    return {strategy: sorted(results) for strategy, results in found.items()}


def _end_of(log: Sequence[StoredCommit]) -> int:
    """The sequence of its end; 0 without one."""
    ends = (stored.sequence for stored in log if any(isinstance(event, ENDS) for event in stored.commit.events))
    return next(ends, 0)


def _was_given_up(execution: Execution) -> bool:
    return execution.cancel is not None and execution.cancel.how is StopHow.UNCONFIRMED

"""The words spoken between a runner process and its supervisor, and their plain JSON form; no sockets here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, assert_never

from pyoco_server.domain.fleet.flows import FlowAnnouncement, bounded, flows_from_plain, flows_to_plain
from pyoco_server.trace import NodeBegan, NodeFailed, NodeProgressed, NodesDeclared, NodeSucceeded, Step

__all__ = [
    "EXIT_CUT_OFF",
    "Died",
    "Ended",
    "How",
    "NodeBegan",
    "NodeFailed",
    "NodeProgressed",
    "NodeSucceeded",
    "NodesDeclared",
    "Report",
    "RunJob",
    "Step",
    "announcement_from_wire",
    "announcement_to_wire",
    "ended_from_wire",
    "ended_to_wire",
    "job_from_wire",
    "job_to_wire",
    "step_from_wire",
    "step_to_wire",
]

# sysexits.h: EX_IOERR. A runner that cannot speak to its supervisor any more leaves with this.
EXIT_CUT_OFF = 74

How = Literal["completed", "failed", "cancelled", "flow_not_found"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunJob:
    """One attempt at one run, as a runner is asked for it."""

    run_id: str
    flow_name: str
    params: dict[str, Any]
    attempt: int
    workflow_yaml: str | None = None  # the flow itself; without it the resolver knows the flow by its name
    callable_allow: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The run is over and its runner is free again; the last word of every run whose process lived."""

    at: float
    how: How
    error_type: str | None = None
    message: str | None = None
    traceback: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """The runner's process is gone, and the run with it.

    Exactly one of `exit_code` and `signal_name` is known; neither, when the fork server was lost too and nobody saw how
    the process ended. `never_began` is certain when it is true: the process had gone before it read the job, so
    nothing of the run has happened and another runner may have it. `at` is when its death was noticed.
    """

    exit_code: int | None
    signal_name: str | None
    last_lines: tuple[str, ...]
    never_began: bool = False
    at: float | None = field(default=None, compare=False)  # what became of it is the same at any moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is known of a run at one moment: the steps since the last report and, in the last one, its end.

    `last_lines` is what the run wrote last, where somebody reads what it writes; it comes with the end.
    """

    steps: tuple[Step, ...] = ()
    end: Ended | Died | None = None
    last_lines: tuple[str, ...] = ()


def announcement_to_wire(announcement: FlowAnnouncement) -> list[Any]:
    return [flows_to_plain(announcement.flows), announcement.left_out]


def announcement_from_wire(flows: object, left_out: object) -> FlowAnnouncement:
    """User code may have written it: whatever it is, it can be put into the worker's record."""
    reasons = [one for one in left_out if isinstance(one, str)] if isinstance(left_out, list) else []
    return bounded(flows_from_plain(flows), reasons)


def job_to_wire(job: RunJob) -> list[Any]:
    return [job.run_id, job.flow_name, job.params, job.attempt, job.workflow_yaml, job.callable_allow]


def job_from_wire(wire: list[Any]) -> RunJob:
    run_id, flow_name, params, attempt, workflow_yaml, callable_allow = wire
    return RunJob(
        run_id=run_id,
        flow_name=flow_name,
        params=params,
        attempt=attempt,
        workflow_yaml=workflow_yaml,
        callable_allow=tuple(callable_allow),
    )


def step_to_wire(step: Step) -> list[Any]:
    match step:
        case NodeBegan():
            return ["began", step.at, step.node, step.nth]
        case NodeProgressed():
            return ["progressed", step.at, step.node, step.nth, step.percent, step.message]
        case NodeSucceeded():
            return ["succeeded", step.at, step.node, step.nth, step.output]
        case NodeFailed():
            return ["failed", step.at, step.node, step.nth, step.error_type, step.message, step.traceback]
        case NodesDeclared():
            return ["declared", step.at, step.nodes]
        case _:
            assert_never(step)


def step_from_wire(wire: list[Any]) -> Step:
    match wire:
        case ["began", at, node, nth]:
            return NodeBegan(at=at, node=node, nth=nth)
        case ["progressed", at, node, nth, percent, message]:
            return NodeProgressed(at=at, node=node, nth=nth, percent=percent, message=message)
        case ["succeeded", at, node, nth, output]:
            return NodeSucceeded(at=at, node=node, nth=nth, output=output)
        case ["failed", at, node, nth, error_type, message, traceback]:
            return NodeFailed(at=at, node=node, nth=nth, error_type=error_type, message=message, traceback=traceback)
        case ["declared", at, [*nodes]]:
            return NodesDeclared(at=at, nodes=tuple(nodes))
        case _:
            raise ValueError(f"not a step: {wire!r:.200}")


def ended_to_wire(ended: Ended) -> list[Any]:
    return [ended.at, ended.how, ended.error_type, ended.message, ended.traceback]


def ended_from_wire(wire: list[Any]) -> Ended:
    at, how, error_type, message, traceback = wire
    return Ended(at=at, how=how, error_type=error_type, message=message, traceback=traceback)

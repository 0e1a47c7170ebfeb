"""The span of an attempt, and those of its tasks, from the steps that a runner reports; nothing where none is recorded.

A runner exports nothing: it may be killed at any time, and runs user code, which must not get the collector's headers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from pyoco_server.domain.ids import WorkerId
from pyoco_server.trace import TaskFailed, TaskStarted, TaskSucceeded
from pyoco_server.tracing.spans import Attributes, TaskSpan, Trace
from pyoco_server.tracing.trace_context import task_span_id
from pyoco_server.worker.attempt.disposition import Outcome, OutcomeKind
from pyoco_server.worker.runner_process.protocol import RunEnded, RunUpdate

if TYPE_CHECKING:
    from pyoco_server.tracing.opentelemetry import Tracing
    from pyoco_server.worker.attempt.attempt import Attempt

# A flow may loop thousands of times; the export of one run must not push out those of others.
MAX_TASK_SPANS = 500


async def run_traced(tracing: Tracing, attempt: Attempt, worker_id: WorkerId) -> Outcome:
    """Runs the attempt within its span, in the trace that its job came with."""
    job, delivery = attempt.job, attempt.delivery
    attributes: Attributes = {
        "messaging.system": "nats",
        "messaging.operation.name": "process",
        "messaging.destination.name": delivery.subject,
        "pyoco.run_id": job.run_id,
        "pyoco.flow_name": job.flow_name,
        "pyoco.delivery": delivery.num_delivered,
        "pyoco.worker_id": worker_id,
    }
    name = f"attempt {job.flow_name}"
    with tracing.enter(name, "consumer", (job.traceparent, job.tracestate), attributes) as span:
        outcome = await attempt.run()
        if span.is_recording:
            span.set({"pyoco.attempt": attempt.session.execution.attempt, "pyoco.outcome": outcome.kind.value})
            if outcome.status is not None:
                span.set({"pyoco.status": outcome.status})
            if outcome.status == "FAILED" or outcome.kind is OutcomeKind.GIVEN_UP:
                span.fail("FAILED")
        return outcome


class TaskSpans:
    """The spans of one attempt's tasks."""

    def __init__(self, trace: Trace) -> None:
        self.carrier = trace.carrier
        self._trace = trace
        self._open: dict[str, TaskSpan] = {}
        self._left = MAX_TASK_SPANS if trace.is_recording else 0

    @classmethod
    def of(cls, trace: Trace | None) -> Self | None:
        """None where no traces are exported; a trace that is not sampled still has ids for the runner."""
        return None if trace is None else cls(trace)

    def note(self, update: RunUpdate) -> None:
        """Begins and ends spans as the steps say; the end of the run ends all of them."""
        for step in update.steps:
            match step:
                case TaskStarted(node=node, nth=nth, at=at):
                    self._end(node, at, "Retried")
                    self._start(node, nth, at)
                case TaskSucceeded(node=node, at=at):
                    self._end(node, at)
                case TaskFailed(node=node, at=at, error_type=error_type):
                    self._end(node, at, error_type)
        if (end := update.end) is not None:
            why = end.how if isinstance(end, RunEnded) else "RunnerDied"
            for node in tuple(self._open):
                self._end(node, end.at, why)

    def _start(self, node: str, nth: int, at: float) -> None:
        if not self._left:
            return
        self._left -= 1
        span_id = task_span_id(self.carrier[0], node, nth)
        attributes: Attributes = {"pyoco.task": node, "pyoco.task_start": nth}
        self._open[node] = self._trace.task(f"task {node}", attributes, span_id=span_id, at=at)

    def _end(self, node: str, at: float | None, error_type: str | None = None) -> None:
        if (span := self._open.pop(node, None)) is not None:
            span.end(at, error_type=error_type)

"""The engine that runs batches as pyoco runs: one run of the flow `pdca.recheck` per batch, on our workers.

The id of the run follows from the request and the number of the batch, and so does the id of its first commit: a start
that is repeated, by any gateway, finds the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyoco_server.domain.execution.decide import RejectionReason
from pyoco_server.domain.execution.result import result_of
from pyoco_server.domain.execution.state import Request
from pyoco_server.domain.ids import CommitId
from pyoco_server.domain.pdca.ids import ulid_of
from pyoco_server.domain.pdca.outcome import MAX_RETURN_BYTES, BatchOutcome, read_outcome
from pyoco_server.domain.pdca.recheck import BATCH_FLOW, Batch, batch_params, child_run_id
from pyoco_server.ports import RunIndex
from pyoco_server.ports.pdca import BatchState
from pyoco_server.services.context import GATEWAY, CommandContext
from pyoco_server.services.executions.cancel import cancel
from pyoco_server.services.executions.submit import SubmitService
from pyoco_server.tracing.spans import joined

LABEL = "pdca"
# The index tells the driver of the end of a run; polling is for what that misses.
POLL_INTERVAL_SEC = 2.0
CANCEL_REASON = "the request of this batch was canceled"
_STATES = {
    "PENDING": BatchState.QUEUED,
    "RUNNING": BatchState.RUNNING,
    "CANCELLING": BatchState.RUNNING,
    "COMPLETED": BatchState.SUCCEEDED,
    "FAILED": BatchState.FAILED,
    "CANCELLED": BatchState.CANCELED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowEngine:
    """See `ports.pdca.BatchEngine`."""

    submits: SubmitService
    index: RunIndex
    tag: str
    concurrency: int
    name: str = BATCH_FLOW
    poll_interval_sec: float = POLL_INTERVAL_SEC

    async def check(self) -> None:
        """Requests are always accepted: their runs wait in the queue until a worker takes them."""

    def run_id(self, batch: Batch) -> str:
        return child_run_id(batch.request_id, batch.number)

    async def start(self, batch: Batch) -> None:
        run_id = child_run_id(batch.request_id, batch.number)
        request = Request(flow_name=BATCH_FLOW, tag=self.tag, input=batch_params(batch), tenant_id=batch.tenant_id)
        context = CommandContext(
            actor=GATEWAY.actor,
            correlation_id=batch.correlation_id,
            request_id=batch.http_request_id,
            commit_id=CommitId(run_id),
        )
        labels = (LABEL, f"{LABEL}:{ulid_of(batch.request_id)}")
        with joined(batch.trace):
            await self.submits.submit(request, labels, context, run_id=run_id)

    async def states(self, batches: Sequence[Batch]) -> Mapping[int, BatchState]:
        by_run = {child_run_id(batch.request_id, batch.number): batch.number for batch in batches}
        known = self.index.known(list(by_run))
        found = {by_run[run_id]: _STATES[run.status] for run_id, run in known.items()}
        for run_id, number in by_run.items():
            if number not in found:
                # The index of a gateway that has just started, or that has just started the run, may lack it.
                loaded = await self.submits.stores.snapshots.load(run_id)
                found[number] = BatchState.MISSING if loaded is None else _STATES[loaded.plain["status"]]
        return found

    async def outcome(self, batch: Batch) -> BatchOutcome:
        run_id = child_run_id(batch.request_id, batch.number)
        loaded = await self.submits.stores.snapshots.load(run_id)
        if loaded is None:
            return BatchOutcome(error=f"run {run_id} was removed before its result was read")
        plain = loaded.plain
        if plain["status"] != "COMPLETED":
            return BatchOutcome(error=f"run {run_id} has failed: {plain.get('error') or plain['status']}")
        result = result_of(plain)
        if result is None:
            return BatchOutcome(error=f"run {run_id} has no result: one task has to end the flow")
        if result.is_truncated:
            return BatchOutcome(error=f"the result of run {run_id} is larger than {MAX_RETURN_BYTES} bytes, or no JSON")
        return read_outcome(result.value, batch)

    async def cancel(self, batch: Batch) -> None:
        stores, run_id = self.submits.stores, child_run_id(batch.request_id, batch.number)
        result = await cancel(stores, run_id, CANCEL_REASON, GATEWAY)
        if result.refused is not None and result.refused.why is RejectionReason.NOT_FOUND:
            # Another gateway may be about to start it: a run that exists and is canceled cannot be started.
            await self.start(batch)
            await cancel(stores, run_id, CANCEL_REASON, GATEWAY)

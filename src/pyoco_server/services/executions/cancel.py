"""Request a cancel, signal the holder, and confirm the cancel when there is no holder or it does not answer.

Workers confirm the cancel of the run that they hold; maintenance calls `confirm_or_signal` again for overdue ones.
"""

from __future__ import annotations

from pyoco_server.domain.execution.commands import AddTag, CancelExecution, ConfirmCanceled
from pyoco_server.domain.execution.state import Execution, StopHow
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.recheck import REQUEST_FLOW, STOPPING
from pyoco_server.services.context import GATEWAY, CommandContext, Stores
from pyoco_server.services.executions.command_handler import CommandResult, handle

# A worker kills its runner at the end of the grace period; one that has not confirmed so long after it is lost.
UNCONFIRMED_AFTER_GRACE_SEC = 10.0


async def cancel(stores: Stores, run_id: RunId, reason: str | None, context: CommandContext) -> CommandResult:
    """Request a cancel, then signal the holder, or confirm the cancel at once where there is none."""
    command = CancelExecution(at=stores.clock.now(), reason=reason, requested_by=context.actor.id)
    result = await handle(stores, run_id, command, context)
    if result.refused is None:
        await confirm_or_signal(stores, result.execution, grace_sec=None)
    return result


async def confirm_or_signal(stores: Stores, execution: Execution, grace_sec: float | None) -> None:
    """Advance a requested cancel; with `grace_sec`, end it when the holder has had that time."""
    if execution.cancel is None or execution.status.is_terminal:
        return
    now = stores.clock.now()
    if not execution.is_worked_on(now):
        how = StopHow.BEFORE_START if execution.started_at is None else StopHow.IDLE
        await handle(stores, execution.execution_id, ConfirmCanceled(at=now, how=how), GATEWAY)
        return
    # Only a worker kills its runner, and needs a moment for it; holders of single nodes just learn of the cancel.
    extra_sec = UNCONFIRMED_AFTER_GRACE_SEC if execution.is_held else 0.0
    is_request = execution.request.flow_name == REQUEST_FLOW
    if is_request:
        extra_sec = 2 * UNCONFIRMED_AFTER_GRACE_SEC  # its batches have the same time, and end before it
    if grace_sec is not None and now > execution.cancel.requested_at + grace_sec + extra_sec:
        if is_request:
            # Before the end, so that the driver goes on to stop its batches whatever happens between the two.
            await handle(stores, execution.execution_id, AddTag(at=now, tag=STOPPING), GATEWAY)
        await handle(stores, execution.execution_id, ConfirmCanceled(at=now, how=StopHow.UNCONFIRMED), GATEWAY)
    elif execution.holder is not None and execution.holder.instance_id is not None:
        await stores.signals.tell(execution.holder.instance_id, execution.execution_id)


async def holder_is_alive(stores: Stores, execution: Execution) -> bool:
    """Whether the holder answers that it has the run. The age of its heartbeat proves nothing: clocks differ."""
    holder = execution.holder
    if not execution.is_held or holder is None or holder.instance_id is None:
        return False
    return await stores.signals.holds(holder.instance_id, execution.execution_id)

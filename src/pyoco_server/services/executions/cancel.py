"""Ask for a cancel and see it through: tell the holder at once; where nobody holds the run, confirm it on the spot."""

from __future__ import annotations

from pyoco_server.domain.execution.commands import CancelExecution, ConfirmCanceled
from pyoco_server.domain.execution.state import Execution, StopHow
from pyoco_server.domain.ids import RunId
from pyoco_server.services.context import GATEWAY, CommandContext, Stores
from pyoco_server.services.executions.command_handler import CommandResult, handle

# A holder that does not answer a cancel for so long after its grace period is taken for gone.
UNCONFIRMED_AFTER_GRACE_SEC = 10.0


async def cancel(
    stores: Stores, run_id: RunId, reason: str | None, requested_by: str | None, origin: CommandContext
) -> CommandResult:
    """Request the cancel. The answer shows the request; the end may already be stored when it arrives."""
    command = CancelExecution(at=stores.clock.now(), reason=reason, requested_by=requested_by)
    handled = await handle(stores, run_id, command, origin)
    if handled.refused is None:
        await confirm_or_signal(stores, handled.execution, grace_sec=None)
    return handled


async def confirm_or_signal(stores: Stores, execution: Execution, grace_sec: float | None) -> None:
    """Do what can be done now for a requested cancel; with `grace_sec`, end it when its holder has had its time."""
    if execution.cancel is None or execution.status.is_terminal:
        return
    now = stores.clock.now()
    if not execution.is_worked_on(now):
        how = StopHow.BEFORE_START if execution.started_at is None else StopHow.IDLE
        await handle(stores, execution.execution_id, ConfirmCanceled(at=now, how=how), GATEWAY)
        return
    # A worker kills its runner when the grace is over, and needs a moment for that; holders of nodes are only told.
    beyond_sec = UNCONFIRMED_AFTER_GRACE_SEC if execution.is_held else 0.0
    if grace_sec is not None and now > execution.cancel.requested_at + grace_sec + beyond_sec:
        await handle(stores, execution.execution_id, ConfirmCanceled(at=now, how=StopHow.UNCONFIRMED), GATEWAY)
    elif execution.holder is not None and execution.holder.instance_id is not None:
        await stores.signals.tell(execution.holder.instance_id, execution.execution_id)

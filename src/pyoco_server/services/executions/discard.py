"""Have no more to do with an execution: what is not finished is cancelled, what is finished leaves the lists.

It removes nothing: events, log and snapshot stay until retention takes them.
"""

from __future__ import annotations

from pyoco_server.domain.execution.commands import ArchiveExecution
from pyoco_server.domain.ids import RunId
from pyoco_server.services.context import CommandContext, Stores
from pyoco_server.services.executions.cancel import cancel
from pyoco_server.services.executions.command_handler import CommandResult, handle


async def discard(stores: Stores, run_id: RunId, origin: CommandContext) -> CommandResult:
    """Cancel it, or archive it when it is finished by then; asked again it goes on from where it is."""
    handled = await cancel(stores, run_id, None, origin.actor.id, origin)
    # With events it is done, whichever they are: a request with a key that is carried on may find its archival.
    if handled.events or not handled.execution.status.is_terminal:
        return handled
    return await handle(stores, run_id, ArchiveExecution(at=stores.clock.now(), from_outside=True), origin)

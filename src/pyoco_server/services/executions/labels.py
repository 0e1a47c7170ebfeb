"""Put a label on an execution, or take one off, at any time of its life; on what was removed by retention, never.

By `handle`, also where a desk has the execution at hand: of two who write, compare-and-set makes one decide again.
"""

from __future__ import annotations

from pyoco_server.domain.execution.commands import AddTag, RemoveTag
from pyoco_server.domain.ids import RunId
from pyoco_server.services.context import CommandContext, Stores
from pyoco_server.services.executions.command_handler import CommandResult, handle


async def add_label(stores: Stores, run_id: RunId, label: str, origin: CommandContext) -> CommandResult:
    """Put it on; one that is there already stays where it is."""
    return await handle(stores, run_id, AddTag(at=stores.clock.now(), tag=label, from_outside=True), origin)


async def remove_label(stores: Stores, run_id: RunId, label: str, origin: CommandContext) -> CommandResult:
    """Take it off; one that is not there is off already."""
    return await handle(stores, run_id, RemoveTag(at=stores.clock.now(), tag=label, from_outside=True), origin)

"""Ask whoever holds a run whether it still does. Nothing is concluded from the age of a record here."""

from __future__ import annotations

from pyoco_server.domain.execution.state import Execution
from pyoco_server.services.context import Stores


async def holder_is_alive(stores: Stores, execution: Execution) -> bool:
    """Whether the holder answers that it has the run. Its signs of life bear the time of its own clock."""
    holder = execution.holder
    if not execution.is_held or holder is None or holder.instance_id is None:
        return False
    return await stores.signals.holds(holder.instance_id, execution.execution_id)

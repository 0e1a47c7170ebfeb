"""Best-effort signals to worker instances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pyoco_server.domain.ids import InstanceId, RunId


class Signals(Protocol):
    """Best-effort messages to one worker instance; lost when it does not listen."""

    async def tell(self, instance_id: InstanceId, run_id: RunId) -> None:
        """Ask the instance to look at the run now."""

    async def answers(self, instance_id: InstanceId) -> bool:
        """Whether the instance listens right now."""

    async def holds(self, instance_id: InstanceId, run_id: RunId) -> bool:
        """Whether the instance listens and reports that it works on the run."""

    async def listen(
        self, instance_id: InstanceId, notify: Callable[[RunId], None], holds: Callable[[RunId], bool]
    ) -> None:
        """Call `notify` for every signal and `holds` for every question, across reconnects."""

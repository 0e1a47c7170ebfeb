"""Best-effort signals to worker instances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pyoco_server.domain.ids import InstanceId, RunId


class Signals(Protocol):
    """A tap on the shoulder of one worker instance, lost when nobody listens: a hint, never the truth."""

    async def tell(self, instance_id: InstanceId, run_id: RunId) -> None:
        """Say that something happened to the run which its holder should look at now."""

    async def answers(self, instance_id: InstanceId) -> bool:
        """Whether that instance listens right now."""

    async def holds(self, instance_id: InstanceId, run_id: RunId) -> bool:
        """Whether that instance listens and says that it works on the run."""

    async def listen(
        self, instance_id: InstanceId, heard: Callable[[RunId], None], holds: Callable[[RunId], bool]
    ) -> None:
        """Call `heard` for every tap and `holds` for every question, from now on and across reconnects."""

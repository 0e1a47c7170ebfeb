"""Signals in memory."""

from __future__ import annotations

from collections.abc import Callable

from pyoco_server.domain.ids import InstanceId, RunId


class MemorySignals:
    """Signals."""

    def __init__(self) -> None:
        self._listeners: dict[InstanceId, tuple[Callable[[RunId], None], Callable[[RunId], bool]]] = {}

    async def tell(self, instance_id: InstanceId, run_id: RunId) -> None:
        if instance_id in self._listeners:
            notify, _ = self._listeners[instance_id]
            notify(run_id)

    async def answers(self, instance_id: InstanceId) -> bool:
        return instance_id in self._listeners

    async def holds(self, instance_id: InstanceId, run_id: RunId) -> bool:
        if instance_id not in self._listeners:
            return False
        _, holds = self._listeners[instance_id]
        return holds(run_id)

    async def listen(
        self, instance_id: InstanceId, notify: Callable[[RunId], None], holds: Callable[[RunId], bool]
    ) -> None:
        self._listeners[instance_id] = (notify, holds)

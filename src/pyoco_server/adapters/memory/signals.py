"""Taps on the shoulder in memory."""

from __future__ import annotations

from collections.abc import Callable

from pyoco_server.execution.ids import InstanceId, RunId


class MemorySignals:
    """Signals."""

    def __init__(self) -> None:
        self._listeners: dict[InstanceId, list[Callable[[RunId], None]]] = {}

    async def tell(self, instance_id: InstanceId, run_id: RunId) -> None:
        for heard in self._listeners.get(instance_id, ()):
            heard(run_id)

    async def answers(self, instance_id: InstanceId) -> bool:
        return instance_id in self._listeners

    async def listen(self, instance_id: InstanceId, heard: Callable[[RunId], None]) -> None:
        self._listeners.setdefault(instance_id, []).append(heard)

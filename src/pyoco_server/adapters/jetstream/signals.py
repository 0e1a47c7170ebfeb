"""Taps on the shoulder of a worker instance, by plain publish: lost when nobody listens, and never stored."""

from __future__ import annotations

from collections.abc import Callable

from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.failures import NoAnswer
from pyoco_server.adapters.jetstream.messages import NO_RESPONDERS, Message
from pyoco_server.adapters.jetstream.subjects import told
from pyoco_server.execution.ids import InstanceId, RunId


class JetStreamSignals:
    """Signals. A message that wants an answer is somebody who asks whether we are there."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def tell(self, instance_id: InstanceId, run_id: RunId) -> None:
        await self._connection.publish(told(instance_id), run_id.encode())

    async def answers(self, instance_id: InstanceId) -> bool:
        try:
            return (await self._connection.request(told(instance_id))).status != NO_RESPONDERS
        except NoAnswer:
            return False

    async def listen(self, instance_id: InstanceId, heard: Callable[[RunId], None]) -> None:
        def on_message(message: Message) -> None:
            if message.reply:
                self._connection.send(message.reply.decode())
            else:
                heard(RunId(message.data.decode("utf-8", "replace")))

        await self._connection.subscribe(told(instance_id), on_message)

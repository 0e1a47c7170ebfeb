"""Best-effort signals to worker instances by plain publish; never stored."""

from __future__ import annotations

from collections.abc import Callable

from pyoco_server.adapters.jetstream.client import NO_RESPONDERS, Message
from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.failures import NoAnswer
from pyoco_server.adapters.jetstream.subjects import signal_subject
from pyoco_server.domain.ids import InstanceId, RunId

_YES, _NO = b"+", b"-"


class JetStreamSignals:
    """Signals. A message with a reply subject asks whether the instance is there and works on the run."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def tell(self, instance_id: InstanceId, run_id: RunId) -> None:
        await self._connection.publish(signal_subject(instance_id), run_id.encode())

    async def answers(self, instance_id: InstanceId) -> bool:
        return await self._ask(instance_id, b"") is not None

    async def holds(self, instance_id: InstanceId, run_id: RunId) -> bool:
        return await self._ask(instance_id, run_id.encode()) == _YES

    async def listen(
        self, instance_id: InstanceId, notify: Callable[[RunId], None], holds: Callable[[RunId], bool]
    ) -> None:
        def on_message(message: Message) -> None:
            run_id = RunId(message.data.decode("utf-8", "replace"))
            if message.reply:
                self._connection.send(message.reply.decode(), _YES if holds(run_id) else _NO)
            else:
                notify(run_id)

        await self._connection.subscribe(signal_subject(instance_id), on_message)

    async def _ask(self, instance_id: InstanceId, question: bytes) -> bytes | None:
        try:
            answer = await self._connection.request(signal_subject(instance_id), question, strict=True)
        except NoAnswer:
            return None
        return None if answer.status == NO_RESPONDERS else answer.data

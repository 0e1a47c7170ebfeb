"""Word of stored commits, one subscription per run; reads no log and believes nothing that was not stored.

It listens where the broker republishes what it has kept, never where commits are appended: there a refused append is
heard as well.
"""

from __future__ import annotations

from collections.abc import Callable

from pyoco_server.adapters.jetstream import subjects
from pyoco_server.adapters.jetstream.connect import Connection, Subscription
from pyoco_server.adapters.jetstream.messages import Message
from pyoco_server.adapters.jetstream.subjects import Subjects
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution import codec
from pyoco_server.domain.ids import RunId
from pyoco_server.ports import CommitHeard

Heard = Callable[[CommitHeard], None]


class JetStreamLiveCommits:
    """LiveCommits. After a reconnect every listener is told that it may have missed something."""

    def __init__(self, connection: Connection, config: NatsBackendConfig) -> None:
        self._connection = connection
        self._subjects = Subjects(config)
        self._listeners: dict[Subscription, Heard] = {}
        connection.on_reconnect(self._reconnected)

    async def listen(self, run_id: RunId, heard: Heard) -> Callable[[], None]:
        def on_message(message: Message) -> None:
            heard(CommitHeard(sequence=message.number(subjects.SEQUENCE), may_end=codec.may_end(message.data)))

        subscription = await self._connection.subscribe(self._subjects.stored(run_id), on_message)
        self._listeners[subscription] = heard

        def stop() -> None:
            subscription.close()
            self._listeners.pop(subscription, None)

        return stop

    def _reconnected(self) -> None:
        for heard in list(self._listeners.values()):
            heard(CommitHeard())

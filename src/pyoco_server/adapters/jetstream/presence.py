"""What gateways tell each other about their presence, by plain publish; never stored."""

from __future__ import annotations

from collections.abc import Callable

from pyoco_server.adapters.jetstream.client import Message
from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.subjects import last_token, presence_subject
from pyoco_server.domain.ids import InstanceId
from pyoco_server.ports import PresenceNews

_NEWS = {news.value.encode(): news for news in PresenceNews}


class JetStreamPresence:
    """Presence. Installations that share a broker differ in `stored_prefix`, and so in these subjects."""

    def __init__(self, connection: Connection, *, stored_prefix: str) -> None:
        self._connection = connection
        self._prefix = stored_prefix

    def announce(self, gateway: InstanceId, news: PresenceNews) -> None:
        self._connection.send(presence_subject(self._prefix, gateway), news.value.encode())

    async def listen(self, notify: Callable[[InstanceId, PresenceNews], None]) -> None:
        def on_message(message: Message) -> None:
            # A newer version may announce more; what this one does not know it ignores.
            if (news := _NEWS.get(message.data)) is not None:
                notify(InstanceId(last_token(message.subject.decode("utf-8", "replace"))), news)

        await self._connection.subscribe(presence_subject(self._prefix, "*"), on_message)

"""Dead letters in a stream with limits: for diagnosis, so a lost one is no harm and nothing is retried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyoco_server.adapters.jetstream import subjects
from pyoco_server.adapters.jetstream.connect import REQUEST_SEC, Connection
from pyoco_server.adapters.jetstream.failures import acknowledged
from pyoco_server.adapters.jetstream.follower import read_present
from pyoco_server.adapters.jetstream.subjects import Subjects
from pyoco_server.adapters.payloads import decode_letter, encode_letter
from pyoco_server.application.ports import DeadLetter
from pyoco_server.config import NatsBackendConfig


class JetStreamDeadLetters:
    """DeadLetters. A letter without a tag goes under the default one."""

    def __init__(self, connection: Connection, config: NatsBackendConfig) -> None:
        self._connection = connection
        self._stream = config.dlq_stream
        self._default_tag = config.default_tag
        self._subjects = Subjects(config)

    async def publish(self, letter: DeadLetter) -> None:
        subject = self._subjects.dead_letter(letter.tag or self._default_tag)
        acknowledged(await self._connection.request(subject, encode_letter(letter)))

    async def recent(self, limit: int = 100) -> Sequence[DeadLetter]:
        state = await self._state()
        if not state["messages"]:
            return []
        after = max(state["last_seq"] - limit, state["first_seq"] - 1)
        found = await read_present(self._connection, self._stream, after=after)
        letters = [decode_letter(item.message.data) for item in reversed(found)]
        return [letter for letter in letters if letter is not None][:limit]

    async def count(self) -> int:
        messages: int = (await self._state())["messages"]
        return messages

    async def _state(self) -> dict[str, Any]:
        info = await self._connection.api(subjects.stream_info(self._stream), timeout_sec=REQUEST_SEC)
        state: dict[str, Any] = info["state"]
        return state

"""Dead letters in a stream with limits: for diagnosis, so a lost one is no harm and nothing is retried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyoco_server.adapters.jetstream import subjects
from pyoco_server.adapters.jetstream.connect import REQUEST_SEC, Connection
from pyoco_server.adapters.jetstream.failures import acknowledged
from pyoco_server.adapters.jetstream.follower import read_present
from pyoco_server.adapters.jetstream.reads import StreamReader
from pyoco_server.adapters.jetstream.subjects import Subjects
from pyoco_server.config import NatsBackendConfig
from pyoco_server.ports import DeadLetter, DeadLetterBatch, StoredDeadLetter
from pyoco_server.stores.job_codec import decode_letter, encode_letter

# How many letters one look goes back; they are read forwards, because the broker knows no other way.
STRETCH = 500


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

    async def stretch(self, *, before: int | None = None, tag: str | None = None) -> DeadLetterBatch:
        state = await self._state()
        first, last = state["first_seq"], state["last_seq"]
        upto = last if before is None else min(before - 1, last)
        if not state["messages"] or upto < first:
            return DeadLetterBatch(letters=(), before=None)
        begin = max(first, upto - STRETCH + 1)
        wanted = self._subjects.dead_letter(tag or ">")
        found = await read_present(
            self._connection, self._stream, after=begin - 1, upto=upto, filter_subject=wanted, most=STRETCH
        )
        filed = [(item.sequence, decode_letter(item.message.data)) for item in reversed(found)]
        letters = tuple(StoredDeadLetter(seq=seq, letter=letter) for seq, letter in filed if letter is not None)
        return DeadLetterBatch(letters=letters, before=begin if begin > first else None)

    async def get(self, seq: int) -> DeadLetter | None:
        message = await StreamReader(self._connection, self._stream, direct=False).at(seq)
        return None if message is None else decode_letter(message.data)

    async def count(self) -> int:
        messages: int = (await self._state())["messages"]
        return messages

    async def _state(self) -> dict[str, Any]:
        info = await self._connection.api(subjects.stream_info(self._stream), timeout_sec=REQUEST_SEC)
        state: dict[str, Any] = info["state"]
        return state

"""Dead letters: jobs that failed, kept for diagnosis. The truth about a run is in its event log."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import orjson

from pyoco_server.ports.broker import SubjectLog

# Messages per batch; they are read forwards, because the broker cannot read backwards.
BATCH = 500
# One may be as large as a message of the broker, and only parts of it are kept: so many are in memory at a time.
READ_AT_A_TIME = 50
_TEXTS = ("reason", "error", "run_id", "flow_name", "tag", "worker_id", "subject")
# A page has many dead letters, and a foreign producer may store texts as long as a message.
MAX_TEXT_CHARS = 10_000


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A failed job, for diagnosis (contract: DlqMessage)."""

    timestamp: float
    reason: str
    error: str | None = None
    run_id: str | None = None
    flow_name: str | None = None
    tag: str | None = None
    tags: tuple[str, ...] | None = None
    worker_id: str | None = None
    num_delivered: int | None = None
    subject: str | None = None


class StoredDeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    letter: DeadLetter


class DeadLetterBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters of a bounded range, newest first; older ones lie before `before` (None: there are none)."""

    letters: tuple[StoredDeadLetter, ...]
    before: int | None


class DeadLetters:
    """Dead letters by tag; one without a tag goes under the default tag."""

    def __init__(self, log: SubjectLog, *, default_tag: str = "default") -> None:
        self._log = log
        self._default_tag = default_tag

    async def publish(self, letter: DeadLetter) -> None:
        await self._log.publish(letter.tag or self._default_tag, encode_dead_letter(letter))

    async def recent(self, limit: int = 100) -> Sequence[DeadLetter]:
        state = await self._log.state()
        if not state.messages:
            return []
        after = max(state.last_sequence - limit, state.first_sequence - 1)
        return [stored.letter for stored in await self._newest_first(after, state.last_sequence)]

    async def stretch(self, *, before: int | None = None, tag: str | None = None) -> DeadLetterBatch:
        """The next batch of dead letters (of a tag) older than the sequence `before` (None: the newest)."""
        state = await self._log.state()
        first, last = state.first_sequence, state.last_sequence
        upto = last if before is None else min(before - 1, last)
        if not state.messages or upto < first:
            return DeadLetterBatch(letters=(), before=None)
        begin = max(first, upto - BATCH + 1)
        letters = await self._newest_first(begin - 1, upto, tag)
        return DeadLetterBatch(letters=tuple(letters), before=begin if begin > first else None)

    async def _newest_first(self, after: int, upto: int, tag: str | None = None) -> list[StoredDeadLetter]:
        letters: list[StoredDeadLetter] = []
        while upto > after:
            begin = max(after, upto - READ_AT_A_TIME)
            found = await self._log.read_range(after=begin, upto=upto, key=tag)
            decoded = [(message.sequence, decode_dead_letter(message.data)) for message in reversed(found)]
            letters += [StoredDeadLetter(seq=seq, letter=letter) for seq, letter in decoded if letter is not None]
            upto = begin
        return letters

    async def get(self, seq: int) -> DeadLetter | None:
        """One dead letter; None when there is none, or none any more."""
        message = await self._log.at(seq)
        return None if message is None else decode_dead_letter(message.data)

    async def count(self) -> int:
        """How many are kept; none is read for it."""
        return (await self._log.state()).messages


def encode_dead_letter(letter: DeadLetter) -> bytes:
    """Unknown fields are left out, except `error`, which the contract requires."""
    return orjson.dumps({"error": None} | msgspec.to_builtins(letter))


def decode_dead_letter(data: bytes) -> DeadLetter | None:
    """The stored dead letter without fields of a wrong type; None when it is none."""
    try:
        plain = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(plain, dict):
        return None
    texts = {name: value[:MAX_TEXT_CHARS] for name in _TEXTS if isinstance(value := plain.get(name), str)}
    timestamp, tags, delivered = (plain.get(name) for name in ("timestamp", "tags", "num_delivered"))
    if "reason" not in texts or not isinstance(timestamp, int | float) or isinstance(timestamp, bool):
        return None
    labels = tuple(tags) if isinstance(tags, list) and all(isinstance(tag, str) for tag in tags) else None
    count = delivered if isinstance(delivered, int) and not isinstance(delivered, bool) else None
    return DeadLetter(timestamp=timestamp, tags=labels, num_delivered=count, **texts)

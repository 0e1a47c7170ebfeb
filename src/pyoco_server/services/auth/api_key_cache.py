"""A gateway's copy of the API keys, which it never believes for long.

    every quarter of a second: does the store look as it did? ──no──▶ read all of it anew
                                        │ yes
                                        ▼
    fresh for one second, counted from the moment of asking ──then──▶ nobody is let in until the next look

A key that is fine in a fresh copy is let in by it alone: no broker is asked for it. Nobody is refused on its word: a
refusal waits for a look that began after the question, so that a key works from the moment it was made, and whether a
key id exists cannot be told from the time that a refusal takes. Looks never overlap and keep a distance, however many
wait for one. Where no look succeeds, nothing is known: neither that a key is good nor that it is bad.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from pyoco_server.domain.auth.api_keys import ApiKey, KeyId, Pepper, check, key_id_in
from pyoco_server.domain.auth.caller import Caller
from pyoco_server.errors import BrokerUnavailable, InvalidApiKey
from pyoco_server.ports import Clock, StreamState
from pyoco_server.stores import KeyStore

logger = logging.getLogger(__name__)

LOOK_EVERY_SEC = 0.25
# However many refusals are waiting, the broker is not asked more often than this.
GAP_SEC = 0.02
# The longest that a revoked key can be good for on a gateway that has lost its broker.
TRUST_SEC = 1.0
# How long a caller waits for a look: a reconnect takes less, and an answer is owed within two seconds.
PATIENCE_SEC = 1.0


class ApiKeyCache:
    """The copy. `run` is its whole life; `caller_of` may be asked at any time, on the same event loop."""

    def __init__(self, store: KeyStore, clock: Clock, pepper: Pepper, *, patience_sec: float = PATIENCE_SEC) -> None:
        self._store = store
        self._clock = clock
        self._pepper = pepper
        self._patience_sec = patience_sec
        self._records: Mapping[KeyId, ApiKey] = {}
        # Keys that were shown and are good, at most one for each record: the next time they cost a look-up.
        self._good: dict[str, ApiKey] = {}
        self._position: StreamState | None = None
        self._fresh_until = float("-inf")
        self._begun = 0
        self._seen = 0
        self._wanted = asyncio.Event()
        self._moved = asyncio.Event()
        self._changed = asyncio.Event()
        self._failing = False

    async def caller_of(self, text: str) -> Caller:
        """Whose key this is; `InvalidApiKey` when nobody's, `NatsUnavailable` when that cannot be known now."""
        is_fresh = self._clock.monotonic() < self._fresh_until
        if is_fresh and (record := self._good.get(text)) is not None and record.is_active(self._clock.now()):
            return record.caller
        key_id = key_id_in(text)
        if key_id is None:
            raise InvalidApiKey(reason="not of the form of an API key")
        if is_fresh:
            try:
                return self._check(text, key_id)
            except InvalidApiKey as refused:
                logger.debug("a key is looked for again", extra={"key_id": key_id, "reason": refused.facts["reason"]})
        await self._next_look()
        return self._check(text, key_id)

    async def check_active(self, key_id: str) -> None:
        """Return if that key is good, for somebody who came with it before; else as `caller_of`."""
        if self._clock.monotonic() >= self._fresh_until or not self._is_active(key_id):
            await self._next_look()
            if not self._is_active(key_id):
                raise InvalidApiKey("the API key behind this was revoked or has expired", key_id=key_id, reason="ended")

    async def news(self, timeout_sec: float) -> None:
        """Wait until the keys have changed, or for so long."""
        try:
            async with asyncio.timeout(timeout_sec):
                await self._changed.wait()
        except TimeoutError:
            return

    async def run(self) -> None:
        """Look again and again until cancelled."""
        while True:
            self._wanted.clear()
            try:
                await self._look()
            except BrokerUnavailable as error:
                if not self._failing:
                    logger.warning("API keys cannot be checked", extra={"reason": error.detail})
                self._failing = True
            except Exception:
                # One of the outer loops: nobody is let in on a copy that cannot be read, but the gateway lives on.
                if not self._failing:
                    logger.exception("API keys cannot be read")
                self._failing = True
            await asyncio.sleep(GAP_SEC)
            await self._until_wanted()

    def _is_active(self, key_id: str) -> bool:
        record = self._records.get(KeyId(key_id))
        return record is not None and record.is_active(self._clock.now())

    def _check(self, text: str, key_id: KeyId) -> Caller:
        record = self._records.get(key_id)
        caller = check(text, record, self._pepper, self._clock.now())
        if record is not None:
            self._good[text] = record
        return caller

    async def _look(self) -> None:
        self._begun += 1
        number, asked_at = self._begun, self._clock.monotonic()
        position = await self._store.position()
        if position != self._position:
            # What is read is at least as new as the position; were it newer, the next look reads it once more.
            self._records = {record.key_id: record for record in await self._store.all()}
            self._good.clear()
            self._position = position
            self._changed.set()
            self._changed = asyncio.Event()
            logger.info("API keys read", extra={"keys": len(self._records)})
        if self._failing:
            logger.info("API keys can be checked again")
        self._failing = False
        self._fresh_until = asked_at + TRUST_SEC
        self._seen = number
        self._moved.set()
        self._moved = asyncio.Event()

    async def _next_look(self) -> None:
        """Wait for a look that begins after now."""
        begun = self._begun
        self._wanted.set()
        try:
            async with asyncio.timeout(self._patience_sec):
                while self._seen <= begun:
                    await self._moved.wait()
        except TimeoutError as error:
            raise BrokerUnavailable("the API key cannot be checked while nats is away") from error

    async def _until_wanted(self) -> None:
        try:
            async with asyncio.timeout(LOOK_EVERY_SEC):
                await self._wanted.wait()
        except TimeoutError:
            return

"""A gateway's cache of the API keys, valid for at most a second.

    every 250 ms: has the bucket changed? ──yes──▶ read all keys
                          │ no
                          ▼
    fresh for one second after the refresh began ──then──▶ requests wait for the next refresh

A key that is active in a fresh cache is admitted without a request to the broker. A rejection waits for a refresh that
began after the request: a key works as soon as it was created, and the time of a rejection does not reveal whether a
key id exists. Refreshes never overlap and keep a distance. While none succeeds, keys are neither admitted nor rejected.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from pyoco_server.domain.auth.api_keys import ApiKey, KeyId, Pepper, check, key_id_in
from pyoco_server.domain.auth.caller import Caller
from pyoco_server.errors import BrokerUnavailable, InvalidApiKey
from pyoco_server.ports import Clock, StreamState
from pyoco_server.services.loops import wait_event
from pyoco_server.stores import KeyStore

logger = logging.getLogger(__name__)

LOOK_EVERY_SEC = 0.25
# The shortest time between two refreshes, however many rejections wait for one.
GAP_SEC = 0.02
# How long a revoked key is admitted at most on a gateway that has lost its broker.
TRUST_SEC = 1.0
# How long a request waits for a refresh: a reconnect takes less, and a response is due within two seconds.
PATIENCE_SEC = 1.0


class ApiKeyCache:
    """`run` refreshes the cache; the other methods may be called at any time, on the same event loop."""

    def __init__(self, store: KeyStore, clock: Clock, pepper: Pepper, *, patience_sec: float = PATIENCE_SEC) -> None:
        self._store = store
        self._clock = clock
        self._pepper = pepper
        self._patience_sec = patience_sec
        self._records: Mapping[KeyId, ApiKey] = {}
        # Verified keys, at most one for each record: the next request with one is a dictionary lookup.
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
        """The caller of this key, or `InvalidApiKey`; `BrokerUnavailable` when it cannot be checked now."""
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
                logger.debug("API key checked again", extra={"key_id": key_id, "reason": refused.facts["reason"]})
        await self._next_look()
        return self._check(text, key_id)

    async def check_active(self, key_id: str) -> None:
        """Check the key of a caller that was admitted before; raises as `caller_of`."""
        if self._clock.monotonic() >= self._fresh_until or not self._is_active(key_id):
            await self._next_look()
            if not self._is_active(key_id):
                raise InvalidApiKey("the API key behind this was revoked or has expired", key_id=key_id, reason="ended")

    async def news(self, timeout_sec: float) -> None:
        """Wait until the keys have changed, at most for this time."""
        await wait_event(self._changed, timeout_sec)

    async def run(self) -> None:
        """Refresh until cancelled."""
        while True:
            self._wanted.clear()
            try:
                await self._look()
            except BrokerUnavailable as error:
                if not self._failing:
                    logger.warning("API keys cannot be checked", extra={"reason": error.detail})
                self._failing = True
            except Exception:
                # An outermost loop: unreadable keys admit no request, but the gateway continues.
                if not self._failing:
                    logger.exception("API keys cannot be read")
                self._failing = True
            await asyncio.sleep(GAP_SEC)
            await wait_event(self._wanted, LOOK_EVERY_SEC)

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
            # The keys are at least as new as the position; if they are newer, the next refresh reads them again.
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
        """Wait for a refresh that begins after now."""
        begun = self._begun
        self._wanted.set()
        try:
            async with asyncio.timeout(self._patience_sec):
                while self._seen <= begun:
                    await self._moved.wait()
        except TimeoutError as error:
            raise BrokerUnavailable("the API key cannot be checked while nats is away") from error

"""Whether this gateway can accept runs: connected, its index caught up, and a write was acknowledged just now.

A full disk lets a broker answer and read, so only a write tells. However many ask, there is one write per second at
most, and none while nobody asks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from pyoco_server.errors import BrokerUnavailable, IndexUnavailable, PyocoError, WritesRejected
from pyoco_server.services.context import Stores
from pyoco_server.services.projections.indexer import Indexer

logger = logging.getLogger(__name__)

WRITE_EVERY_SEC = 1.0
# A probe waits a few seconds at most.
WRITE_TIMEOUT_SEC = 2.0


class ReadinessService:
    """Answers probes of one gateway."""

    def __init__(self, stores: Stores, indexer: Indexer) -> None:
        self._stores = stores
        self._indexer = indexer
        self._lock = asyncio.Lock()
        self._written_at = float("-inf")
        self._write_fault: PyocoError | None = None

    async def faults(self) -> Sequence[PyocoError]:
        """Why no run can be accepted now; empty when it can."""
        if not self._stores.broker.connected:
            return [BrokerUnavailable("the gateway is not connected to NATS")]
        found: list[PyocoError] = []
        if not self._indexer.is_caught_up:
            found.append(IndexUnavailable())
        if (fault := await self._write()) is not None:
            found.append(fault)
        return found

    async def _write(self) -> PyocoError | None:
        """The fault of the latest write, which is at most a second old."""
        async with self._lock:
            if self._stores.clock.monotonic() - self._written_at >= WRITE_EVERY_SEC:
                before, self._write_fault = self._write_fault, await self._try_write()
                self._written_at = self._stores.clock.monotonic()
                if (before is None) is not (self._write_fault is None):
                    detail = None if self._write_fault is None else self._write_fault.detail
                    logger.warning("writes fail" if detail else "writes work again", extra={"detail": detail})
            return self._write_fault

    async def _try_write(self) -> PyocoError | None:
        try:
            async with asyncio.timeout(WRITE_TIMEOUT_SEC):
                await self._stores.tickets.probe(self._stores.ids.commit_id())
        except TimeoutError:
            return WritesRejected(f"a write was not acknowledged within {WRITE_TIMEOUT_SEC:g} s")
        except PyocoError as error:
            return WritesRejected(error.detail)
        return None

"""Watches the sources of the flows on disk: loads a saved version, or reports that it is not served.

Runs beside the runs, and spends a few percent of one processor at most: a folder that takes long to read is read less
often.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from pyoco_server.errors import InvalidUsage
from pyoco_server.worker.backoff import Backoff
from pyoco_server.worker.runner_pool.code import Code, CodeReader

RELOAD_CHECK_SEC = 0.25
PINNED_CHECK_SEC = 5.0
PAUSES_PER_READ = 20
# A tool that writes many files is given this long between two of them, and not for ever.
SETTLE_SEC = 0.05
MAX_SETTLE_READS = 20
FIRST_RETRY_SEC, LONGEST_RETRY_SEC = 1.0, 30.0

logger = logging.getLogger(__name__)


class CodeWatch:
    """`serving` is the version that new runs get. `reload` makes them get another; None: the version is pinned."""

    def __init__(
        self, reader: CodeReader, serving: Callable[[], str | None], reload: Callable[[Code], Awaitable[None]] | None
    ) -> None:
        self.error: str | None = None
        self._reader = reader
        self._serving = serving
        self._reload = reload
        self._on_disk: str | None = serving()
        self._failed_version: str | None = None
        self._retry_at = 0.0
        self._backoff = Backoff(FIRST_RETRY_SEC, LONGEST_RETRY_SEC)
        self._read_sec = 0.0

    @property
    def is_changed(self) -> bool:
        """Whether the files on disk are another version than the one that is served."""
        return self._on_disk != self._serving()

    async def run(self) -> None:
        every_sec = PINNED_CHECK_SEC if self._reload is None else RELOAD_CHECK_SEC
        while True:
            await asyncio.sleep(max(every_sec, PAUSES_PER_READ * self._read_sec))
            try:
                await self.check()
            except Exception:
                # The outermost loop: the worker continues with the version that it has.
                logger.exception("watching the code failed")

    async def check(self) -> None:
        """Compares the sources on disk with those that are served."""
        seen = await self._read()
        was_changed, self._on_disk = self.is_changed, seen.version
        if not self.is_changed:
            self.error = self._failed_version = None
        elif self._reload is not None:
            await self._load(await self._settled(seen))
        elif not was_changed:
            facts = {"code_version": self._serving(), "version_on_disk": seen.version}
            logger.warning("files of the flows have changed; restart the worker to serve them", extra=facts)

    async def _read(self) -> Code:
        began = time.monotonic()
        code = await asyncio.to_thread(self._reader.read)
        self._read_sec = time.monotonic() - began
        return code

    async def _settled(self, seen: Code) -> Code:
        for _ in range(MAX_SETTLE_READS):
            await asyncio.sleep(SETTLE_SEC)
            before, seen = seen, await self._read()
            self._on_disk = seen.version
            if seen.version == before.version:
                break
        return seen

    async def _load(self, code: Code) -> None:
        assert self._reload is not None  # noqa: S101 - the caller has checked
        before = self._serving()
        if code.version == before or (code.version == self._failed_version and time.monotonic() < self._retry_at):
            return
        if code.version != self._failed_version:
            self._backoff.reset()
        facts = {"code_version": code.version, "previous_version": before}
        try:
            await self._reload(code)
        except InvalidUsage as error:
            self.error, self._failed_version = error.detail, code.version
            self._retry_at = time.monotonic() + self._backoff.next_sec()
            logger.warning("code not reloaded; the previous version is served", extra=facts | {"reason": error.detail})
        else:
            self.error = self._failed_version = None
            logger.info("code reloaded", extra=facts)

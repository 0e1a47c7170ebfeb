"""The folder in which the workers of one machine keep wheels, environments and the manifest, and its lock."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path

import orjson

from pyoco_server.domain.wheels.sync_state import NOTHING_INSTALLED, Manifest, manifest_from_plain, manifest_to_plain
from pyoco_server.worker.environments import write_whole

LOCK = ".lock"
MANIFEST = ".installed.json"
ASK_AGAIN_SEC = 0.1

logger = logging.getLogger(__name__)


class FolderBusy(OSError):
    """the sync folder is in use"""


class SyncFolder:
    """One sync folder, seen by one worker."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self.environments = folder / "envs"
        self.files = folder / "files"
        self._manifest = folder / MANIFEST

    @contextlib.asynccontextmanager
    async def locked(self, patience_sec: float) -> AsyncIterator[None]:
        """Nobody else changes the folder within the block; `FolderBusy` when another worker is at it for too long.

        The kernel gives up the lock of a worker that was killed.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            await _wait_for(descriptor, patience_sec)
            yield
        finally:
            os.close(descriptor)

    def manifest(self) -> Manifest:
        """What is installed here; one that is damaged counts as empty, and is written anew by the next sync."""
        try:
            return manifest_from_plain(orjson.loads(self._manifest.read_bytes()))
        except FileNotFoundError:
            return NOTHING_INSTALLED
        except (OSError, ValueError) as error:
            logger.warning(
                "the manifest of installed wheels is damaged", extra={"path": str(self._manifest), "reason": str(error)}
            )
            return NOTHING_INSTALLED

    def write(self, manifest: Manifest) -> None:
        plain = manifest_to_plain(manifest)
        write_whole(self._manifest, orjson.dumps(plain, option=orjson.OPT_INDENT_2))


async def _wait_for(descriptor: int, patience_sec: float) -> None:
    try:
        async with asyncio.timeout(patience_sec):
            while not _lock(descriptor):  # noqa: ASYNC110 - a lock of another process tells nobody that it is free
                await asyncio.sleep(ASK_AGAIN_SEC)
    except TimeoutError:
        raise FolderBusy("another worker has been at the sync folder for too long") from None


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

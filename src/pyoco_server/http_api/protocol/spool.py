"""One file of a form, written to a disk while it arrives: no more of it than a moment's worth is ever in memory."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import tempfile
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import BinaryIO

from pyoco_server.errors import UploadNotKept

# A thread for each piece of the network would cost more than the writing.
WRITE_BYTES = 1024 * 1024


class Spool:
    """The part called `part`. `named` is told the file's name before its bytes are taken, and may refuse it.

    The file has no name of its own: however this process ends, nothing stays on the disk.
    """

    def __init__(self, part: str, named: Callable[[str], Awaitable[None]]) -> None:
        self.part = part
        self.file: BinaryIO | None = None
        self.size_bytes = 0
        self._named = named
        self._new_name: str | None = None
        self._waiting = bytearray()
        self._sha256 = hashlib.sha256()

    async def __aenter__(self) -> Spool:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.file is not None:
            with contextlib.suppress(OSError):  # a full disk says so again; nobody wants these bytes any more
                await asyncio.to_thread(self.file.close)

    def begin(self, file_name: str) -> None:
        self._new_name = file_name

    def take(self, data: bytes) -> None:
        self._waiting += data

    async def flush(self, *, everything: bool = False) -> None:
        """Do what has come up: ask about the name, write what is waiting."""
        if self._new_name is not None:
            name, self._new_name = self._new_name, None
            await self._named(name)
        if len(self._waiting) >= WRITE_BYTES or (everything and self._waiting):
            data, self._waiting = self._waiting, bytearray()
            await asyncio.to_thread(self._write, data)

    @property
    def sha256(self) -> bytes:
        """Of what was written; of all that came once it is `whole`."""
        return self._sha256.digest()

    async def whole(self) -> tuple[BinaryIO, int]:
        """All that came, to be read from its start, and how much it is."""
        await self.flush(everything=True)
        if self.file is None:
            await asyncio.to_thread(self._write, b"")
        assert self.file is not None  # noqa: S101 - `_write` has made it
        await asyncio.to_thread(self.file.seek, 0)
        return self.file, self.size_bytes

    def _write(self, data: bytes | bytearray) -> None:
        try:
            if self.file is None:
                self.file = tempfile.TemporaryFile(prefix="pyoco-upload-")  # noqa: SIM115 - closed in __aexit__
            self.file.write(data)
            self.file.flush()  # here, where a full disk is told in words
        except OSError as error:
            raise UploadNotKept(f"the upload cannot be kept on a disk (TMPDIR names it): {error.strerror}") from error
        self._sha256.update(data)
        self.size_bytes += len(data)

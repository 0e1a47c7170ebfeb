"""Local files of the SDK: wheels to upload, wheels to download (complete or not at all), and logs that are resumed."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

WheelData = bytes | bytearray | memoryview | str | os.PathLike[str] | IO[bytes]
FileTarget = str | os.PathLike[str] | IO[bytes]
# Bytes transferred so far, and the total (None if unknown).
Progress = Callable[[int, int | None], None]

PIECE_BYTES = 1024 * 1024


@contextmanager
def open_wheel(data: WheelData) -> Iterator[IO[bytes]]:
    """A file that can be read from its start for every attempt. A file passed in stays open."""
    if isinstance(data, bytes | bytearray | memoryview):
        yield io.BytesIO(data)
    elif isinstance(data, str | os.PathLike):
        with Path(data).open("rb") as file:
            yield file
    elif data.seekable():
        yield data
    else:
        raise ValueError("the wheel must be bytes, a path, or a file that can be read again (seekable)")


class _CountingFile:
    """Reports how much of a file was read; a seek to the start begins again."""

    def __init__(self, file: IO[bytes], progress: Progress) -> None:
        self._file = file
        self._progress = progress
        self._total = file.seek(0, os.SEEK_END)
        file.seek(0)

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._progress(self._file.tell(), self._total)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


def with_progress(file: IO[bytes], progress: Progress | None) -> Any:
    return file if progress is None else _CountingFile(file, progress)


def sha256_hex(file: IO[bytes]) -> str:
    file.seek(0)
    digest = hashlib.sha256()
    while piece := file.read(PIECE_BYTES):
        digest.update(piece)
    return digest.hexdigest()


@contextmanager
def replacing(target: FileTarget, name: str) -> Iterator[IO[bytes]]:
    """The file to write a download to. A path (or `name` in a folder) is replaced only when the block succeeds."""
    if not isinstance(target, str | os.PathLike):
        yield target
        return
    path = Path(target)
    if path.is_dir():
        path = path / name
    part = path.with_name(f".{path.name}.{os.urandom(4).hex()}.part")
    # Created by `open`, so that the file gets the mode of the process's umask.
    with part.open("xb") as file:
        try:
            yield file
            file.close()
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


class LogFile:
    """A local copy of a log: how many bytes it has, and how many of them are new."""

    def __init__(self, file: IO[bytes], *, resume: bool) -> None:
        self._file = file
        self._seekable = file.seekable()
        self._holds_only_the_log = resume or not self._seekable
        self.size = file.seek(0, os.SEEK_END) if self._seekable and resume else 0
        self.written = 0

    def write(self, position: int, piece: bytes) -> None:
        """Write a piece at its position. A file that cannot seek gets only the bytes that it does not have yet."""
        if not self._seekable:
            piece = piece[self.size - position :]
        elif position != self.size or not self._holds_only_the_log:
            self._cut_to(position)
        self._file.write(piece)
        self.size += len(piece)
        self.written += len(piece)

    def finish(self) -> None:
        """The log is complete, even if it is empty."""
        if not self._holds_only_the_log:
            self._cut_to(self.size)
        self._file.flush()

    def _cut_to(self, size: int) -> None:
        self._file.seek(size)
        self._file.truncate()
        self.size, self._holds_only_the_log = size, True


@contextmanager
def open_log(target: FileTarget, *, resume: bool) -> Iterator[LogFile]:
    """The file to write a log to. A file passed in stays open; a new file that got no bytes is removed on an error."""
    if not isinstance(target, str | os.PathLike):
        yield LogFile(target, resume=resume)
        return
    path = Path(target)
    is_new = not path.exists()
    with path.open("x+b" if is_new else "r+b") as file:
        log = LogFile(file, resume=resume)
        try:
            yield log
        except BaseException:
            if is_new and not log.size:
                path.unlink(missing_ok=True)
            raise

"""Wheels on this machine: what is uploaded, read a piece at a time, and where a download goes, all of it or nothing."""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

WheelData = bytes | bytearray | memoryview | str | os.PathLike[str] | IO[bytes]
WheelTarget = str | os.PathLike[str] | IO[bytes]
# What has been sent or received, and how much it is in all (None where nobody says).
Progress = Callable[[int, int | None], None]

PIECE_BYTES = 1024 * 1024


@contextmanager
def opened(data: WheelData) -> Iterator[IO[bytes]]:
    """A file to be read from its start, as often as there are tries; one that was open before stays open."""
    if isinstance(data, bytes | bytearray | memoryview):
        yield io.BytesIO(data)
    elif isinstance(data, str | os.PathLike):
        with Path(data).open("rb") as file:
            yield file
    elif data.seekable():
        yield data
    else:
        raise ValueError("the wheel must be bytes, a path, or a file that can be read again (seekable)")


class Counted:
    """A file that tells how much of it was read. Read from its start again, it begins anew."""

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


def sha256_hex(file: IO[bytes]) -> str:
    """Of the whole file."""
    file.seek(0)
    digest = hashlib.sha256()
    while piece := file.read(PIECE_BYTES):
        digest.update(piece)
    return digest.hexdigest()


@contextmanager
def receiving(target: WheelTarget, name: str) -> Iterator[IO[bytes]]:
    """Where the bytes go. A path (or a folder, in which the wheel gets its own name) holds the whole file at the end,
    or what it held before."""
    if not isinstance(target, str | os.PathLike):
        yield target
        return
    path = Path(target)
    if path.is_dir():
        path = path / name
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.chmod(part, 0o666 & ~_umask())
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise


def _umask() -> int:
    # There is no way to look at it but to set it.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def as_part(file: IO[bytes], progress: Progress | None) -> Any:
    """The file as the HTTP library reads it."""
    return file if progress is None else Counted(file, progress)

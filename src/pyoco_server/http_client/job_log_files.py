"""Where a job's log goes on this machine: a path or an open file, which holds nothing of it, or its beginning."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

LogTarget = str | os.PathLike[str] | IO[bytes]


class LogFile:
    """The bytes of a log, from its first one on: how many are there, and how many of them are new."""

    def __init__(self, file: IO[bytes], *, resume: bool) -> None:
        self._file = file
        self._seekable = file.seekable()
        self._holds_only_the_log = resume or not self._seekable
        self.size = file.seek(0, os.SEEK_END) if self._seekable and resume else 0
        self.written = 0

    def write(self, place: int, piece: bytes) -> None:
        """Put a piece where it belongs. Where nothing can be taken back, what was written before is left out of it."""
        if not self._seekable:
            piece = piece[self.size - place :]
        elif place != self.size or not self._holds_only_the_log:
            self._cut_to(place)
        self._file.write(piece)
        self.size += len(piece)
        self.written += len(piece)

    def finish(self) -> None:
        """All has come, be it nothing."""
        if not self._holds_only_the_log:
            self._cut_to(self.size)
        self._file.flush()

    def _cut_to(self, size: int) -> None:
        self._file.seek(size)
        self._file.truncate()
        self.size, self._holds_only_the_log = size, True


@contextmanager
def log_file(target: LogTarget, *, resume: bool) -> Iterator[LogFile]:
    """The file to write to: one that was open before stays open, and one for which nothing came is not made."""
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

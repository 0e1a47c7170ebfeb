"""A program on a pseudo-terminal: its output and its exit code."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from support.programs import PATIENCE_SEC, clean_environment


class Terminal:
    """`python …` with a terminal of 100 by 30 as its standard output and error, and on request as its input."""

    def __init__(
        self, *arguments: str, cwd: Path, env: Mapping[str, str] | None = None, has_keyboard: bool = False
    ) -> None:
        self._screen, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=cwd,
            env=clean_environment() | {"TERM": "xterm-256color"} | dict(env or {}),
            stdin=theirs if has_keyboard else subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._drawn = b""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._screen)

    def wait_for(self, text: str) -> None:
        """Waits until the terminal shows this text."""
        while text.encode() not in self._drawn:
            if not self._read():
                raise AssertionError(f"{text!r} is not among {self._drawn.decode(errors='replace')!r}")

    def enter(self, line: str) -> None:
        """Types a line."""
        os.write(self._screen, f"{line}\n".encode())

    def interrupt(self) -> None:
        """Sends Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    def end(self) -> tuple[int, str]:
        """The exit code and all output."""
        while self._read():
            continue
        return self._process.wait(PATIENCE_SEC), self._drawn.decode()

    def _read(self) -> bool:
        if not select.select([self._screen], [], [], PATIENCE_SEC)[0]:
            raise AssertionError(f"nothing more comes after {self._drawn.decode(errors='replace')!r}")
        try:
            more = os.read(self._screen, 65536)
        except OSError:
            return False  # Linux: the terminal was closed
        self._drawn += more
        return bool(more)

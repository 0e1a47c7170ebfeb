"""A real nats-server that a test may kill, pause and restart on the same port and store."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path
from types import TracebackType

from pyoco_server.adapters.embedded_nats.server import find_binary


class Broker:
    """A nats-server process of its own, without authentication unless `more` configures it.

    It takes a free loopback port at its first start and keeps that one. `port` and `url` are known from then on.
    """

    def __init__(
        self,
        folder: Path,
        *,
        sync_always: bool = False,
        max_payload: int = 1_048_576,
        store: str = "",
        jetstream: bool = True,
        more: str = "",
    ) -> None:
        self.port = -1  # nats-server chooses
        self._config = folder / "nats.conf"
        sync = "sync_interval: always" if sync_always else "sync_interval: 120s"
        streams = f'jetstream {{\n  store_dir: "{folder / "store"}"\n  {sync}\n  {store}\n}}\n' if jetstream else ""
        self._config.write_text(f"max_payload: {max_payload}\n{streams}{more}\n")
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

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        arguments = ["-c", str(self._config), "-a", "127.0.0.1", "-p", str(self.port)]
        self._process = subprocess.Popen(
            [str(find_binary()), *arguments], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        assert self._process.stderr is not None
        output = []
        for line in self._process.stderr:
            output.append(line)
            if listening := re.search(r"Listening for client connections on 127\.0\.0\.1:(\d+)", line):
                self.port = int(listening[1])
            if "Server is ready" in line:
                return
        raise AssertionError("nats-server did not start:\n" + "".join(output))

    def kill(self) -> None:
        """Sends SIGKILL."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        assert self._process.stderr is not None
        self._process.stderr.close()
        self._process = None

    def pause(self) -> None:
        """The process keeps its connections open, but does nothing."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)  # on a busy machine it would still respond for a moment

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

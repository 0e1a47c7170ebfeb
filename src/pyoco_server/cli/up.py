"""NATS, gateway and worker on one machine: started in this order, watched, and stopped in reverse order.

NATS and the worker are processes that die with this one. They have their own sessions, so that a Ctrl-C reaches only
this process, which then stops the others in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import uvicorn

from pyoco_server.adapters.embedded_nats.data_folder import DataFolder
from pyoco_server.adapters.embedded_nats.parent_death import tied_command
from pyoco_server.adapters.embedded_nats.server import EmbeddedNats
from pyoco_server.adapters.system import SystemClock
from pyoco_server.cli.output import print_stderr
from pyoco_server.cli.process import StopRequest
from pyoco_server.cli.up_banner import Banner
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import BrokerUnavailable, InvalidUsage
from pyoco_server.http_api import create_app
from pyoco_server.http_api.api.dashboard import Dashboard
from pyoco_server.http_api.protocol.connection_limits import SOCKETS, BoundedHttp
from pyoco_server.services.container import Services

logger = logging.getLogger(__name__)

OPEN_REQUESTS_PATIENCE_SEC = 3
# A worker that exits this early was started with invalid options.
WORKER_STARTUP_SEC = 5.0
WORKER_RESTART_SEC = 1.0
WORKER_POLL_SEC = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Up:
    config: NatsBackendConfig
    host: str
    port: int
    embedded: bool
    nats_url_given: bool  # on the command line
    nats_listen_host: str
    nats_client_port: int
    nats_http_port: int | None
    worker_arguments: Sequence[str] | None  # None: no worker

    async def run(self, stop: StopRequest) -> None:
        with _reserved_port(self.host, self.port) as listener:
            async with self._broker() as config:
                await self._serve(config, listener, stop)

    @contextlib.asynccontextmanager
    async def _broker(self) -> AsyncIterator[NatsBackendConfig]:
        if not self.embedded:
            yield self.config
            return
        with DataFolder.open(self.config.data_folder) as folder:
            nats = EmbeddedNats(
                folder,
                listen_host=self.nats_listen_host,
                client_port=self.nats_client_port,
                http_port=self.nats_http_port,
                sync="always" if self.config.nats_sync == "always" else "interval",
            )
            await nats.start()
            watching = asyncio.create_task(nats.watch())
            try:
                yield replace(
                    self.config, nats_url=nats.url, nats_token=nats.token, data_dir=str(self.config.data_folder)
                )
            finally:
                watching.cancel()
                await asyncio.wait([watching])
                await nats.stop()

    async def _serve(self, config: NatsBackendConfig, listener: socket.socket, stop: StopRequest) -> None:
        server = _Gateway(config)
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(server.serve(sockets=[listener]))
            working = group.create_task(self._keep_worker(stop)) if self.worker_arguments is not None else None
            announcing = group.create_task(self._announce(server, listener))
            await _wait_for_first(serving, working, asyncio.ensure_future(stop.asked.wait()))
            announcing.cancel()
            stop.asked.set()
            if working is not None:
                await asyncio.wait([working])
            server.should_exit = True
            if not server.ready.is_set():
                serving.cancel()  # it is still connecting to its broker and does not check should_exit
        if working is not None and (failure := working.result()) is not None:
            raise failure

    async def _announce(self, server: _Gateway, listener: socket.socket) -> None:
        await server.ready.wait()
        bound = listener.getsockname()[:2]
        banner = Banner(
            config=self.config,
            host=self.host,
            bound=bound,
            embedded=self.embedded,
            url_given=self.nats_url_given,
            has_dashboard=server.has_dashboard,
        )
        for line in banner.started():
            print_stderr(line)
        if self.worker_arguments is None:
            lines = banner.without_worker()
        else:
            flow_names = await server.wait_for_worker()
            lines = banner.with_worker(flow_names, has_resolver="--flow-resolver" in self.worker_arguments)
        for line in lines:
            print_stderr(line)

    # --- worker ----------------------------------------------------------------------------------------------------

    async def _keep_worker(self, stop: StopRequest) -> InvalidUsage | None:
        """Keep a worker running until the stop; returns the error if it cannot start."""
        clock = asyncio.get_running_loop().time
        while not stop.asked.is_set():
            since = clock()
            process = await self._start_worker()
            exited = asyncio.ensure_future(process.wait())
            await _wait_for_first(exited, asyncio.ensure_future(stop.asked.wait()))
            if stop.asked.is_set():
                await _stop_process(process, stop)
                return None
            if exited.result() == 1 and clock() - since < WORKER_STARTUP_SEC:
                return InvalidUsage("the worker could not start; its error is above")
            logger.warning("worker exited, restarting it", extra={"exit_code": exited.result()})
            await asyncio.sleep(WORKER_RESTART_SEC)
        return None

    async def _start_worker(self) -> asyncio.subprocess.Process:
        folder = str(self.config.data_folder)
        where = ["--data-dir", folder] if self.embedded else []
        command = [sys.executable, "-m", "pyoco_server.cli.worker", *where, *(self.worker_arguments or ())]
        # Not as an argument: it may contain a password, and command lines are public. Empty instead of absent: a dotenv
        # file could name another broker than the embedded one.
        environment = os.environ | {
            "PYOCO_NATS_URL": "" if self.embedded else self.config.nats_url,
            "PYOCO_DATA_DIR": folder,  # for what runs save
        }
        return await asyncio.create_subprocess_exec(
            *tied_command(*command), stdin=asyncio.subprocess.DEVNULL, env=environment, start_new_session=True
        )


class _Gateway(uvicorn.Server):
    """Uvicorn that leaves signals alone and sets `ready` once it serves."""

    def __init__(self, config: NatsBackendConfig) -> None:
        self._app = create_app(config)
        self._since = SystemClock().now()
        super().__init__(
            uvicorn.Config(
                self._app,
                http=BoundedHttp,
                **SOCKETS,
                log_config=None,
                access_log=False,
                proxy_headers=False,  # ours reads them
                lifespan="on",
                timeout_graceful_shutdown=OPEN_REQUESTS_PATIENCE_SEC,
            )
        )
        self.ready = asyncio.Event()

    @property
    def has_dashboard(self) -> bool:
        dashboard: Dashboard = self._app.state.dashboard
        return dashboard.page is not None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except SystemExit:
            if (refusal := getattr(self._app.state, "refusal", None)) is not None:
                raise refusal from None
            raise
        except OSError as error:
            # Another process that started at the same time took the port.
            host, port = sockets[0].getsockname()[:2] if sockets else ("", 0)
            raise _port_unavailable(host, port, error) from error
        if self.started:
            self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Uvicorn waits for open responses first, and a stream ends with its run only.
        services: Services = self._app.state.services
        services.end_streams()
        await super().shutdown(sockets)

    async def wait_for_worker(self) -> list[str]:
        """Return once a worker can take runs: only then the suggested commands work. The names of its flows."""
        services: Services = self._app.state.services
        while True:
            with contextlib.suppress(BrokerUnavailable):
                records = await services.stores.registry.all()
                # Records of earlier workers may exist.
                ours = [one for one in records if one.stopped_at is None and one.last_seen_at >= self._since]
                if ours:
                    return [flow.name for record in ours for flow in record.flows]
            await asyncio.sleep(WORKER_POLL_SEC)


@contextlib.contextmanager
def _reserved_port(host: str, port: int) -> Iterator[socket.socket]:
    """Bind the port before anything else starts: if it is in use, nothing needs to be undone.

    It does not listen yet: while the gateway connects to its broker, connections are refused instead of left waiting.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With an explicit protocol asyncio sets TCP_NODELAY; without it a response waits for 40 ms.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise _port_unavailable(host, port, error) from error
        yield listener


def _port_unavailable(host: str, port: int, error: OSError) -> InvalidUsage:
    detail = f"cannot listen on {host}:{port}: {error.strerror}; choose another --port or --host"
    return InvalidUsage(detail, example="pyoco-server up --port 0")


async def _wait_for_first(*awaited: asyncio.Future[Any] | None) -> None:
    await asyncio.wait([one for one in awaited if one is not None], return_when=asyncio.FIRST_COMPLETED)


async def _stop_process(process: asyncio.subprocess.Process, stop: StopRequest) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    exited = asyncio.ensure_future(process.wait())
    await _wait_for_first(exited, asyncio.ensure_future(stop.at_once.wait()))
    if not exited.done():
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    await exited

"""`PyocoNatsWorker`: a worker as a library, for programs with their own resolver and event loop.

The flow runs in a thread of the caller's process. Jobs are pulled only while `run_once` waits; the lease of one that
arrives later is renewed until the next call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Self

from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.ids import WorkerId, parse_tag, parse_worker_id
from pyoco_server.errors import InvalidJob, InvalidRequest, InvalidUsage
from pyoco_server.ports import Delivery, TagQueue
from pyoco_server.tracing.start import start_tracing
from pyoco_server.worker.attempt.attempt import RELEASED
from pyoco_server.worker.attempt.job_parser import parse_job
from pyoco_server.worker.runner_pool.thread_executor import ThreadExecutor
from pyoco_server.worker.runner_process.flow_announcement import parse_names
from pyoco_server.worker.runner_process.flow_loader import Resolver, no_flows
from pyoco_server.worker.supervisor.supervisor import Supervisor


class PyocoNatsWorker:
    """One worker in this process; created by `connect`, ended by `close`."""

    def __init__(self, config: NatsBackendConfig, flow_resolver: Resolver, worker_id: str, tags: Sequence[str]) -> None:
        try:
            self._tags = [parse_tag(tag) for tag in tags]
            self._worker_id: WorkerId = parse_worker_id(worker_id)
        except InvalidRequest as error:
            raise ValueError(error.detail) from error
        self._config = config
        self._resolver = flow_resolver
        self._arrived: asyncio.Queue[Delivery] = asyncio.Queue()
        self._pulls: dict[TagQueue, asyncio.Task[None] | None] = {}
        self._open = AsyncExitStack()

    @classmethod
    async def connect(
        cls,
        config: NatsBackendConfig | None = None,
        flow_resolver: Resolver | None = None,
        worker_id: str = "worker",
        tags: Sequence[str] | None = None,
    ) -> Self:
        """Registers the worker. `flow_resolver(flow_name)` returns the flow, or raises KeyError if there is none.

        Without a resolver the worker runs flows that come as a flow.yaml; their tasks are imported by this program's
        own `sys.path`.
        """
        settings = config or NatsBackendConfig.from_env()
        if settings.wheel_sync_enabled:
            raise InvalidUsage(
                "a worker inside another program cannot change what that program has installed: run pyoco-worker "
                "--wheel-sync, or leave PYOCO_WHEEL_SYNC_ENABLED unset here"
            )
        if settings.runner_user:
            raise InvalidUsage(
                "a worker inside another program runs tasks as the user of that program: run pyoco-worker, or leave "
                "PYOCO_RUNNER_USER unset here"
            )
        worker = cls(settings, flow_resolver or no_flows, worker_id, tags or [settings.default_tag])
        try:
            await worker._start()
        except BaseException:
            await worker._open.aclose()
            raise
        return worker

    async def run_once(self, timeout: float = 1.0) -> str | None:  # noqa: ASYNC109 - the contract's parameter
        """Processes one job, waiting up to `timeout` seconds for it; returns the run's id, or None without a job."""
        if self._arrived.empty():
            self._pull()
        try:
            async with asyncio.timeout(timeout):
                delivery = await self._arrived.get()
        except TimeoutError:
            return None
        await self._supervisor.work(delivery)
        try:
            return parse_job(delivery.payload).run_id
        except InvalidJob:
            return None

    async def close(self) -> None:
        """Unregisters the worker; jobs that arrived and were not started are released."""
        for queue, pull in self._pulls.items():
            if pull is not None:
                pull.cancel()
                await asyncio.wait([pull])
            await queue.close()
        while not self._arrived.empty():
            await self._supervisor.answer(self._arrived.get_nowait(), RELEASED)
        await self._open.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _start(self) -> None:
        if (tracing := start_tracing("pyoco-worker")) is not None:
            self._open.push_async_callback(tracing.close)
        opening = open_stores(self._config, name=f"pyoco-worker {self._worker_id}", is_traced=tracing is not None)
        stores = await self._open.enter_async_context(opening)
        executor = ThreadExecutor(self._resolver, parse_names(self._config.worker_flows))
        self._supervisor = Supervisor(stores, executor, self._config, self._worker_id, self._tags, 1, tracing=tracing)
        await self._open.enter_async_context(self._supervisor.in_service())
        for tag in self._tags:
            self._pulls[await stores.queue.open(tag)] = None

    def _pull(self) -> None:
        for queue, pull in self._pulls.items():
            if pull is None or pull.done():
                self._pulls[queue] = asyncio.create_task(self._receive(queue))

    async def _receive(self, queue: TagQueue) -> None:
        for delivery in await queue.receive(1):
            self._supervisor.hold(delivery)
            self._arrived.put_nowait(delivery)

"""`PyocoNatsWorker`: a worker as a library, for programs that bring their own resolver and their own loop.

The flow runs in a thread of the caller's process. Jobs are asked for only while `run_once` waits; one that arrives in
between is kept alive until the next call.
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
from pyoco_server.worker.announce import names_in
from pyoco_server.worker.flow_run import Resolver
from pyoco_server.worker.intake import parse_job
from pyoco_server.worker.resolver import no_flows
from pyoco_server.worker.settle import HandedBack
from pyoco_server.worker.supervisor import Supervisor
from pyoco_server.worker.thread_executor import ThreadExecutor


class PyocoNatsWorker:
    """One worker in this process; made by `connect`, ended by `close`."""

    def __init__(self, config: NatsBackendConfig, flow_resolver: Resolver, worker_id: str, tags: Sequence[str]) -> None:
        try:
            self._tags = [parse_tag(tag) for tag in tags]
            self._worker_id: WorkerId = parse_worker_id(worker_id)
        except InvalidRequest as error:
            raise ValueError(error.detail) from error
        self._config = config
        self._resolver = flow_resolver
        self._arrived: asyncio.Queue[Delivery] = asyncio.Queue()
        self._queues: dict[str, TagQueue] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._open = AsyncExitStack()

    @classmethod
    async def connect(
        cls,
        config: NatsBackendConfig | None = None,
        flow_resolver: Resolver | None = None,
        worker_id: str = "worker",
        tags: Sequence[str] | None = None,
    ) -> Self:
        """Join the fleet. `flow_resolver(flow_name)` returns the flow, or raises KeyError where there is none.

        Without a resolver the worker runs flows that come as a flow.yaml; their tasks are imported by this program's
        own `sys.path`.
        """
        settings = config or NatsBackendConfig.from_env()
        if settings.wheel_sync_enabled:
            raise InvalidUsage(
                "a worker inside another program cannot change what that program has installed: run pyoco-worker "
                "--wheel-sync, or leave PYOCO_WHEEL_SYNC_ENABLED unset here"
            )
        worker = cls(settings, flow_resolver or no_flows, worker_id, tags or [settings.default_tag])
        try:
            await worker._enter()
        except BaseException:
            await worker._open.aclose()
            raise
        return worker

    async def run_once(self, timeout: float = 1.0) -> str | None:  # noqa: ASYNC109 - the contract's parameter
        """Work on one job, waiting up to `timeout` seconds for it; the run's id, or None when there was none."""
        if self._arrived.empty():
            self._ask()
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
        """Leave the fleet; what arrived and was not begun is given back."""
        for task in self._asking.values():
            task.cancel()
        if self._asking:
            await asyncio.wait(self._asking.values())
        for queue in self._queues.values():
            await queue.close()
        while not self._arrived.empty():
            await self._supervisor.answer(self._arrived.get_nowait(), HandedBack())
        await self._open.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _enter(self) -> None:
        stores = await self._open.enter_async_context(open_stores(self._config, name=f"pyoco-worker {self._worker_id}"))
        executor = ThreadExecutor(self._resolver, names_in(self._config.worker_flows))
        self._supervisor = Supervisor(stores, executor, self._config, self._worker_id, self._tags, slots=1)
        await self._open.enter_async_context(self._supervisor.in_service())
        for tag in self._tags:
            self._queues[tag] = await stores.queue.open(tag)

    def _ask(self) -> None:
        for tag, queue in self._queues.items():
            asking = self._asking.get(tag)
            if asking is None or asking.done():
                self._asking[tag] = asyncio.create_task(self._receive(queue))

    async def _receive(self, queue: TagQueue) -> None:
        for delivery in await queue.receive(1):
            self._supervisor.hold(delivery)
            self._arrived.put_nowait(delivery)

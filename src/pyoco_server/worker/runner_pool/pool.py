"""A pool of warm runner processes. User code runs in them and never in the supervisor.

    async with pool.borrow(tenant_id) as runner:
        runner.begin(job)
        async for update in runner.updates():
            ...

Each slot is a task that keeps one runner alive and replaces it when it dies. All runners are children of one fork
server; if that is lost, its runners die with it and a new one is started.

    switch(environment), reload(code):
        new fork server ─▶ one of its runners is warm ─▶ idle runners of the old one are killed, busy ones after their
        run, the old fork server with the last;  no warm runner: nothing changes
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pyoco_server.domain.execution.state import StopHow
from pyoco_server.domain.fleet.flows import FlowAnnouncement
from pyoco_server.domain.fleet.records import Isolation, WorkerCode
from pyoco_server.errors import InvalidUsage
from pyoco_server.worker.backoff import Backoff
from pyoco_server.worker.runner_pool.code import Code, CodeReader
from pyoco_server.worker.runner_pool.code_watch import CodeWatch
from pyoco_server.worker.runner_pool.idle_runners import IdleRunners
from pyoco_server.worker.runner_pool.runner import OnOutput, ProcessRunner
from pyoco_server.worker.runner_pool.runner_group import RunnerGroup
from pyoco_server.worker.runner_pool.runner_groups import RunnerGroups
from pyoco_server.worker.runner_process.flow_announcement import log_left_out
from pyoco_server.worker.runner_process.protocol import RunnerDied
from pyoco_server.worker.runner_process.runner_user import RunnerUser
from pyoco_server.worker.wheels.environments import EnvironmentLease, acquire

LOADING_LIMIT_SEC = 120.0
MAX_ERROR_CHARS = 500
FIRST_PAUSE_SEC = 0.1
LONGEST_PAUSE_SEC = 5.0

logger = logging.getLogger(__name__)


class RunnerPool:
    """`size` warm runners that serve the flows of `resolver`; start it from the main thread (see `ForkClient.start`).

    `on_output(run_id, lines)` is called in the loop with the output of runners, with an empty run id before the first
    run; it must neither wait nor raise. `announcement` has the flows of the current environment: of the given names,
    else those that the resolver declares. All runners import the same version of the code; with `code_reload` it is
    replaced when files are saved. `isolation`: see `idle_runners`.
    """

    stopped_by_kill = StopHow.KILLED

    def __init__(
        self,
        resolver: str,
        size: int,
        on_output: OnOutput,
        flow_names: Sequence[str] = (),
        *,
        isolation: Isolation = "tenant",
        user: RunnerUser | None = None,
        code_reload: bool = False,
    ) -> None:
        self.announcement = FlowAnnouncement()
        self.isolation: Isolation = isolation
        self._resolver = resolver
        self._flow_names = flow_names
        self._size = size
        self._on_output = on_output
        self.user = user
        self._reader = CodeReader(resolver, follow_links=user is None)
        self._groups = RunnerGroups(self._group(Code(resolver=resolver, version=None, files={}), EnvironmentLease()))
        self._code_reload = code_reload
        self._watch = CodeWatch(self._reader, self._served_version, self.reload if code_reload else None)
        self._watching: asyncio.Task[None] | None = None
        self._slots: list[asyncio.Task[None]] = []
        self._warm: set[ProcessRunner] = set()
        self._spares: deque[ProcessRunner] = deque()
        self._idle = IdleRunners(size, isolation, self._is_current)
        self._switching = asyncio.Lock()
        self._closing = asyncio.Event()

    async def start(self, lease: EnvironmentLease | None = None) -> None:
        """Returns when every runner is warm; `InvalidUsage` if the resolver cannot be loaded; may be repeated."""
        code = await asyncio.to_thread(self._reader.read)
        self._groups.base = self._group(code, lease or EnvironmentLease())
        self._closing.clear()
        loop = asyncio.get_running_loop()
        first_tries: list[asyncio.Future[None]] = [loop.create_future() for _ in range(self._size)]
        self._slots = [asyncio.create_task(self._keep_slot(first)) for first in first_tries]
        discovery = asyncio.create_task(self._discover(self._groups.base))
        try:
            outcomes = await asyncio.gather(*first_tries, return_exceptions=True)
            self._announce(await discovery)
        except BaseException:
            discovery.cancel()
            await self.close()
            await asyncio.wait([discovery])
            raise
        for error in outcomes:
            if error is not None:
                await self.close()
                raise error
        self._watch = CodeWatch(self._reader, self._served_version, self.reload if self._code_reload else None)
        self._watching = asyncio.create_task(self._watch.run())

    async def switch(self, lease: EnvironmentLease, tenant_id: str | None = None, *, is_tried: bool = False) -> None:
        """Starts new runs, or those of one tenant, in this environment; current runs end in theirs.

        `InvalidUsage` if no runner gets warm there: then nothing has changed, and the lease is released. `is_tried`
        omits that trial for a tenant's environment.
        """
        async with self._switching:
            fresh = self._group(self._groups.base.code, lease)
            if tenant_id is not None and is_tried:
                await self._retire(self._groups.replace_tenant(tenant_id, fresh))
            else:
                await self._replace(fresh, tenant_id, needs_resolver=True)

    async def forget_tenant(self, tenant_id: str) -> None:
        """Starts new runs of the tenant where those of all others start."""
        async with self._switching:
            await self._retire(self._groups.replace_tenant(tenant_id, None))

    async def reload(self, code: Code) -> None:
        """Starts new runs with this code; current runs end with theirs.

        Code that cannot be loaded fails new runs with the reason: what was saved is what runs. `InvalidUsage` if no
        runner gets warm at all: then nothing has changed.
        """
        async with self._switching:
            await self._replace(self._successor(self._groups.base, code), needs_resolver=False)
            for old in self._groups.replace_tenants(lambda group: self._successor(group, self._groups.base.code)):
                await self._retire(old)

    async def close(self) -> None:
        """Kills every runner with its descendants and waits for their exit."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
            self._watching = None
        self._closing.set()
        self._idle.close()
        await self._groups.close()
        self._spares.clear()
        await asyncio.gather(*self._slots)

    @asynccontextmanager
    async def borrow(self, tenant_id: str | None = None) -> AsyncIterator[ProcessRunner]:
        """A warm runner that may serve this tenant, for the block; one that is still busy at its end is killed."""
        if self._closing.is_set():
            raise RuntimeError("the runner pool is closed")
        runner = await self._idle.take(tenant_id)
        try:
            yield runner
        finally:
            self._idle.give_back(runner)

    @property
    def code(self) -> WorkerCode:
        """The version that new runs get; `error` is one line."""
        reason = self._watch.error or self._groups.base.load_error
        return WorkerCode(
            version=self._served_version(),
            reload=self._code_reload,
            changed=self._watch.is_changed,
            error=None if reason is None else reason.partition("\n")[0][:MAX_ERROR_CHARS],
        )

    def _served_version(self) -> str | None:
        return self._groups.base.code.version

    def pids(self) -> list[int]:
        return sorted(runner.pid for runner in self._warm)

    @property
    def fork_server_pid(self) -> int | None:
        return self._groups.base.fork_server_pid

    def _group(self, code: Code, lease: EnvironmentLease) -> RunnerGroup:
        return RunnerGroup(code, lease, self._on_output, self.user)

    def _successor(self, group: RunnerGroup, code: Code) -> RunnerGroup:
        """A group in the same environment."""
        return self._group(code, acquire(group.lease.environment))

    def _is_current(self, runner: ProcessRunner, tenant_id: str | None) -> bool:
        return runner in self._groups.of(tenant_id).runners

    # --- one slot -----------------------------------------------------------------------------------------------------

    async def _keep_slot(self, first_try: asyncio.Future[None]) -> None:
        backoff = Backoff(FIRST_PAUSE_SEC, LONGEST_PAUSE_SEC)
        while not self._closing.is_set():
            tenant_id = self._idle.begin_start()
            group = self._groups.of(tenant_id)
            try:
                is_spare = self._spares and group is self._groups.base
                runner = self._spares.popleft() if is_spare else await group.fork()
            except OSError as error:
                self._idle.end_start(tenant_id)
                if group is not self._groups.of(tenant_id):
                    continue  # it was replaced meanwhile
                logger.warning("runner could not be started", extra={"reason": str(error)})
                _fail(first_try, InvalidUsage(f"no runner could be started: {error}", resolver=self._resolver))
            else:
                died = await self._serve(runner, group, first_try, tenant_id)
                _fail(first_try, InvalidUsage(self._death(died), resolver=self._resolver))
                if runner.has_served or self._idle.was_replaced(runner) or group is not self._groups.of(tenant_id):
                    backoff.reset()
                    continue
            # What cannot start must not use up the machine.
            await self._pause(backoff.next_sec())

    async def _serve(
        self, runner: ProcessRunner, group: RunnerGroup, first_try: asyncio.Future[None], tenant_id: str | None
    ) -> RunnerDied:
        """Offers the runner as soon as it is warm, until it has exited."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._offer_when_loaded(runner, group, first_try, tenant_id))
                died = await asyncio.shield(runner.exited)  # also ends the wait for loading
        finally:
            self._warm.discard(runner)
        if not self._closing.is_set():
            facts = {"runner_pid": runner.pid, "exit_code": died.exit_code, "signal": died.signal_name}
            logger.info("runner replaced", extra=facts)
        await self._groups.tidy(group)
        return died

    async def _offer_when_loaded(
        self, runner: ProcessRunner, group: RunnerGroup, first_try: asyncio.Future[None], tenant_id: str | None
    ) -> None:
        try:
            try:
                async with asyncio.timeout(LOADING_LIMIT_SEC):
                    error = await runner.loaded
            finally:
                self._idle.end_start(tenant_id)
        except TimeoutError:
            error = self._too_slow()
            runner.kill()
        else:
            # A runner without its resolver serves too: its jobs fail with the reason instead of waiting forever.
            self._warm.add(runner)
            if group is self._groups.of(tenant_id):
                self._idle.add(runner, only_for=None if group is self._groups.base else tenant_id)
            else:
                runner.kill()  # forked just before the switch
        if error is not None:
            if group.load_error is None:  # once: all its runners import the same
                logger.warning("runner cannot load the flow resolver", extra={"reason": error})
            group.load_error = error
            _fail(first_try, InvalidUsage(error, resolver=self._resolver))
        elif not first_try.done():
            first_try.set_result(None)

    def _death(self, died: RunnerDied) -> str:
        how = died.signal_name or f"exit code {died.exit_code}"
        output = "".join(f"\n{line}" for line in died.last_lines)
        return f"the process that loads the flow resolver {self._resolver!r} died ({how}){output}"

    def _too_slow(self) -> str:
        return f"the flow resolver {self._resolver!r} was not loaded within {LOADING_LIMIT_SEC:.0f} s"

    async def _pause(self, pause_sec: float) -> None:
        try:
            async with asyncio.timeout(pause_sec):
                await self._closing.wait()
        except TimeoutError:
            return

    # --- a switch -----------------------------------------------------------------------------------------------------

    async def _replace(self, fresh: RunnerGroup, tenant_id: str | None = None, *, needs_resolver: bool) -> None:
        try:
            first = await self._first_of(fresh, needs_resolver=needs_resolver)
        except BaseException:
            await fresh.close()
            raise
        if self._closing.is_set():
            await fresh.close()
            return
        if tenant_id is not None:
            first.kill()  # a run of the tenant starts one
            await self._retire(self._groups.replace_tenant(tenant_id, fresh))
            await asyncio.wait([first.exited])
            await self._groups.tidy(fresh)
            return
        self._spares = deque([first])
        await self._retire(self._groups.replace(fresh))
        if first.loaded.result() is None:
            self._announce(await self._discover(fresh))

    async def _retire(self, old: RunnerGroup | None) -> None:
        """Kills the idle runners of a replaced group, and those of tenants that have another group now."""
        self._idle.refresh()
        if old is not None:
            for runner in old.runners:
                if not self._idle.is_borrowed(runner):
                    runner.kill()
            await self._groups.tidy(old)

    async def _first_of(self, fresh: RunnerGroup, *, needs_resolver: bool) -> ProcessRunner:
        try:
            runner = await fresh.fork()
        except OSError as error:
            raise InvalidUsage(f"no runner could be started: {error}", resolver=self._resolver) from error
        ends: list[asyncio.Future[Any]] = [runner.loaded, runner.exited]
        await asyncio.wait(ends, timeout=LOADING_LIMIT_SEC, return_when=asyncio.FIRST_COMPLETED)
        if runner.loaded.cancelled():
            raise InvalidUsage(self._death(await asyncio.shield(runner.exited)), resolver=self._resolver)
        reason = runner.loaded.result() if runner.loaded.done() else self._too_slow()
        if reason is not None and (needs_resolver or not runner.loaded.done()):
            raise InvalidUsage(reason, resolver=self._resolver)
        return runner

    # --- announcements ------------------------------------------------------------------------------------------------

    async def _discover(self, group: RunnerGroup) -> FlowAnnouncement:
        if not self._resolver:
            return FlowAnnouncement()
        return await group.discover_flows(self._flow_names, loading_limit_sec=LOADING_LIMIT_SEC)

    def _announce(self, announcement: FlowAnnouncement) -> None:
        self.announcement = announcement
        log_left_out(announcement)


def _fail(first_try: asyncio.Future[None], error: InvalidUsage) -> None:
    if not first_try.done():
        first_try.set_exception(error)

"""Decides which warm runner serves which run, so that no tenant's code runs where another tenant's code has run.

    shared   a runner serves any run
    tenant   the first run binds a runner to its tenant; runs without a tenant count as one
    run      a runner serves one run

Waiting runs are served in the order of their arrival, so a busy tenant cannot keep another one waiting. One that finds
no runner for its tenant replaces an idle one, of the tenant that was served least recently.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from pyoco_server.domain.fleet.records import Isolation
from pyoco_server.worker.runner_pool.runner import ProcessRunner

# The tenant that a runner is bound to; empty when all may use it.
_Bound = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    bound: _Bound
    runner: asyncio.Future[ProcessRunner]

    @property
    def tenant_id(self) -> str | None:
        return _tenant_of(self.bound)


class IdleRunners:
    """The idle and the borrowed ones of `size` runners, and the runs that wait for one.

    `is_current(runner, tenant_id)` says whether it is in the environment for new runs of the tenant; others are killed.
    """

    def __init__(
        self, size: int, isolation: Isolation, is_current: Callable[[ProcessRunner, str | None], bool]
    ) -> None:
        self._size = size
        self._isolation = isolation
        self._is_current = is_current
        self._idle: dict[ProcessRunner, _Bound | None] = {}  # the one that was returned last is the last
        self._borrowed: dict[ProcessRunner, _Bound] = {}
        self._waiters: list[_Waiter] = []
        self._starting: Counter[str | None] = Counter()
        self._replaced: set[ProcessRunner] = set()

    def is_borrowed(self, runner: ProcessRunner) -> bool:
        return runner in self._borrowed

    def begin_start(self) -> str | None:
        """The tenant that the next runner is for: the first waiting one without a runner that is starting for it."""
        left = self._starting.copy()
        tenant_id = None
        for waiter in self._waiters:
            if not left[waiter.tenant_id]:
                tenant_id = waiter.tenant_id
                break
            left[waiter.tenant_id] -= 1
        self._starting[tenant_id] += 1
        return tenant_id

    def end_start(self, tenant_id: str | None) -> None:
        """The runner for it is warm, or could not start."""
        self._starting[tenant_id] -= 1
        if not self._starting[tenant_id]:
            del self._starting[tenant_id]  # tenants come and go

    def add(self, runner: ProcessRunner, only_for: str | None = None) -> None:
        """A warm runner that has served no run; `only_for` when it has the environment of that tenant."""
        self._idle[runner] = None if only_for is None else (only_for,)
        self._match()

    def was_replaced(self, runner: ProcessRunner) -> bool:
        """Whether it was killed to make room; asked once, when it has ended."""
        was_replaced = runner in self._replaced
        self._replaced.discard(runner)
        return was_replaced

    def refresh(self) -> None:
        """Kills idle runners whose environment is no longer current."""
        self._match()

    async def take(self, tenant_id: str | None) -> ProcessRunner:
        """Waits for a runner that may serve this tenant; return it with `give_back`."""
        bound = () if self._isolation == "shared" else (tenant_id,)
        waiter = _Waiter(bound, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        self._match()
        try:
            return await waiter.runner
        except asyncio.CancelledError:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            elif not waiter.runner.cancelled() and waiter.runner.exception() is None:
                self.give_back(waiter.runner.result())  # it came at the moment of the cancel
            raise

    def give_back(self, runner: ProcessRunner) -> None:
        """A runner that is busy, outdated or used up is killed; its slot starts another one."""
        bound = self._borrowed.pop(runner)
        is_used_up = self._isolation == "run" and runner.has_served
        if runner.is_busy or is_used_up or not self._is_current(runner, _tenant_of(bound)):
            runner.kill()
        else:
            self._idle[runner] = bound
        self._match()

    def close(self) -> None:
        for waiter in self._waiters:
            waiter.runner.set_exception(RuntimeError("the runner pool is closed"))
        self._waiters.clear()
        self._idle.clear()
        self._replaced.clear()

    def _match(self) -> None:
        for runner, bound in list(self._idle.items()):
            if not runner.is_alive:
                del self._idle[runner]
            elif not self._is_current(runner, _tenant_of(bound or ())):
                self._replace(runner)
        self._waiters = [waiter for waiter in self._waiters if not waiter.runner.done()]
        starting = self._size - len(self._idle) - len(self._borrowed)
        for waiter in list(self._waiters):
            if (found := self._find(waiter)) is not None:
                del self._idle[found]
                self._waiters.remove(waiter)
                self._borrowed[found] = waiter.bound
                waiter.runner.set_result(found)
            elif starting > 0:
                starting -= 1  # that one will be for this waiter
            elif self._idle:
                self._replace(self._least_recently_used())

    def _find(self, waiter: _Waiter) -> ProcessRunner | None:
        unused = None
        for runner, bound in self._idle.items():
            if bound == waiter.bound:
                return runner
            if bound is None and unused is None and self._is_current(runner, waiter.tenant_id):
                unused = runner
        return unused

    def _replace(self, runner: ProcessRunner) -> None:
        del self._idle[runner]
        self._replaced.add(runner)
        runner.kill()

    def _least_recently_used(self) -> ProcessRunner:
        """An unused one, else that of the tenant whose last run ended first, of tenants without a run in progress."""
        last_use = {bound: place for place, bound in enumerate(self._idle.values())} | {None: -1}
        in_use = set(self._borrowed.values())
        return min(self._idle, key=lambda one: (self._idle[one] in in_use, last_use[self._idle[one]]))


def _tenant_of(bound: _Bound) -> str | None:
    return bound[0] if bound else None

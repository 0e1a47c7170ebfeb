"""Decides which warm runner serves which run, so that no tenant's code runs where another tenant's code has run.

    shared   a runner serves any run
    tenant   the first run binds a runner to its tenant; runs without a tenant count as one
    run      a runner serves one run

Waiting runs are served in the order of their arrival, so a busy tenant cannot keep another one waiting. One that finds
no runner for its tenant replaces an idle one, of the tenant that was served least recently.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from pyoco_server.domain.fleet.records import Isolation
from pyoco_server.worker.runner_pool.runner import ProcessRunner

# Who may use a runner; None for one that has served nobody.
_Bound = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    bound: _Bound
    runner: asyncio.Future[ProcessRunner]


class IdleRunners:
    """The idle and the borrowed ones of `size` runners, and the runs that wait for one.

    `is_current(runner)` says whether it is in the environment for new runs; others are killed when they are returned.
    """

    def __init__(self, size: int, isolation: Isolation, is_current: Callable[[ProcessRunner], bool]) -> None:
        self._size = size
        self._isolation = isolation
        self._is_current = is_current
        self._idle: dict[ProcessRunner, _Bound | None] = {}  # the one that was returned last is the last
        self._borrowed: dict[ProcessRunner, _Bound] = {}
        self._waiters: list[_Waiter] = []

    def is_borrowed(self, runner: ProcessRunner) -> bool:
        return runner in self._borrowed

    def add(self, runner: ProcessRunner) -> None:
        """A warm runner that has served nobody."""
        self._idle[runner] = None
        self._match()

    async def take(self, tenant_id: str | None) -> ProcessRunner:
        """Waits for a runner that may serve this tenant; return it with `give_back`."""
        bound = (tenant_id,) if self._isolation == "tenant" else ()
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
        if runner.is_busy or is_used_up or not self._is_current(runner):
            runner.kill()
        else:
            self._idle[runner] = bound
        self._match()

    def close(self) -> None:
        for waiter in self._waiters:
            waiter.runner.set_exception(RuntimeError("the runner pool is closed"))
        self._waiters.clear()
        self._idle.clear()

    def _match(self) -> None:
        self._idle = {one: bound for one, bound in self._idle.items() if one.is_alive and self._is_current(one)}
        self._waiters = [waiter for waiter in self._waiters if not waiter.runner.done()]
        starting = self._size - len(self._idle) - len(self._borrowed)
        for waiter in list(self._waiters):
            runner = next((one for one, bound in self._idle.items() if bound == waiter.bound), None)
            runner = runner or next((one for one, bound in self._idle.items() if bound is None), None)
            if runner is not None:
                del self._idle[runner]
                self._waiters.remove(waiter)
                self._borrowed[runner] = waiter.bound
                waiter.runner.set_result(runner)
            elif starting > 0:
                starting -= 1  # that one will be for this waiter
            elif self._idle:
                self._replace(self._least_recently_used())

    def _replace(self, runner: ProcessRunner) -> None:
        del self._idle[runner]
        runner.kill()

    def _least_recently_used(self) -> ProcessRunner:
        """An idle runner of the tenant whose last run ended first, not counting tenants with a run in progress."""
        last_use = {bound: place for place, bound in enumerate(self._idle.values())}
        in_use = set(self._borrowed.values())
        return min(self._idle, key=lambda one: (self._idle[one] in in_use, last_use[self._idle[one]]))

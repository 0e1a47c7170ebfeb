"""The runner group of each environment: that of all tenants, those of tenants with wheels of their own, and old ones.

A tenant's group has no process until a run needs one, and none after its last runner has ended.
"""

from __future__ import annotations

from collections.abc import Callable

from pyoco_server.worker.runner_pool.runner_group import RunnerGroup


class RunnerGroups:
    def __init__(self, base: RunnerGroup) -> None:
        self.base = base
        self._of_tenants: dict[str, RunnerGroup] = {}
        self._retired: set[RunnerGroup] = set()

    def of(self, tenant_id: str | None) -> RunnerGroup:
        """Where new runs of the tenant start."""
        return self.base if tenant_id is None else self._of_tenants.get(tenant_id, self.base)

    def replace(self, fresh: RunnerGroup) -> RunnerGroup:
        """New runs start there, but those of tenants with a group of their own; returns the old group."""
        old, self.base = self.base, fresh
        self._retired.add(old)
        return old

    def replace_tenant(self, tenant_id: str, fresh: RunnerGroup | None) -> RunnerGroup | None:
        """New runs of the tenant start there (None: where those of all others start); returns its old group."""
        old = self._of_tenants.pop(tenant_id, None)
        if fresh is not None:
            self._of_tenants[tenant_id] = fresh
        if old is not None:
            self._retired.add(old)
        return old

    def replace_tenants(self, successor: Callable[[RunnerGroup], RunnerGroup]) -> list[RunnerGroup]:
        """Replaces the group of every tenant; returns the old ones."""
        olds = [self.replace_tenant(tenant_id, successor(old)) for tenant_id, old in list(self._of_tenants.items())]
        return [old for old in olds if old is not None]

    async def tidy(self, group: RunnerGroup) -> None:
        """Stops the fork server of a replaced environment, or of a tenant, after its last runner."""
        if group in self._retired and not group.runners:
            self._retired.discard(group)
            await group.close()
        elif group is not self.base:
            await group.rest()

    async def close(self) -> None:
        for group in (self.base, *self._of_tenants.values(), *self._retired):
            await group.close()
        self._of_tenants.clear()

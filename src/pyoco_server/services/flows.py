"""The flows that workers announce, with figures about their last runs from this gateway's index."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from pyoco_server.domain.fleet.catalogue import FlowVersion, flow_versions
from pyoco_server.domain.fleet.submissions import nearest
from pyoco_server.domain.queries.page_token import seal, unseal
from pyoco_server.domain.queries.query import RunQuery
from pyoco_server.domain.queries.recent import Recent, recent
from pyoco_server.errors import FlowNotAnnounced, InvalidRequest
from pyoco_server.services.fleet_view import FleetView
from pyoco_server.services.projections.lists import ListService

# A flow's figures are about so many of its runs, those that changed last: a read by an index, however many there are.
RECENT_RUNS = 100


class ShownFlow(NamedTuple):
    """A flow, its versions with the newest first, and its figures."""

    name: str
    versions: Sequence[FlowVersion]
    recent: Recent


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowService:
    """All tenants share the flows; the figures are of the caller's own runs."""

    fleet: FleetView
    lists: ListService

    async def get(self, name: str, *, tenant_filter: str | None) -> ShownFlow:
        """The flow of that name; `FlowNotAnnounced` with a similar name, if there is one."""
        found = flow_versions(await self.fleet.all_workers())
        if name not in found:
            near = nearest(name, found)
            if near is not None:
                raise FlowNotAnnounced(f"no running worker announces the flow {name[:80]!r}, did you mean {near!r}?")
            raise FlowNotAnnounced(f"no running worker announces the flow {name[:80]!r}")
        await self.lists.fresh()
        return self._shown(name, found[name], tenant_filter)

    async def page(
        self, *, prefix: str, tag: str | None, limit: int, cursor: str, tenant_filter: str | None
    ) -> tuple[list[ShownFlow], str | None]:
        """The next flows by name, and the cursor of the next page: None when this was the last one."""
        about = (prefix, tag)
        after = _place(cursor, about) if cursor else ""
        found = {
            name: versions
            for name, versions in flow_versions(await self.fleet.all_workers()).items()
            if name.startswith(prefix) and name > after and (tag is None or any(tag in one.tags for one in versions))
        }
        await self.lists.fresh()
        shown = []
        for name in list(found)[:limit]:
            shown.append(self._shown(name, found[name], tenant_filter))
            await asyncio.sleep(0)  # other requests in between: each reads the index
        return shown, seal(shown[-1].name, about=about) if len(found) > limit else None

    def _shown(self, name: str, versions: Sequence[FlowVersion], tenant_filter: str | None) -> ShownFlow:
        rows = self.lists.index.rows(RunQuery(flow=name, tenant_id=tenant_filter, limit=RECENT_RUNS))
        return ShownFlow(name, versions, recent(orjson.loads(row.summary) for row in rows))


def _place(cursor: str, about: tuple[object, ...]) -> str:
    restart = "start without one, and keep q and tag"
    return unseal(cursor, str, about=about, name="cursor", restart=restart, error=InvalidRequest)

# Generated from _async/flows.py by scripts/unasync. Do not edit.
"""Methods for flows: list and show what running workers announce."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from pyoco_server.http_client._sync.base import Methods
from pyoco_server.http_client.models.flows import FlowDetails, FlowPage, FlowSummary
from pyoco_server.http_client.requests import Request, get, read_page, tag_path


class FlowMethods(Methods):
    def get_flow(self, name: str) -> FlowDetails:
        """A flow with its versions (graph and parameters) and figures about its last runs."""
        return self._transport.send(get(tag_path("/flows", name)))

    def list_flows(
        self, q: str | None = None, tag: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> FlowPage:
        """One page of the flows that running workers announce, by name; `q` is a prefix of the name."""
        return self._transport.send(get("/flows", read=read_page(), q=q, tag=tag, limit=limit, cursor=cursor))

    def iter_flows(
        self, q: str | None = None, tag: str | None = None, limit: int | None = None
    ) -> Generator[FlowSummary, None, None]:
        """All of them, in pages of `limit`."""
        request: Request[Any] = get("/flows", read=read_page(), q=q, tag=tag, limit=limit)
        return self._transport.pages(request, "cursor", "next_cursor")

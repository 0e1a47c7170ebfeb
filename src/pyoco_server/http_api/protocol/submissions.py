"""Checks a submission against what the running workers announce: warnings, or with `strict` a rejection."""

from __future__ import annotations

from fastapi import Request

from pyoco_server.domain.execution.state import Request as Run
from pyoco_server.domain.fleet.submissions import Doubt, doubts, unknown_graph
from pyoco_server.errors import SubmissionRefused
from pyoco_server.http_api.protocol.request_parsing import services_of
from pyoco_server.http_api.responses.negotiation import preferred_language
from pyoco_server.japanese import japanese
from pyoco_server.services.executions.service import NewExecution


def check_run(request: Request, run: Run, *, strict: bool) -> list[str]:
    """The warnings about a run. Reads memory only: every submission passes here."""
    served = services_of(request).fleet.served()
    name = run.flow_name if run.workflow_yaml_sha256 is None else None
    return _answer(request, doubts(served, tag=run.tag, flow_name=name, params=run.input), strict=strict)


async def check_execution(request: Request, new: NewExecution, *, strict: bool) -> list[str]:
    """The same for an execution. Any name is one of an open graph, so that only a strict request reads the graphs."""
    services = services_of(request)
    served = services.fleet.served()
    flow = services.fleet.announced_flows().get(new.graph_id)
    graphs = set(await services.stores.graphs.revisions(new.tenant_id)) if strict else None
    if new.graph_id in (graphs or ()):
        return []
    if flow is None and new.tag is None:
        return _answer(request, unknown_graph(served, new.graph_id, graphs), strict=strict)
    tag = services.executions.tag_of(flow) if new.tag is None and flow is not None else new.tag
    found = doubts(served, tag=tag or "", flow_name=new.graph_id, params=new.input)
    return _answer(request, found, strict=strict)


def _answer(request: Request, found: list[Doubt], *, strict: bool) -> list[str]:
    """The doubts as texts; `SubmissionRefused` if one is certain and the request is strict."""
    certain = [doubt.text for doubt in found if doubt.is_certain]
    if certain and strict:
        raise SubmissionRefused("; ".join(certain))
    texts = [doubt.text for doubt in found]
    return [japanese(text) for text in texts] if texts and preferred_language(request) == "ja" else texts

"""Checks a submission against what the running workers announce: warnings, or with `strict` a rejection."""

from __future__ import annotations

from fastapi import Request

from pyoco_server.domain.execution.state import Request as Run
from pyoco_server.domain.fleet.submissions import Doubt, doubts, unknown_graph
from pyoco_server.domain.ids import RunId
from pyoco_server.errors import SubmissionRefused
from pyoco_server.http_api.protocol.request_parsing import services_of
from pyoco_server.http_api.responses.negotiation import preferred_language
from pyoco_server.japanese import japanese
from pyoco_server.services.executions.service import NewExecution
from pyoco_server.services.executions.submit import first_commit
from pyoco_server.services.idempotency import IdempotentAttempt


async def check_run(request: Request, run: Run, turn: IdempotentAttempt, *, strict: bool) -> list[str]:
    """The warnings about a run. Reads memory only, unless it is about to reject: every submission passes here."""
    served = services_of(request).fleet.served()
    name = run.flow_name if run.workflow_yaml_sha256 is None else None
    found = doubts(served, tag=run.tag, flow_name=name, params=run.input)
    return await _answer(request, found, turn, strict=strict) if found else []


async def check_execution(request: Request, new: NewExecution, turn: IdempotentAttempt, *, strict: bool) -> list[str]:
    """The same for an execution. Any name is one of an open graph, so that only a strict request reads the graphs."""
    services = services_of(request)
    served = services.fleet.served()
    flow = services.fleet.announced_flows().get(new.graph_id)
    graphs = set(await services.stores.graphs.revisions(new.tenant_id)) if strict else None
    if new.graph_id in (graphs or ()):
        return []
    if flow is None and new.tag is None:
        found = unknown_graph(served, new.graph_id, graphs)
    else:
        tag = services.executions.tag_of(flow) if new.tag is None and flow is not None else new.tag
        found = doubts(served, tag=tag or "", flow_name=new.graph_id, params=new.input)
    return await _answer(request, found, turn, strict=strict)


async def _answer(request: Request, found: list[Doubt], turn: IdempotentAttempt, *, strict: bool) -> list[str]:
    """The doubts as texts; `SubmissionRefused` if one is certain and the request is strict.

    A continued request whose earlier attempt has stored the run is not rejected any more.
    """
    certain = [doubt.text for doubt in found if doubt.is_certain]
    if certain and strict and not (turn.context.resumed and await _is_stored(request, turn)):
        raise SubmissionRefused("; ".join(certain))
    texts = [doubt.text for doubt in found]
    return [japanese(text) for text in texts] if texts and preferred_language(request) == "ja" else texts


async def _is_stored(request: Request, turn: IdempotentAttempt) -> bool:
    return await first_commit(services_of(request).stores.events, RunId(turn.resource_id)) is not None

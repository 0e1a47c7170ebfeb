"""`POST /runs/{run_id}/rerun`: the same run once more, with other params where they are given."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.execution.snapshot import run_status
from pyoco_server.domain.execution.state import Work
from pyoco_server.domain.ids import parse_run_id
from pyoco_server.http_api.api.runs import schemas
from pyoco_server.http_api.api.runs.routes import RunIdPath
from pyoco_server.http_api.dependencies import CallerDep, RerunsDep
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.openapi.bodies import request_body
from pyoco_server.http_api.protocol.idempotency import IdempotentRequest, of_json
from pyoco_server.http_api.protocol.request_parsing import bounded_json, largest_params, read_with_params
from pyoco_server.http_api.protocol.submissions import check_run
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.responses.problems import answers

router = APIRouter(prefix="/runs", tags=["runs"])


@router.post(
    "/{run_id}/rerun",
    responses=answers(schemas.RerunAccepted, 404, 409, 413, 422, 503),
    openapi_extra=request_body(schemas.RunRerunRequest),
)
@requires_scope(Scope.RUNS_WRITE)
async def rerun(run_id: RunIdPath, request: Request, reruns: RerunsDep, caller: CallerDep) -> Response:
    """Run it again: a new run with the same flow, params, tag, labels and YAML. The original stays as it is."""
    original, body = parse_run_id(run_id), await request.body()
    executions = reruns.executions
    asked = read_with_params(schemas.RunRerunRequest, body if body.strip() else b"{}", executions.config)
    async with IdempotentRequest(request, of_json(body), new_id=executions.stores.ids.run_id) as once:
        if turn := once.attempt:
            create = await reruns.prepare(
                original, asked.params, tenant_filter=caller.tenant_filter, api_key_id=caller.api_key_id
            )
            run = create.request
            bounded_json(run.input, largest_params(executions.config), "params")
            found = []
            if run.work is not Work.NODES:
                found = await check_run(request, run, turn, strict=asked.strict)
            again = await reruns.run(create, turn)
            out = {
                "run_id": again.execution_id,
                "status": "RUNNING" if run_status(again) == "RUNNING" else "PENDING",
                "durability": executions.stores.durability,
                "rerun_of": original,
            }
            once.response = json_response(out | {"warnings": found} if found else out)
    return once.answer

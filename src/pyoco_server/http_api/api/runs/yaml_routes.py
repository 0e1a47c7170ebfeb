"""The route of `POST /runs/yaml`: authorise, translate, call, translate."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.idempotency.keys import FormPart
from pyoco_server.domain.ids import RunId
from pyoco_server.http_api.api.runs import schemas, translate, yaml_translate
from pyoco_server.http_api.dependencies import RawRoute, services_of
from pyoco_server.http_api.middleware.authentication import caller_of, requires_scope
from pyoco_server.http_api.protocol.idempotency import of_form, run_once
from pyoco_server.http_api.protocol.multipart import FORM, declared_bytes, read_form
from pyoco_server.http_api.responses.problems import answers
from pyoco_server.services.idempotency import IdempotentAttempt

router = APIRouter(prefix="/runs", tags=["runs"])


@requires_scope(Scope.RUNS_WRITE)
async def submit_run_yaml(request: Request) -> Response:
    """Store and queue a run of the flow in a flow.yaml. Nothing of it is imported here; a bad file is a 422."""
    executions = services_of(request).executions
    config = executions.config
    yaml_translate.check_size(declared_bytes(request), config)
    form = await read_form(request, yaml_translate.limits(config))
    # The largest file takes tens of milliseconds, for which all other requests would wait.
    workflow = await asyncio.to_thread(yaml_translate.workflow, form, config)
    asked, labels = yaml_translate.submit_request(form, workflow, config, caller_of(request))

    async def work(turn: IdempotentAttempt) -> Response:
        run_id = RunId(turn.resource_id)
        execution = await executions.submit(asked, labels, turn.context, workflow, run_id=run_id)
        return Response(translate.accepted_out(execution, executions.stores.durability), media_type="application/json")

    parts = (FormPart.of(name, content) for name, content in form.items())
    return await run_once(request, of_form(parts), work)


router.add_api_route(
    "/yaml",
    submit_run_yaml,
    methods=["POST"],
    route_class_override=RawRoute,
    responses=answers(schemas.RunAccepted, 409, 413, 422, 503),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {FORM: {"schema": schemas.RunSubmitYamlRequest.model_json_schema()}},
        }
    },
)

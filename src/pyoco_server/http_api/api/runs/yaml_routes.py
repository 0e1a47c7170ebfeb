"""`POST /runs/yaml`: a run of a flow.yaml, as a form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request, Response

from pyoco_server.adapters.flow_graph import read_flow_file_aside
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.flow_yaml import patterns_of
from pyoco_server.domain.idempotency.keys import FormPart
from pyoco_server.domain.ids import RunId
from pyoco_server.errors import InvalidRequest, RequestTooLarge, WorkflowTooLarge
from pyoco_server.http_api.api.runs import schemas
from pyoco_server.http_api.api.runs.routes import accepted
from pyoco_server.http_api.dependencies import RawRoute
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.openapi.bodies import request_body
from pyoco_server.http_api.protocol.forms import FORM, Parts, read_form
from pyoco_server.http_api.protocol.idempotency import IdempotentRequest, of_form
from pyoco_server.http_api.protocol.request_parsing import (
    FEW_MARKS,
    bounded_json,
    caller_of,
    largest_params,
    parse_json,
    request_of,
    services_of,
    validate,
)
from pyoco_server.http_api.protocol.submissions import check_run
from pyoco_server.http_api.responses.problems import answers
from pyoco_server.services.executions.submit import Workflow

router = APIRouter(prefix="/runs", tags=["runs"])

FIELDS = ("workflow", "flow_name", "tag", "queue", "timeout_sec", "strict", "params")
MAX_NAMED = 50
CURL = "-F workflow=@flow.yaml -F flow_name=main"


@requires_scope(Scope.RUNS_WRITE)
async def submit_run_yaml(request: Request) -> Response:
    """Store and queue a run of the flow in a flow.yaml. Nothing of it is imported here; a bad file is a 422."""
    executions = services_of(request).executions
    config = executions.config
    limit = config.workflow_yaml_max_bytes
    try:
        async with read_form(request, FIELDS, max_text_bytes=limit, example=CURL) as form:
            data = await _workflow_bytes(form, limit)
            texts = {name: value for name, value in form.items() if isinstance(value, str) and name != "workflow"}
    except RequestTooLarge as error:
        raise _too_large(limit) from error  # all other parts are small
    flow = await read_flow_file_aside(data, max_bytes=limit, allowed=patterns_of(config.callable_allow))
    workflow = Workflow(data.decode(), flow)  # decodable: other bytes are rejected
    fields = validate(schemas.RunYamlFields, texts)
    asked = request_of(
        caller_of(request),
        config,
        flow_name=fields.flow_name,
        params=bounded_json(_params(workflow.flow.defaults, fields.params), largest_params(config), "params"),
        tag=fields.routing_tag,
        timeout_sec=fields.timeout_sec,
    )
    contents = {"workflow": data, **{name: value.encode() for name, value in texts.items()}}
    digest = of_form(FormPart.of(name, content) for name, content in contents.items())
    async with IdempotentRequest(request, digest, new_id=executions.stores.ids.run_id) as once:
        if turn := once.attempt:
            found = await check_run(request, workflow.stamped(asked), turn, strict=fields.strict)
            execution = await executions.submit(
                asked, (asked.tag,), turn.context, workflow, run_id=RunId(turn.resource_id)
            )
            once.response = accepted(execution, executions.stores.durability, found)
    return once.answer


def _params(defaults: Mapping[str, Any], text: str) -> Mapping[str, Any]:
    """The defaults of the file with these values; a key that it does not have is a mistake."""
    given = parse_json(text.encode(), FEW_MARKS)
    if not isinstance(given, dict):
        raise InvalidRequest("params must be a JSON object")
    unknown = [name for name in given if name not in defaults]
    if unknown and not defaults:
        raise InvalidRequest(f"params: {unknown[0][:60]!r} is given, but the file has no flow.defaults")
    if unknown:
        known = ", ".join(list(defaults)[:MAX_NAMED])
        raise InvalidRequest(f"params: {unknown[0][:60]!r} is not a key of flow.defaults, which has {known}")
    return {**defaults, **given}


def _too_large(limit: int) -> WorkflowTooLarge:
    return WorkflowTooLarge(f"flow.yaml has more than {limit} bytes")


async def _workflow_bytes(form: Parts, limit: int) -> bytes:
    part = form.get("workflow")
    if part is None:
        raise InvalidRequest("the part 'workflow' is missing: the flow.yaml as a file")
    if isinstance(part, str):
        return part.encode()
    if (part.size or 0) > limit:
        raise _too_large(limit)
    return await part.read()


router.add_api_route(
    "/yaml",
    submit_run_yaml,
    methods=["POST"],
    route_class_override=RawRoute,
    responses=answers(schemas.RunAccepted, 409, 413, 422, 503),
    openapi_extra=request_body(schemas.RunSubmitYamlRequest, FORM),
)

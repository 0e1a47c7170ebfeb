"""`POST /runs/yaml`: a run of a flow.yaml, as a form."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from fastapi import APIRouter, Request, Response

from pyoco_server.adapters.flow_graph import read_flow_file
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.caller import Caller
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.domain.execution.state import MAX_TIMEOUT_SEC
from pyoco_server.domain.execution.state import Request as Run
from pyoco_server.domain.flow_yaml import patterns_of
from pyoco_server.domain.idempotency.keys import FormPart
from pyoco_server.domain.ids import RunId, parse_tag
from pyoco_server.errors import InvalidRequest, RequestTooLarge, WorkflowTooLarge
from pyoco_server.http_api.api.runs import schemas
from pyoco_server.http_api.api.runs.routes import accepted
from pyoco_server.http_api.dependencies import RawRoute
from pyoco_server.http_api.middleware.authentication import requires_scope
from pyoco_server.http_api.protocol.forms import FORM, MAX_FRAME_BYTES, Parts, read_form
from pyoco_server.http_api.protocol.idempotency import IdempotentRequest, of_form
from pyoco_server.http_api.protocol.request_parsing import (
    bounded_json,
    caller_of,
    largest_params,
    request_of,
    services_of,
)
from pyoco_server.http_api.responses.problems import answers
from pyoco_server.services.executions.submit import Workflow

router = APIRouter(prefix="/runs", tags=["runs"])

FIELDS = ("workflow", "flow_name", "tag", "timeout_sec")
CURL = "-F workflow=@flow.yaml -F flow_name=main"
MAX_FLOW_NAME_CHARS = 256


@requires_scope(Scope.RUNS_WRITE)
async def submit_run_yaml(request: Request) -> Response:
    """Store and queue a run of the flow in a flow.yaml. Nothing of it is imported here; a bad file is a 422."""
    executions = services_of(request).executions
    config = executions.config
    limit = config.workflow_yaml_max_bytes
    if _declared_bytes(request) > limit + MAX_FRAME_BYTES:
        raise _too_large(limit)
    try:
        async with read_form(request, FIELDS, max_text_bytes=limit, example=CURL) as form:
            data = await _workflow_bytes(form, limit)
            texts = {name: value for name, value in form.items() if isinstance(value, str) and name != "workflow"}
    except RequestTooLarge as error:
        raise _too_large(limit) from error  # all other parts are small
    # A hostile file takes tenths of a second, which would block all other requests.
    workflow = await asyncio.to_thread(_parse_workflow, data, config)
    asked, labels = _submit_request(texts, workflow, config, caller_of(request))
    contents = {"workflow": data, **{name: value.encode() for name, value in texts.items()}}
    digest = of_form(FormPart.of(name, content) for name, content in contents.items())
    async with IdempotentRequest(request, digest, new_id=executions.stores.ids.run_id) as once:
        if turn := once.attempt:
            execution = await executions.submit(asked, labels, turn.context, workflow, run_id=RunId(turn.resource_id))
            once.response = accepted(execution, executions.stores.durability)
    return once.answer


def _declared_bytes(request: Request) -> int:
    """The Content-Length; 0 without a valid one."""
    declared = request.headers.get("content-length", "")
    return int(declared) if declared.isdecimal() and len(declared) < 20 else 0


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


def _parse_workflow(data: bytes, config: NatsBackendConfig) -> Workflow:
    allowed = patterns_of(config.callable_allow)
    flow = read_flow_file(data, max_bytes=config.workflow_yaml_max_bytes, allowed=allowed)
    return Workflow(data.decode(), flow)  # decodable: read_flow_file rejects other bytes


def _submit_request(
    form: Mapping[str, str], workflow: Workflow, config: NatsBackendConfig, caller: Caller
) -> tuple[Run, tuple[str, ...]]:
    """The request of a caller and its labels. The params are the flow's own defaults."""
    if "flow_name" not in form:
        raise InvalidRequest("the part 'flow_name' is missing: the name under which the run is shown")
    if not 1 <= len(form["flow_name"]) <= MAX_FLOW_NAME_CHARS:
        raise InvalidRequest(f"flow_name must have 1 to {MAX_FLOW_NAME_CHARS} characters")
    request = request_of(
        caller,
        config,
        flow_name=form["flow_name"],
        params=bounded_json(workflow.flow.defaults, largest_params(config), "params"),
        tag=parse_tag(form["tag"]) if "tag" in form else None,
        timeout_sec=_timeout_sec(form.get("timeout_sec")),
    )
    return request, (request.tag,)


def _timeout_sec(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MAX_TIMEOUT_SEC:
        raise InvalidRequest(f"timeout_sec must be a number above 0 and at most {MAX_TIMEOUT_SEC:.0f}")
    return seconds


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

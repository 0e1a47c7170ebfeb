"""The form of `POST /runs/yaml` → the words of the core. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.caller import Caller
from pyoco_server.domain.execution.state import MAX_TIMEOUT_SEC, Request
from pyoco_server.domain.flow_yaml.document import patterns_of, read_flow_file
from pyoco_server.domain.ids import parse_tag
from pyoco_server.errors import InvalidRequest, WorkflowTooLarge
from pyoco_server.http_api.protocol.multipart import MAX_FRAME_BYTES, Limit
from pyoco_server.http_api.protocol.request_parsing import checked_params
from pyoco_server.services.executions.submit import Workflow

MAX_FLOW_NAME_CHARS = 256
MAX_FLOW_NAME_BYTES = 4 * MAX_FLOW_NAME_CHARS
MAX_TAG_BYTES = 64
MAX_NUMBER_BYTES = 32


def limits(config: NatsBackendConfig) -> dict[str, Limit]:
    """The parts that the form may have."""
    return {
        "workflow": Limit(config.workflow_yaml_max_bytes, lambda: too_large(config)),
        "flow_name": Limit(MAX_FLOW_NAME_BYTES, _bad_flow_name),
        "tag": Limit(MAX_TAG_BYTES, lambda: InvalidRequest(f"tag has more than {MAX_TAG_BYTES} characters")),
        "timeout_sec": Limit(MAX_NUMBER_BYTES, _bad_timeout),
    }


def check_size(declared: int, config: NatsBackendConfig) -> None:
    """Whatever else is in a form of this size, its workflow is too large: all other parts are small."""
    if declared > config.workflow_yaml_max_bytes + MAX_FRAME_BYTES:
        raise too_large(config)


def too_large(config: NatsBackendConfig) -> WorkflowTooLarge:
    return WorkflowTooLarge(f"flow.yaml has more than {config.workflow_yaml_max_bytes} bytes")


def workflow(form: Mapping[str, bytes], config: NatsBackendConfig) -> Workflow:
    """The flow.yaml in the form, checked."""
    if "workflow" not in form:
        raise InvalidRequest("the part 'workflow' is missing: the flow.yaml as a file")
    data = form["workflow"]
    allowed = patterns_of(config.callable_allow)
    flow = read_flow_file(data, max_bytes=config.workflow_yaml_max_bytes, allowed=allowed)
    return Workflow(data.decode(), flow)


def submit_request(
    form: Mapping[str, bytes], workflow: Workflow, config: NatsBackendConfig, caller: Caller
) -> tuple[Request, tuple[str, ...]]:
    """What was asked for and by whom, and its labels. The params are the flow's own defaults."""
    tag = parse_tag(_text(form, "tag") if "tag" in form else config.default_tag)
    request = Request(
        flow_name=_flow_name(form),
        tag=tag,
        input=checked_params(workflow.flow.defaults, config),
        tenant_id=caller.tenant_id,
        api_key_id=caller.api_key_id,
        timeout_sec=_timeout_sec(form),
    )
    return request, (tag,)


def _timeout_sec(form: Mapping[str, bytes]) -> float | None:
    if "timeout_sec" not in form:
        return None
    try:
        seconds = float(_text(form, "timeout_sec"))
    except ValueError as error:
        raise _bad_timeout() from error
    if not 0 < seconds <= MAX_TIMEOUT_SEC:
        raise _bad_timeout()
    return seconds


def _bad_timeout() -> InvalidRequest:
    return InvalidRequest(f"timeout_sec must be a number above 0 and at most {MAX_TIMEOUT_SEC:.0f}")


def _flow_name(form: Mapping[str, bytes]) -> str:
    if "flow_name" not in form:
        raise InvalidRequest("the part 'flow_name' is missing: the name under which the run is shown")
    name = _text(form, "flow_name")
    if not 1 <= len(name) <= MAX_FLOW_NAME_CHARS:
        raise _bad_flow_name()
    return name


def _bad_flow_name() -> InvalidRequest:
    return InvalidRequest(f"flow_name must have 1 to {MAX_FLOW_NAME_CHARS} characters")


def _text(form: Mapping[str, bytes], name: str) -> str:
    try:
        return form[name].decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{name} is not UTF-8 text") from error

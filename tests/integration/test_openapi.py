"""The OpenAPI document against the gateway: responses to valid and nearly valid requests conform to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app
from support.broker import Broker
from support.executions import NEXT, NODE, Caller
from support.gateways import gateway_settings
from support.served import served


def _models() -> dict[tuple[str, str, int], Any]:
    """The response model of every method, path and status."""
    found: dict[tuple[str, str, int], Any] = {}
    for route in create_app(NatsBackendConfig()).router.routes:
        if not isinstance(route, APIRoute):
            continue
        for method in route.methods or ():
            for status, response in route.responses.items():
                found[method, route.path_format, int(status)] = response.get("model")
            if route.response_model is not None:
                found.setdefault((method, route.path_format, route.status_code or 200), route.response_model)
    return found


MODELS = _models()


@schemathesis.check
def no_undocumented_field(_context: Any, response: Any, case: schemathesis.Case[Any]) -> None:
    """Clients are written from the document, so every field of a response must be in it."""
    model = MODELS.get((case.method.upper(), case.operation.path, response.status_code))
    if model is not None and "json" in response.headers.get("content-type", [""])[0]:
        TypeAdapter(model).validate_json(response.content, extra="forbid")


CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    no_undocumented_field,
]
OPERATIONS = [
    "GET /health",
    "GET /ready",
    "GET /jobs/{id}/logs/stream",
    "POST /jobs/{id}/ws-ticket",
    "POST /runs",
    "POST /runs/yaml",
    "GET /runs",
    "GET /runs/{run_id}",
    "GET /runs/{run_id}/tasks",
    "GET /runs/{run_id}/logs",
    "GET /runs/{run_id}/logs/matches",
    "GET /runs/{run_id}/watch",
    "POST /runs/{run_id}/cancel",
    "POST /runs/{run_id}/rerun",
    "GET /runs/{run_id}/explain",
    "GET /workers",
    "PATCH /workers/{worker_id}",
    "GET /dlq",
    "POST /dlq/{seq}/replay",
    "GET /wheels",
    "GET /wheels/history",
    "POST /wheels",
    "GET /wheels/{wheel_name}",
    "DELETE /wheels/{wheel_name}",
    "PUT /graphs/{graphId}",
    "GET /graphs",
    "GET /graphs/{graphId}",
    "GET /flows",
    "GET /flows/{name}",
    "GET /overview",
    "GET /stats",
    "GET /whoami",
    "POST /executions",
    "GET /executions",
    "GET /executions/{executionId}",
    "GET /executions/{executionId}/events",
    "POST /executions/{executionId}/start",
    "POST /executions/{executionId}/cancel",
    "POST /executions/{executionId}/archive",
    "POST /executions/{executionId}/complete",
    "POST /executions/{executionId}/fail",
    "POST /executions/{executionId}/nodes/{nodeId}/start",
    "POST /executions/{executionId}/nodes/{nodeId}/progress",
    "POST /executions/{executionId}/nodes/{nodeId}/wait",
    "POST /executions/{executionId}/nodes/{nodeId}/resume",
    "POST /executions/{executionId}/nodes/{nodeId}/success",
    "POST /executions/{executionId}/nodes/{nodeId}/fail",
    "POST /executions:claim",
    "GET /waits",
    "POST /jobs",
    "GET /jobs",
    "GET /jobs/{id}",
    "DELETE /jobs/{id}",
    "GET /jobs/{id}/tags",
    "POST /jobs/{id}/tags",
    "DELETE /jobs/{id}/tags/{tag}",
    "GET /tags",
    "GET /jobs/{id}/logs",
    "PUT /pdca/strategies/{id}",
    "DELETE /pdca/strategies/{id}",
    "GET /gui/strategies",
    "GET /gui/strategies/{id}",
    "GET /gui/strategies/{id}/results",
    "POST /pdca/recheck",
    "POST /pdca/recheck_all",
    "GET /pdca/recheck/{request_id}",
    "GET /gui/requests/{request_id}",
    "GET /gui/artifacts/{id}/url",
    "GET /gui/artifacts/{id}",
    "GET /audit",
    "GET /metrics",
]
# The document cannot forbid anything about them.
NEVER_WRONG = (
    "GET /health",
    "GET /ready",
    "GET /metrics",
    "GET /runs/{run_id}/tasks",
    "GET /runs/{run_id}/explain",
    "POST /dlq/{seq}/replay",
)
CASES = [
    *((name, GenerationMode.POSITIVE) for name in OPERATIONS),
    *((name, GenerationMode.NEGATIVE) for name in OPERATIONS if name not in NEVER_WRONG),
]
EXAMPLES = 30
# All commands share one route.
EXAMPLES_OF_A_COMMAND = 15


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway on a real socket, with one run of each kind that can be had without a worker."""
    folder: Path = tmp_path_factory.mktemp("gateway")
    with Broker(folder) as broker, served(gateway_settings(broker.url, folder)) as found:
        yield found


@pytest.fixture(scope="module")
def runs(address: str) -> list[str]:
    """Ids of existing runs: a waiting one and a cancelled one."""
    with httpx.Client(base_url=address) as client:
        ids = [client.post("/runs", json={"flow_name": "hello"}).json()["run_id"] for _ in range(2)]
        client.post(f"/runs/{ids[1]}/cancel")
    return ids


@pytest.fixture(scope="module")
def requests(address: str) -> list[str]:
    """The id of a request for a recheck, which has no batches."""
    body, key = {"window": {"lookback_days": 7}, "reason": "test"}, {"Idempotency-Key": "documented"}
    return [httpx.post(f"{address}/pdca/recheck_all", json=body, headers=key).json()["request_id"]]


@pytest.fixture
def executions(address: str) -> list[str]:
    """Ids of executions that exist: of a graph whose first node is ready, of an open one with a node at work, and one
    that has ended."""
    with httpx.Client(base_url=address) as http:
        caller = Caller(http)
        caller.put("pair")
        return [
            caller.create("pair", "start"),
            caller.create("open", "start", "node start", "node wait"),
            caller.create("open", "start", "complete"),
        ]


@pytest.fixture(scope="module")
def document(address: str) -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_url(f"{address}/openapi.json")


@pytest.mark.parametrize(("name", "mode"), CASES)
def test_every_response_conforms_to_the_document(
    document: schemathesis.BaseSchema,
    runs: list[str],
    executions: list[str],
    requests: list[str],
    name: str,
    mode: GenerationMode,
) -> None:
    method, path = name.split(" ")
    operation = document[path][method]
    # The stream and the log of the waiting run would end only with the timeout of the client.
    there = runs[1:] if path.endswith(("/watch", "/logs", "/stream")) else runs
    ids = st.fixed_dictionaries(
        {
            "run_id": st.sampled_from([None, *there]),
            "id": st.sampled_from([None, *there]),
            "executionId": st.sampled_from([None, *executions]),
            "nodeId": st.sampled_from([None, NODE, NEXT]),
            "request_id": st.sampled_from([None, *requests]),
        }
    )

    @given(case=operation.as_strategy(generation_mode=mode), known=ids)
    @settings(
        max_examples=EXAMPLES_OF_A_COMMAND if path.startswith("/executions/{") and method == "POST" else EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case: schemathesis.Case[Any], known: dict[str, str | None]) -> None:
        for parameter, value in known.items():
            if value is not None and parameter in (case.path_parameters or {}):
                case.path_parameters[parameter] = value
        _without_waiting(case)
        response = case.call_and_validate(checks=CHECKS)
        assert response.headers["x-request-id"]

    ask()


def _without_waiting(case: schemathesis.Case[Any]) -> None:
    """Sets `waitSec` to zero, because a claim would wait that long."""
    wait_sec = case.body.get("waitSec") if isinstance(case.body, dict) else None
    if isinstance(case.body, dict) and isinstance(wait_sec, int | float) and wait_sec > 0:
        case.body["waitSec"] = 0


@pytest.mark.parametrize(
    "path",
    [
        "/runs/{}",
        "/runs/{}?include=full",
        "/runs/{}/tasks",
        "/runs/{}/explain",
        "/runs/{}/logs",
        "/runs?include=all",
        "/runs",
    ],
)
def test_responses_about_existing_runs_conform_to_the_document(
    document: schemathesis.BaseSchema, runs: list[str], path: str
) -> None:
    plain = path.partition("?")[0].replace("{}", "{run_id}")
    operation = document[plain]["GET"]
    for run_id in runs:
        query = {"include": path.partition("=")[2]} if "?" in path else {}
        case = operation.Case(path_parameters={"run_id": run_id} if "{}" in path else {}, query=query)

        response = case.call_and_validate(checks=CHECKS)

        assert response.status_code == 200


@pytest.mark.parametrize("query", [{}, {"include": "graph"}, {"include": "records"}, {"at": 2**53}])
def test_responses_about_existing_executions_conform_to_the_document(
    document: schemathesis.BaseSchema, executions: list[str], query: dict[str, Any]
) -> None:
    operation = document["/executions/{executionId}"]["GET"]
    for execution_id in executions:
        case = operation.Case(path_parameters={"executionId": execution_id}, query=query)

        assert case.call_and_validate(checks=CHECKS).status_code == 200


@pytest.mark.parametrize("path", ["/executions", "/executions/{executionId}/events", "/waits", "/graphs"])
def test_lists_of_executions_conform_to_the_document(
    document: schemathesis.BaseSchema, executions: list[str], path: str
) -> None:
    for execution_id in executions if "{" in path else [""]:
        case = document[path]["GET"].Case(path_parameters={"executionId": execution_id} if execution_id else {})

        response = case.call_and_validate(checks=CHECKS)

        assert response.status_code == 200
        assert response.json()["items"]


def test_responses_to_commands_and_claims_conform_to_the_document(
    document: schemathesis.BaseSchema, address: str, executions: list[str]
) -> None:
    with httpx.Client(base_url=address) as http:
        execution_id = Caller(http).create("open", "start")
    commands: tuple[tuple[str, Any, tuple[int, int]], ...] = (
        ("/executions", {"graphId": "open"}, (202, 200)),
        ("/executions/{executionId}/nodes/{nodeId}/start", {"workerId": "w"}, (202, 200)),
        ("/executions/{executionId}/nodes/{nodeId}/success", {"output": [1]}, (202, 200)),
        ("/executions/{executionId}/complete", {}, (202, 200)),
        ("/executions:claim", {"graphIds": ["pair"], "workerId": "w"}, (200, 200)),
    )
    for path, body, statuses in commands:
        known = {"executionId": execution_id, "nodeId": NODE}
        for status in statuses:
            case = document[path]["POST"].Case(
                path_parameters={name: value for name, value in known.items() if name in path},
                body=body,
                headers={"Idempotency-Key": f"documented {path}"},
                media_type="application/json",
            )

            assert case.call_and_validate(checks=CHECKS).status_code == status


def test_the_document_has_every_path_and_every_error(address: str) -> None:
    document = httpx.get(f"{address}/openapi.json").json()

    methods = [f"{method.upper()} {path}" for path, operations in document["paths"].items() for method in operations]
    assert sorted(methods) == sorted(OPERATIONS)
    for path, operations in document["paths"].items():
        if path == "/ready":  # its problem lists all reasons
            continue
        model = "ExecutionProblem" if path.startswith(("/executions", "/graphs", "/waits")) else "Problem"
        media_type = "application/json"
        if path.startswith(("/jobs", "/tags")):
            model, media_type = "JobProblem", "application/problem+json"
        if path.startswith(("/pdca", "/gui")):
            model = "PdcaProblem"
        problem = {"$ref": f"#/components/schemas/{model}"}
        for operation in operations.values():
            failures = {code: response for code, response in operation["responses"].items() if code >= "400"}
            outage = "500" if model == "PdcaProblem" else "503"
            assert path == "/health" or outage in failures
            assert all(response["content"][media_type]["schema"] == problem for response in failures.values())


def test_every_summary_of_an_operation_consists_of_whole_sentences(address: str) -> None:
    paths = httpx.get(f"{address}/openapi.json").json()["paths"]

    first_lines = [one["description"].splitlines()[0] for operations in paths.values() for one in operations.values()]
    assert [line for line in first_lines if not line.endswith(".")] == []

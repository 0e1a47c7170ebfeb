"""The OpenAPI document against the gateway: whatever it allows, or nearly allows, is answered as it says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from support.broker import Broker
from support.gateways import gateway_settings
from support.served import served

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
OPERATIONS = [
    "GET /health",
    "POST /runs",
    "POST /runs/yaml",
    "GET /runs",
    "GET /runs/{run_id}",
    "GET /runs/{run_id}/tasks",
    "GET /runs/{run_id}/logs",
    "GET /runs/{run_id}/watch",
    "POST /runs/{run_id}/cancel",
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
    "GET /metrics",
]
# There is nothing about them that the document could forbid.
NEVER_WRONG = (
    "GET /health",
    "GET /metrics",
    "GET /runs/{run_id}/tasks",
    "GET /runs/{run_id}/explain",
    "POST /dlq/{seq}/replay",
)
CASES = [
    *((name, GenerationMode.POSITIVE) for name in OPERATIONS),
    *((name, GenerationMode.NEGATIVE) for name in OPERATIONS if name not in NEVER_WRONG),
]
EXAMPLES = 80


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway behind a real socket, with one run of each kind that can be had without a worker."""
    folder: Path = tmp_path_factory.mktemp("gateway")
    with Broker(folder) as broker, served(gateway_settings(broker.url, folder)) as found:
        yield found


@pytest.fixture(scope="module")
def runs(address: str) -> list[str]:
    """Ids of runs that exist: one that waits, one that was cancelled."""
    with httpx.Client(base_url=address) as client:
        ids = [client.post("/runs", json={"flow_name": "hello"}).json()["run_id"] for _ in range(2)]
        client.post(f"/runs/{ids[1]}/cancel")
    return ids


@pytest.fixture
def document(address: str) -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_url(f"{address}/openapi.json")


@pytest.mark.parametrize(("name", "mode"), CASES)
def test_every_answer_is_one_that_the_document_promises(
    document: schemathesis.BaseSchema, runs: list[str], name: str, mode: GenerationMode
) -> None:
    method, path = name.split(" ")
    operation = document[path][method]
    # The stream of the run that waits would end with the patience of the one who asks, and so would its log.
    there = runs[1:] if path.endswith(("/watch", "/logs")) else runs

    @given(case=operation.as_strategy(generation_mode=mode), known=st.sampled_from([None, *there]))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case: schemathesis.Case[Any], known: str | None) -> None:
        if known is not None and "run_id" in (case.path_parameters or {}):
            case.path_parameters["run_id"] = known
        answer = case.call_and_validate(checks=CHECKS)
        assert answer.headers["x-request-id"]

    ask()


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
def test_answers_about_runs_that_exist_are_as_the_document_says(
    document: schemathesis.BaseSchema, runs: list[str], path: str
) -> None:
    plain = path.partition("?")[0].replace("{}", "{run_id}")
    operation = document[plain]["GET"]
    for run_id in runs:
        query = {"include": path.partition("=")[2]} if "?" in path else {}
        case = operation.Case(path_parameters={"run_id": run_id} if "{}" in path else {}, query=query)

        answer = case.call_and_validate(checks=CHECKS)

        assert answer.status_code == 200


def test_the_document_tells_of_every_path_and_of_every_way_to_fail(address: str) -> None:
    told = httpx.get(f"{address}/openapi.json").json()

    methods = [f"{method.upper()} {path}" for path, operations in told["paths"].items() for method in operations]
    assert sorted(methods) == sorted(OPERATIONS)
    problem = {"$ref": "#/components/schemas/Problem"}
    for path, operations in told["paths"].items():
        for operation in operations.values():
            failures = {code: answer for code, answer in operation["responses"].items() if code >= "400"}
            assert path == "/health" or "503" in failures
            assert all(answer["content"]["application/json"]["schema"] == problem for answer in failures.values())

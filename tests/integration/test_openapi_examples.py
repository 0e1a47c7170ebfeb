"""Examples in the OpenAPI document have the fields and types of real responses."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.domain.auth.scopes import EVERY_SCOPE
from support.broker import Broker
from support.callers import api_key_headers, hand_out
from support.conformance import differences, document
from support.gateways import gateway_settings, serving
from support.tour import Answers, every_operation

# Of messages that streams and pages of text consist of; the tests of streams read real ones.
JSON = "application/json"


def documented(status: str = "2") -> list[tuple[str, str, str]]:
    """Operation, status and place of every JSON response of this class."""
    return [
        (f"{method.upper()} {path}", code, path)
        for path, operations in document().content["paths"].items()
        for method, operation in operations.items()
        for code, response in operation["responses"].items()
        if code.startswith(status) and JSON in response.get("content", {})
    ]


EXAMPLES = documented()


def example_of(operation: str, status: str) -> Any:
    method, path = operation.split(" ")
    content = document().content["paths"][path][method.lower()]["responses"][status]["content"][JSON]
    return content.get("example")


@pytest.fixture(scope="module")
def answers(shared_broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """What a gateway answers to one call of each operation."""
    folder: Path = tmp_path_factory.mktemp("gateway")
    config = gateway_settings(
        shared_broker.url,
        folder,
        http_auth_mode="api_key",
        worker_heartbeat_interval_sec=0.1,
        run_heartbeat_interval_sec=0.1,
    )

    async def toured() -> Answers:
        key = await hand_out(config, "team-a", *EVERY_SCOPE)
        async with serving(config) as client:
            client.headers.update(api_key_headers(key))
            return await every_operation(client, config)

    return asyncio.run(toured())


@pytest.mark.parametrize(("operation", "status", "path"), EXAMPLES)
def test_an_operation_has_an_example_that_is_valid(operation: str, status: str, path: str) -> None:
    example = example_of(operation, status)

    assert example is not None, "add one to http_api/openapi/examples.yaml"
    validator = document().validator(path, operation.split(" ")[0].lower(), status, JSON)
    assert [error.message for error in validator.iter_errors(example)] == []


@pytest.mark.parametrize(("operation", "status", "path"), EXAMPLES)
def test_an_example_has_the_fields_and_types_of_a_real_response(
    answers: Answers, operation: str, status: str, path: str
) -> None:
    method = operation.split(" ")[0].lower()
    schema = document().content["paths"][path][method]["responses"][status]["content"][JSON]["schema"]
    example = example_of(operation, status)

    real = answers[operation, int(status)]

    assert real, "add a call to tests/support/tour.py"
    assert min((differences(example, answer, schema) for answer in real), key=len) == []


def test_a_difference_in_a_field_or_a_type_is_found() -> None:
    schema = document().content["paths"]["/health"]["get"]["responses"]["200"]["content"][JSON]["schema"]
    example = example_of("GET /health", "200")
    shorter = {name: value for name, value in example.items() if name != "nats"}

    assert differences(example, example, schema) == []
    assert differences(example, shorter, schema) == ["$.nats: only in the example"]
    assert differences(shorter, example, schema) == ["$.nats: only in the response"]
    assert differences(example, example | {"nats": 1}, schema) == [
        "$.nats: string in the example, number in the response"
    ]

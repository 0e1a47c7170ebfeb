"""Access control in the OpenAPI document: the same in every mode, and as enforced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
from fastapi.routing import APIRoute

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.scopes import scope_names
from pyoco_server.http_api import create_app
from pyoco_server.http_api.middleware.authentication import is_one_enough, required_scopes
from pyoco_server.http_api.openapi.document import _in_japanese
from pyoco_server.http_api.responses.problems import PDCA, dialect_of


def test_every_operation_names_the_scopes_that_are_enforced() -> None:
    for config in (NatsBackendConfig(), NatsBackendConfig(http_auth_mode="api_key")):
        app = create_app(config)
        paths = app.openapi()["paths"]

        for route in app.router.routes:
            if not isinstance(route, APIRoute) or not route.include_in_schema:
                continue
            scopes = required_scopes(route)
            for method in route.methods or ():
                operation = paths[route.path_format][method.lower()]
                if scopes is None:
                    assert operation["security"] == []
                else:
                    words = scope_names(scopes)
                    alternatives = [[word] for word in words] if is_one_enough(route) else [words]
                    schemes = [{scheme: one} for one in alternatives for scheme in ("ApiKey", "Bearer")]
                    assert operation["security"] == schemes
                    outage = "500" if dialect_of(route.path) is PDCA else "503"
                    assert {"401", "403", outage} <= set(operation["responses"])


def test_the_key_header_is_the_configured_one() -> None:
    schemes = create_app(NatsBackendConfig(http_api_key_header="X-Team-Key")).openapi()["components"]["securitySchemes"]

    assert schemes["ApiKey"] == {"type": "apiKey", "in": "header", "name": "X-Team-Key"}
    assert schemes["Bearer"]["scheme"] == "bearer"


def test_the_document_is_the_same_each_time() -> None:
    app = create_app(NatsBackendConfig())

    assert app.openapi() == app.openapi()


async def test_the_document_is_in_the_language_of_the_request_and_cached_per_language() -> None:
    transport = httpx.ASGITransport(app=create_app(NatsBackendConfig()))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        english = await client.get("/openapi.json")
        japanese = await client.get("/openapi.json", headers={"Accept-Language": "ja-JP,ja;q=0.9,en;q=0.8"})
        known = {"Accept-Language": "ja", "If-None-Match": japanese.headers["etag"]}
        unchanged = await client.get("/openapi.json", headers=known)
        other = await client.get("/openapi.json", headers=known | {"Accept-Language": "en"})

    assert english.json()["paths"]["/runs"]["post"]["summary"] == "Submit Run"
    assert japanese.json()["paths"]["/runs"]["post"]["summary"] == "run を投入する"
    assert (english.headers["content-language"], japanese.headers["content-language"]) == ("en", "ja")
    assert english.headers["vary"] == japanese.headers["vary"] == "Accept-Language"
    assert (unchanged.status_code, unchanged.content, other.content) == (304, b"", english.content)


def test_the_japanese_document_differs_in_its_texts_only() -> None:
    app = create_app(NatsBackendConfig())
    english, japanese = app.openapi(), _in_japanese(app.openapi())

    assert list(_without_texts(english)) == list(_without_texts(japanese))
    assert english != japanese


def test_every_reference_resolves() -> None:
    document = create_app(NatsBackendConfig()).openapi()
    references = list(_references(document))

    assert references
    for reference in references:
        found = document
        for part in reference.removeprefix("#/").split("/"):
            assert part in found, reference
            found = found[part]


def _without_texts(node: Any) -> Iterator[Any]:
    if isinstance(node, dict):
        for name, part in node.items():
            yield name
            if name not in ("summary", "description") or not isinstance(part, str):
                yield from _without_texts(part)
    elif isinstance(node, list):
        for part in node:
            yield from _without_texts(part)
    else:
        yield node


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for one in node:
            yield from _references(one)
    elif isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for one in node.values():
            yield from _references(one)


def test_every_execution_command_has_an_example_valid_for_its_schema() -> None:
    paths = create_app(NatsBackendConfig()).openapi()["paths"]
    commands = {
        path: methods["post"]["requestBody"]
        for path, methods in paths.items()
        if path.startswith("/executions") and "post" in methods
    }

    assert len(commands) == 13
    for path, body in commands.items():
        schema = body["content"]["application/json"]["schema"]
        example = schema.get("example", {})
        assert set(schema.get("required", ())) <= example.keys() <= schema["properties"].keys(), path
        assert example or not schema["properties"], path

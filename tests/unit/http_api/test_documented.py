"""The OpenAPI document about access: the same in every mode, and as the guard has it."""

from __future__ import annotations

from fastapi.routing import APIRoute

from pyoco_server.access.scopes import in_words
from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app
from pyoco_server.http_api.guard import decision_of


def test_every_operation_names_the_scopes_that_the_guard_asks_for() -> None:
    for config in (NatsBackendConfig(), NatsBackendConfig(http_auth_mode="api_key")):
        app = create_app(config)
        paths = app.openapi()["paths"]

        for route in app.router.routes:
            if not isinstance(route, APIRoute) or not route.include_in_schema:
                continue
            scopes = decision_of(route)
            for method in route.methods or ():
                operation = paths[route.path][method.lower()]
                if scopes is None:
                    assert operation["security"] == []
                else:
                    words = in_words(scopes)
                    assert operation["security"] == [{"ApiKey": words}, {"Bearer": words}]
                    assert {"401", "403", "503"} <= set(operation["responses"])


def test_the_header_of_the_key_is_the_one_that_is_set() -> None:
    schemes = create_app(NatsBackendConfig(http_api_key_header="X-Team-Key")).openapi()["components"]["securitySchemes"]

    assert schemes["ApiKey"] == {"type": "apiKey", "in": "header", "name": "X-Team-Key"}
    assert schemes["Bearer"]["scheme"] == "bearer"


def test_asking_twice_gives_the_same_document() -> None:
    app = create_app(NatsBackendConfig())

    assert app.openapi() == app.openapi()

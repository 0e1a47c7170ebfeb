"""Adds credentials, scopes and idempotency keys of each operation to the OpenAPI document."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from pyoco_server.domain.auth.scopes import Scope, scope_names
from pyoco_server.http_api.middleware.authentication import required_scopes
from pyoco_server.http_api.protocol.idempotency import REPLAYED, is_answered_anew, parameters
from pyoco_server.http_api.responses.problems import JobProblem, dialect_of

_REFUSALS = {
    "401": "No credentials, or a bearer token that is not accepted (with authentication on)",
    "403": "An API key that is not accepted, a scope that is missing, or a page of another site",
}
# Of every operation but the probes.
_MISTAKES = {
    "400": "No Host header, several of them, or a malformed one",
    "421": "A host name that is not among `PYOCO_HTTP_ALLOWED_HOSTS`",
    "422": "An invalid request, for example a query parameter that the operation does not have",
}
_CHANGING = ("POST", "PUT", "PATCH", "DELETE")
_REPLAYED = {
    "description": "`true`: the stored answer of an earlier request with the same key.",
    "schema": {"type": "string", "enum": ["true"]},
}


class DocumentedApp(FastAPI):
    """The document describes access in every mode: a client is written once for all of them."""

    def openapi(self) -> dict[str, Any]:
        document = super().openapi()
        header = getattr(self.state, "api_key_header", "X-API-Key")
        document.setdefault("components", {})["securitySchemes"] = {
            "ApiKey": {"type": "apiKey", "in": "header", "name": header},
            "Bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
        }
        # The framework knows the models of JSON bodies only.
        document["components"].setdefault("schemas", {})[JobProblem.__name__] = JobProblem.model_json_schema()
        for route in self.router.routes:
            if isinstance(route, APIRoute) and route.include_in_schema:
                scopes = required_scopes(route)
                for method in route.methods or ():
                    operation = document["paths"][route.path_format][method.lower()]
                    _describe(operation, scopes, route.path)
                    if method in _CHANGING and not is_answered_anew(route.endpoint):
                        _describe_keys(operation)
        return document


def _describe_keys(operation: dict[str, Any]) -> None:
    """Every changing request may carry an idempotency key."""
    known = operation.setdefault("parameters", [])
    named = {parameter["name"] for parameter in known}
    known += [parameter for parameter in parameters() if parameter["name"] not in named]
    for status, response in operation["responses"].items():
        if status.startswith("2") or status == "409":
            response.setdefault("headers", {})[REPLAYED] = _REPLAYED


def _describe(operation: dict[str, Any], scopes: frozenset[Scope] | None, path: str) -> None:
    if scopes is None:
        operation["security"] = []
        return
    words = scope_names(scopes)
    operation["security"] = [{"ApiKey": words}, {"Bearer": words}]
    content = dialect_of(path).content
    for status, description in (_REFUSALS | _MISTAKES).items():
        operation["responses"].setdefault(status, {"description": description, "content": content})

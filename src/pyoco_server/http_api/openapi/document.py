"""The OpenAPI document: credentials, scopes and idempotency keys of each operation, in English and Japanese."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute

from pyoco_server.domain.auth.scopes import Scope, scope_names
from pyoco_server.http_api.middleware.authentication import is_one_enough, required_scopes
from pyoco_server.http_api.middleware.rate_limits import NOT_LIMITED
from pyoco_server.http_api.protocol.conditional import is_known, strong_tag
from pyoco_server.http_api.protocol.idempotency import REPLAYED, is_answered_anew, parameters
from pyoco_server.http_api.responses import json_response
from pyoco_server.http_api.responses.negotiation import preferred_language
from pyoco_server.http_api.responses.problems import PDCA, JobProblem, dialect_of
from pyoco_server.japanese import japanese

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
_LIMITED = {
    "429": "More requests, or more open streams, than this caller may have; `Retry-After` says when to send it again"
}
_CHANGING = ("POST", "PUT", "PATCH", "DELETE")
_REPLAYED = {
    "description": "`true`: the stored answer of an earlier request with the same key.",
    "schema": {"type": "string", "enum": ["true"]},
}


# Values that a program sends or gets: the same in every language.
_VALUES = ("example", "examples", "default", "enum", "const")


class DocumentedApp(FastAPI):
    """The document describes access in every mode: a client is written once for all of them."""

    def setup(self) -> None:
        """Serve the document in the language of the request."""
        documents: dict[tuple[str, str], tuple[bytes, str]] = {}

        async def openapi(request: Request) -> Response:
            language, root = preferred_language(request), request.scope.get("root_path", "").rstrip("/")
            if (language, root) not in documents:
                body = orjson.dumps(self._document(language, root))
                documents[language, root] = body, strong_tag(language, body.decode())
            body, tag = documents[language, root]
            headers = {
                "ETag": tag,
                "Vary": "Accept-Language",
                "Content-Language": language,
                "Cache-Control": "private, no-cache",
            }
            if is_known(request.headers.get("if-none-match"), tag):
                return Response(status_code=304, headers=headers)
            return json_response(body, headers=headers)

        if self.openapi_url:
            self.add_route(self.openapi_url, openapi, include_in_schema=False)

    def _document(self, language: str, root: str) -> dict[str, Any]:
        document = self.openapi()
        if root:
            document = document | {"servers": [{"url": root}, *document.get("servers", [])]}
        return _in_japanese(document) if language == "ja" else document

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
                    if dialect_of(route.path) is PDCA:
                        # The framework adds it to every operation with parameters; here it is a 400.
                        operation["responses"].pop("422", None)
                    _describe(operation, scopes, route.path, is_one_enough=is_one_enough(route))
                    if method in _CHANGING and not is_answered_anew(route.endpoint):
                        _describe_keys(operation)
        return document


def _in_japanese(node: Any) -> Any:
    """The same document with the texts for people in Japanese."""
    if isinstance(node, list):
        return [_in_japanese(part) for part in node]
    if not isinstance(node, dict):
        return node
    return {
        name: part
        if name in _VALUES
        else japanese(part, "openapi")
        if name in ("summary", "description") and isinstance(part, str)
        else _in_japanese(part)
        for name, part in node.items()
    }


def _describe_keys(operation: dict[str, Any]) -> None:
    """Every changing request may carry an idempotency key."""
    known = operation.setdefault("parameters", [])
    named = {parameter["name"] for parameter in known}
    known += [parameter for parameter in parameters() if parameter["name"] not in named]
    for status, response in operation["responses"].items():
        if status.startswith("2") or status == "409":
            response.setdefault("headers", {})[REPLAYED] = _REPLAYED


def _describe(operation: dict[str, Any], scopes: frozenset[Scope] | None, path: str, *, is_one_enough: bool) -> None:
    if scopes is None:
        operation["security"] = []
        return
    words = scope_names(scopes)
    # The entries are alternatives, and so are not the scopes of an entry.
    alternatives = [[word] for word in words] if is_one_enough else [words]
    operation["security"] = [{scheme: one} for one in alternatives for scheme in ("ApiKey", "Bearer")]
    dialect = dialect_of(path)
    content = dialect.content
    general = _REFUSALS if dialect is PDCA else _REFUSALS | _MISTAKES
    limited = {} if path in NOT_LIMITED else _LIMITED
    for status, description in (general | limited).items():
        operation["responses"].setdefault(status, {"description": description, "content": content})

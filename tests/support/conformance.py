"""Every JSON response of a gateway in a test, checked against the OpenAPI document."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jsonschema_rs
import orjson
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app

# What the gateway has answered so far in this process, and what was wrong with it.
violations: list[str] = []
MAX_SHOWN = 3


@dataclass(slots=True)
class _Answer:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip()

    @property
    def is_json(self) -> bool:
        return self.media_type.endswith("json")


def checked(app: ASGIApp) -> ASGIApp:
    """The same app; what does not conform is added to `violations`."""

    async def checking(scope: Scope, receive: Receive, send: Send) -> None:
        answer = _Answer()

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = {name.decode().lower(): value.decode("latin-1") for name, value in message["headers"]}
            elif message["type"] == "http.response.body":
                if answer.is_json:
                    answer.body += message.get("body", b"")
                if not message.get("more_body", False):
                    violations.extend(document().mistakes(scope["method"], scope["path"], answer))
            await send(message)

        await app(scope, receive, sending if scope["type"] == "http" else send)

    return checking


class Document:
    """The OpenAPI document, with schemas that allow no field which they do not name."""

    def __init__(self) -> None:
        app = create_app(NatsBackendConfig())
        self.content: dict[str, Any] = app.openapi()
        self._strict = _strict(self.content)
        self._routes = [route for route in app.router.routes if isinstance(route, APIRoute) and route.include_in_schema]
        self._validators: dict[tuple[str, str, str, str], jsonschema_rs.Draft202012Validator] = {}

    def operation(self, method: str, path: str) -> tuple[str, str] | None:
        """The path as it is in the document, and the method."""
        for route in self._routes:
            if method in (route.methods or ()) and route.path_regex.match(path):
                return route.path_format, method.lower()
        return None

    def mistakes(self, method: str, path: str, answer: _Answer) -> list[str]:
        found = self.operation(method, path)
        if found is None:
            return []
        place = f"{method} {path} {answer.status}"
        response = self.content["paths"][found[0]][found[1]]["responses"].get(str(answer.status))
        if response is None:
            return [f"{place}: this status is not documented: {bytes(answer.body[:500])!r}"]
        content = response.get("content", {})
        if not answer.media_type:
            return []
        if answer.media_type not in content:
            return [f"{place}: {answer.media_type} is not documented"]
        if not answer.is_json:
            return []
        value = orjson.loads(answer.body)
        validator = self.validator(*found, str(answer.status), answer.media_type)
        return [f"{place} {_pointer(error)}: {error.message[:500]}" for error in validator.iter_errors(value)]

    def validator(self, path: str, method: str, status: str, media_type: str) -> jsonschema_rs.Draft202012Validator:
        """Of the responses of an operation; made once."""
        key = path, method, status, media_type
        if key not in self._validators:
            response = self._strict["paths"][path][method]["responses"][status]
            schema = response["content"][media_type].get("schema", {})
            self._validators[key] = jsonschema_rs.Draft202012Validator(
                {**schema, "components": self._strict["components"]}
            )
        return self._validators[key]


@cache
def document() -> Document:
    return Document()


def differences(example: Any, answer: Any, schema: Any, place: str = "$") -> list[str]:
    """Where the keys or types differ; null fits everything, and maps may have any keys."""
    if example is None or answer is None:
        return []
    if _kind(example) != _kind(answer):
        return [f"{place}: {_kind(example)} in the example, {_kind(answer)} in the response"]
    schema = _one_of(schema, example)
    if isinstance(example, dict):
        fields = schema.get("properties", {})
        if not fields:
            return []
        found = [f"{place}.{name}: only in the example" for name in example.keys() - answer.keys()]
        found += [f"{place}.{name}: only in the response" for name in answer.keys() - example.keys()]
        both = example.keys() & answer.keys() & fields.keys()
        return found + [
            line
            for name in sorted(both)
            for line in differences(example[name], answer[name], fields[name], f"{place}.{name}")
        ]
    if isinstance(example, list) and answer:
        # One of them has to be like it: lists hold things in different states.
        lines: list[str] = []
        for position, one in enumerate(example):
            here, items = f"{place}[{position}]", schema.get("items", {})
            closest: list[str] = min((differences(one, other, items, here) for other in answer), key=len)
            lines += closest
        return lines
    return []


def _kind(value: Any) -> str:
    names = {bool: "boolean", int: "number", float: "number", str: "string", list: "array"}
    return names.get(type(value), "object")


def _one_of(schema: Any, value: Any) -> Any:
    """The alternative that describes this value, with its reference resolved."""
    parts = document().content["components"]
    while "$ref" in schema:
        schema = parts["schemas"][schema["$ref"].rpartition("/")[2]]
    for part in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        if jsonschema_rs.is_valid({**part, "components": parts}, value):
            return _one_of(part, value)
    return schema


def new_violations() -> list[str]:
    """Those since the last call."""
    found = list(dict.fromkeys(violations))
    violations.clear()
    return found[:MAX_SHOWN]


def _pointer(error: jsonschema_rs.ValidationError) -> str:
    return "".join(f"/{word}" for word in error.instance_path)


def _strict(node: Any) -> Any:
    if isinstance(node, list):
        return [_strict(part) for part in node]
    if not isinstance(node, dict):
        return node
    copied: MutableMapping[str, Any] = {name: _strict(part) for name, part in node.items()}
    if isinstance(copied.get("properties"), dict) and "type" in copied:
        copied.setdefault("additionalProperties", False)
    return copied

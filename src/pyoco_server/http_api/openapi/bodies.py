"""The bodies that routes parse by themselves, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from pyoco_server.http_api.protocol.idempotency import parameters

Schema = dict[str, Any]


def request_body(model: type[BaseModel], *media_types: str) -> dict[str, Any]:
    """A body of this model, as JSON unless given."""
    schema = model.model_json_schema()
    # A reference of a schema that stands in a document is looked up in the document, which has no such place.
    whole: Schema = _without_references(schema, schema.pop("$defs", {}))
    required = any(field.is_required() for field in model.model_fields.values())
    content = {media_type: {"schema": whole} for media_type in media_types or ("application/json",)}
    return {"requestBody": {"required": required, "content": content}}


def command_request(model: type[BaseModel], *ids: str) -> dict[str, Any]:
    """The path parameters, headers and body of a command, with an example."""
    described = request_body(model)
    schema = described["requestBody"]["content"]["application/json"]["schema"]
    if example := _example(schema):
        schema["example"] = example
    paths = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in ids]
    return {"parameters": [*paths, *parameters(required=True)], **described}


def _without_references(node: Any, known: Schema) -> Any:
    if isinstance(node, list):
        return [_without_references(one, known) for one in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _without_references(known[node["$ref"].rpartition("/")[2]], known)
    return {name: _without_references(one, known) for name, one in node.items()}


def _example(schema: Schema) -> Any:
    """An example made of those of its fields; None where there is none."""
    if "examples" in schema:
        return schema["examples"][0]
    if "properties" in schema:
        fields = {name: _example(one) for name, one in schema["properties"].items()}
        return {name: example for name, example in fields.items() if example is not None}
    return next((found for one in schema.get("anyOf", ()) if (found := _example(one)) is not None), None)

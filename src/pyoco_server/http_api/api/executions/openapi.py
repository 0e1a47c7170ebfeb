"""What the OpenAPI document says of the bodies of commands: whole schemas with an example, and nothing to look up."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from pyoco_server.http_api.protocol.idempotency import parameters

Schema = dict[str, Any]


def describe(body: type[BaseModel], *ids: str) -> dict[str, Any]:
    """The path parameters, headers and body of a route that reads its request by itself."""
    schema = body.model_json_schema(by_alias=True)
    # A reference of a schema that stands in a document is looked up in the document, which has no such place.
    whole: Schema = without_references(schema, schema.pop("$defs", {}))
    required = any(field.is_required() for field in body.model_fields.values())
    example = _example(whole)
    if example:
        whole["example"] = example
    paths = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in ids]
    return {
        "parameters": [*paths, *parameters(required=True)],
        "requestBody": {"required": required, "content": {"application/json": {"schema": whole}}},
    }


def without_references(node: Any, known: Schema) -> Any:
    if isinstance(node, list):
        return [without_references(one, known) for one in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return without_references(known[node["$ref"].rpartition("/")[2]], known)
    return {name: without_references(one, known) for name, one in node.items()}


def _example(schema: Schema) -> Any:
    """An example made of those of its fields; None where there is none."""
    if "examples" in schema:
        return schema["examples"][0]
    if "properties" in schema:
        fields = {name: _example(one) for name, one in schema["properties"].items()}
        return {name: example for name, example in fields.items() if example is not None}
    return next((found for one in schema.get("anyOf", ()) if (found := _example(one)) is not None), None)

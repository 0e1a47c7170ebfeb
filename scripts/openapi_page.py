"""docs/openapi.yaml: the OpenAPI document of a gateway with default settings, arranged for people."""

from __future__ import annotations

from typing import Any

import yaml

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app

NOTICE = """\
# The contract of the HTTP API. Written by scripts/gen-docs from the code: change the code, then run it.
# A gateway serves the same document at /openapi.json. Rules for changes: CONTRIBUTING.md.
"""
# What a reader needs first; other keys follow in the order of the code.
FIRST = (
    "openapi", "info", "tags", "summary", "title", "name", "in", "deprecated", "type", "$ref", "description",
    "operationId", "security", "required", "parameters", "schema", "properties", "requestBody", "responses", "headers",
    "content", "paths", "components",
)  # fmt: skip
# Their keys are names, not words of OpenAPI.
NAMED = ("paths", "properties", "content", "headers", "schemas", "responses", "securitySchemes", "$defs")
SORTED = ("schemas", "responses", "securitySchemes")
VALUES = ("example", "examples", "default", "enum", "const", "required")


# Not the faster one of libyaml, which wraps lines differently and is not everywhere.
class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def openapi_page() -> str:
    """The text of the file: the same for the same code."""
    document = arranged(create_app(NatsBackendConfig()).openapi())
    return NOTICE + yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def arranged(node: Any, *, within: str = "") -> Any:
    """The same document in the order in which it is read."""
    if isinstance(node, list):
        return [arranged(part) for part in node]
    if not isinstance(node, dict):
        return node
    names = list(node)
    if within in SORTED:
        names.sort()
    elif within not in NAMED:
        names.sort(key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    is_word = within not in NAMED
    return {
        name: node[name] if is_word and name in VALUES else arranged(node[name], within=name if is_word else "")
        for name in names
    }

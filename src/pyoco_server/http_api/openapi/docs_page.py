"""`/docs`: the OpenAPI document as one page that needs nothing else: no script, no font, no other host."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from pyoco_server.http_api.middleware.authentication import requires_scope

router = APIRouter(include_in_schema=False)

Plain = Mapping[str, Any]

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
pre { background: #f4f4f2; padding: .7rem; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; vertical-align: top; padding: .25rem .7rem
.25rem 0; border-bottom: 1px solid #ddd; } details { margin: .6rem 0; border: 1px solid #ddd; padding: .4rem .8rem; }
summary { cursor: pointer; } .verb { display: inline-block; min-width: 4.2rem; font-weight: 600; }
@media (prefers-color-scheme: dark) { body { background: #1b1b1b; color: #ddd; } pre { background: #2a2a2a; }
th, td, details { border-color: #444; } a { color: #8cf; } }
"""


@router.get("/docs")
@requires_scope()
async def docs(request: Request) -> HTMLResponse:
    """Every path there is, for people."""
    return HTMLResponse(
        page(request.app.openapi()),
        headers={"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"},
    )


def page(document: Plain) -> str:
    """The whole document as HTML; whatever stands in it is shown, not interpreted."""
    info = document["info"]
    title = f"{info['title']} {info['version']}"
    operations = [
        _operation(method, path, operation, document)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    schemas = [_schema(name, schema) for name, schema in sorted(_schemas(document).items())]
    return "\n".join(
        [
            "<!doctype html><html lang=en><head><meta charset=utf-8>",
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1><p>{_prose(info.get('description', ''))}</p>",
            "<p>For programs: <a href=/openapi.json>openapi.json</a>. What has a ? may be left out.</p>",
            "<h2>Paths</h2>",
            *operations,
            "<h2>Shapes</h2>",
            *schemas,
            "</body></html>",
        ]
    )


def _operation(method: str, path: str, operation: Plain, document: Plain) -> str:
    parts = [
        f"<details><summary><code><span class=verb>{escape(method.upper())}</span>{escape(path)}</code> "
        f"{_prose(_first_line(operation))}</summary>",
        f"<p>{_prose(operation.get('description', ''))}</p>",
        *_needed(operation.get("security", ())),
        *_parameters(operation.get("parameters", ())),
        *_body(operation.get("requestBody")),
        "<h4>Answers</h4>",
        *_answers(operation["responses"], document),
        "</details>",
    ]
    return "\n".join(parts)


def _first_line(operation: Plain) -> str:
    text: str = operation.get("description") or operation.get("summary", "")
    return text.partition("\n")[0]


def _needed(security: Any) -> Iterator[str]:
    """Every way to show who one is asks for the same scopes."""
    if security:
        scopes = next(iter(security[0].values()))
        yield f"<p>Where access is controlled: {escape(' and '.join(scopes) or 'anybody who is known')}.</p>"


def _parameters(parameters: Any) -> Iterator[str]:
    if parameters:
        yield "<h4>Parameters</h4>"
        yield _table(
            ("name", "in", "what"),
            [
                (
                    one["name"] + ("" if one.get("required") else " ?"),
                    one["in"],
                    " ".join([_in_words(one.get("schema", {})), one.get("description", "")]),
                )
                for one in parameters
            ],
        )


def _body(body: Plain | None) -> Iterator[str]:
    if body:
        yield f"<h4>Body{'' if body.get('required') else ' (may be left out)'}</h4>"
        for kind, content in body["content"].items():
            schema = content.get("schema", {})
            yield f"<p><code>{escape(kind)}</code>: {_linked(schema)}</p>"
            if "properties" in schema:
                yield _fields(schema)
            yield from _example(content)


def _answers(responses: Plain, document: Plain) -> Iterator[str]:
    rows = []
    for status, answer in responses.items():
        answer = _resolved(answer, document)
        shapes = [
            f"<code>{escape(kind)}</code> {_linked(c.get('schema', {}))}"
            for kind, c in answer.get("content", {}).items()
        ]
        about = _prose(answer.get("description", ""))
        rows.append(f"<tr><td>{escape(status)}</td><td>{about}</td><td>{' '.join(shapes)}</td></tr>")
    yield f"<table>{''.join(rows)}</table>"


def _resolved(node: Plain, document: Plain) -> Plain:
    if "$ref" not in node:
        return node
    found: Any = document
    for part in node["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return dict(found)


def _example(content: Plain) -> Iterator[str]:
    schema = content.get("schema", {})
    examples = [content["example"]] if "example" in content else [schema["example"]] if "example" in schema else []
    for example in examples:
        shown = example if isinstance(example, str) else json.dumps(example, ensure_ascii=False, indent=2)
        yield f"<pre>{escape(shown)}</pre>"


def _schemas(document: Plain) -> Plain:
    found: Plain = document.get("components", {}).get("schemas", {})
    return found


def _schema(name: str, schema: Plain) -> str:
    about = _prose(schema.get("description", ""))
    return f"<h3 id={_anchor(name)}>{escape(name)}</h3><p>{about}</p>{_fields(schema)}"


def _fields(schema: Plain) -> str:
    required = schema.get("required", ())
    rows = [
        (field + ("" if field in required else " ?"), _in_words(shape), shape.get("description", ""))
        for field, shape in schema.get("properties", {}).items()
    ]
    return _table(("field", "type", "what"), rows)


def _linked(schema: Plain) -> str:
    """The shape in words, with a link to each shape that has a name."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"<a href=#{_anchor(name)}>{escape(name)}</a>"
    if "items" in schema:
        return f"array of {_linked(schema['items'])}"
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(_linked(one) for one in schema[word])
    return escape(_in_words(schema))


def _in_words(schema: Plain) -> str:
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(_in_words(one) for one in schema[word])
    if "$ref" in schema:
        name: str = schema["$ref"].rpartition("/")[2]
        return name
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "const" in schema:
        return str(schema["const"])
    if "items" in schema:
        return f"array of {_in_words(schema['items'])}"
    limits = [
        f"{name} {schema[name]}"
        for name in ("minimum", "maximum", "minLength", "maxLength", "pattern", "default")
        if name in schema
    ]
    return ", ".join([str(schema.get("type", "any")), *limits])


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{_prose(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{cells}</tr>{body}</table>"


def _prose(text: str) -> str:
    """What stands in backticks is code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def _anchor(name: str) -> str:
    return "shape-" + "".join(letter for letter in name if letter.isalnum())

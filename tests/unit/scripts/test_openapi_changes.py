"""The comparer of OpenAPI documents: every edit that breaks a client of the older document is found, no other is."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from scripts.check_openapi import document_in, main
from scripts.openapi_changes import METHODS, breaking_changes, removal_permitted_from

ROOT = Path(__file__).resolve().parents[3]
RELEASED = document_in(ROOT / "docs" / "openapi-released.yaml")
TODAY = date(2026, 11, 19)
Document: TypeAlias = dict[str, Any]
Edit: TypeAlias = Callable[[Document], object]


def an_order_api() -> Document:
    """A document with one of each thing that may change."""
    order = {
        "type": "object",
        "required": ["id", "state"],
        "properties": {
            "id": {"type": "string", "format": "uuid"},
            "state": {"enum": ["open", "sent"]},
            "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Order"}},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "place": {"type": "array", "prefixItems": [{"type": "number"}, {"type": "number"}]},
            "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
    }
    body = {
        "type": "object",
        "required": ["name"],
        "additionalProperties": False,
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 64},
            "size": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
            "kind": {"enum": ["a", "b"]},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 8},
            "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            "free": {"type": "object"},
        },
    }
    limit = {"name": "limit", "in": "query", "schema": {"type": "integer", "maximum": 200}}
    trace = {"name": "X-Trace", "in": "header", "schema": {"type": "string"}}
    answer = {
        "headers": {"X-Request-Id": {"required": True, "schema": {"type": "string"}}},
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/Order"}},
            "text/plain": {"schema": {"type": "string"}},
        },
    }
    post = {
        "operationId": "order",
        "security": [{"Key": ["orders:write"]}],
        "parameters": [limit, trace],
        "requestBody": {"required": False, "content": {"application/json": {"schema": body}}},
        "responses": {
            "200": answer,
            "201": {},
            "404": {"content": {"application/json": {"schema": {"type": "string"}}}},
        },
    }
    get = {"operationId": "list", "security": [], "responses": {"200": {}}}
    document = {
        "openapi": "3.1.0",
        "paths": {"/orders": {"post": post, "get": get}},
        "components": {"schemas": {"Order": order}},
    }
    return copy.deepcopy(document)


def post(document: Document) -> Document:
    operation: Document = document["paths"]["/orders"]["post"]
    return operation


def body(document: Document) -> Document:
    schema: Document = post(document)["requestBody"]["content"]["application/json"]["schema"]
    return schema


def field(document: Document, name: str) -> Document:
    """A field of the request."""
    found: Document = body(document)["properties"][name]
    return found


def order(document: Document) -> Document:
    """The schema of the response."""
    schema: Document = document["components"]["schemas"]["Order"]
    return schema


def answered(document: Document, name: str) -> Document:
    """A field of the response."""
    found: Document = order(document)["properties"][name]
    return found


BREAKING: dict[str, tuple[Edit, str]] = {
    "path": (lambda d: d["paths"].pop("/orders"), "the operation is gone"),
    "operation": (lambda d: d["paths"]["/orders"].pop("get"), "GET /orders: the operation is gone"),
    "operation id": (lambda d: post(d).update(operationId="other"), "operationId is no longer order"),
    "parameter": (lambda d: post(d)["parameters"].pop(0), "query parameter limit: the parameter is gone"),
    "parameter required": (lambda d: post(d)["parameters"][0].update(required=True), "is required now"),
    "parameter limit": (lambda d: post(d)["parameters"][0]["schema"].update(maximum=100), "the maximum is 100"),
    "parameter spelling": (lambda d: post(d)["parameters"][0].update(explode=False), "spelled differently"),
    "new required parameter": (
        lambda d: post(d)["parameters"].append({"name": "new", "in": "query", "required": True, "schema": {}}),
        "query parameter new: is new and required",
    ),
    "scope": (lambda d: post(d)["security"][0]["Key"].append("orders:more"), "no longer open to Key with orders:write"),
    "scheme": (lambda d: post(d).update(security=[{"Bearer": []}]), "no longer open to Key"),
    "public operation": (lambda d: d["paths"]["/orders"]["get"].update(security=[{"Key": []}]), "open to everybody"),
    "body": (lambda d: post(d).pop("requestBody"), "the body is gone"),
    "body required": (lambda d: post(d)["requestBody"].update(required=True), "a body is required now"),
    "new required body": (
        lambda d: d["paths"]["/orders"]["get"].update(requestBody={"required": True, "content": {}}),
        "a body is required now",
    ),
    "request media type": (
        lambda d: post(d)["requestBody"].update(content={"text/csv": {}}),
        "the media type application/json is gone",
    ),
    "request field": (lambda d: body(d)["properties"].pop("tags"), ".tags: the field is gone"),
    "request field retyped": (lambda d: field(d, "name").update(type="integer"), "retyped: string is no longer"),
    "new required field": (
        lambda d: (body(d)["properties"].update(new={}), body(d)["required"].append("new")),
        ".new: new and required",
    ),
    "field required": (lambda d: body(d)["required"].append("size"), ".size: the field is required now"),
    "minLength": (lambda d: field(d, "name").update(minLength=2), "minLength is 2 instead of 1"),
    "maxLength": (lambda d: field(d, "name").update(maxLength=63), "maxLength is 63 instead of 64"),
    "new maxLength": (lambda d: field(d, "either")["anyOf"][0].update(maxLength=5), "maxLength is 5"),
    "pattern": (lambda d: field(d, "name").update(pattern="^a"), "pattern is '^a' instead of None"),
    "request format": (lambda d: field(d, "name").update(format="uuid"), "format is 'uuid'"),
    "minimum": (lambda d: field(d, "size").update(minimum=2), "the minimum is 2 instead of 1"),
    "exclusive minimum": (lambda d: field(d, "size").update(exclusiveMinimum=1), "the minimum is 1 instead of 1"),
    "maximum": (lambda d: field(d, "size").update(maximum=8), "the maximum is 8 instead of 9"),
    "default": (lambda d: field(d, "size").update(default=4), "the default is no longer 3"),
    "default gone": (lambda d: field(d, "size").pop("default"), "the default is no longer 3"),
    "request enum": (lambda d: field(d, "kind")["enum"].remove("b"), "the value 'b' is no longer accepted"),
    "new enum": (lambda d: field(d, "name").update(enum=["x"]), "accepts only 'x' now"),
    "maxItems": (lambda d: field(d, "tags").update(maxItems=4), "maxItems is 4"),
    "minItems": (lambda d: field(d, "tags").update(minItems=1), "minItems is 1"),
    "uniqueItems": (lambda d: field(d, "tags").update(uniqueItems=True), "items must be unique"),
    "request items": (lambda d: field(d, "tags")["items"].update(type="integer"), ".tags[]: retyped"),
    "request alternative": (lambda d: field(d, "either")["anyOf"].pop(), "integer is no longer accepted"),
    "other fields": (lambda d: field(d, "free").update(additionalProperties=False), "other fields: are no longer"),
    "other fields typed": (lambda d: field(d, "free").update(additionalProperties={"type": "string"}), "retyped"),
    "success status": (lambda d: post(d)["responses"].pop("201"), "201: the success status is gone"),
    "response media type": (
        lambda d: post(d)["responses"]["200"]["content"].pop("text/plain"),
        "200: the media type text/plain is gone",
    ),
    "error media type": (lambda d: post(d)["responses"]["404"].pop("content"), "404: the media type application/json"),
    "header": (lambda d: post(d)["responses"]["200"]["headers"].clear(), "header X-Request-Id: the header is gone"),
    "header optional": (
        lambda d: post(d)["responses"]["200"]["headers"]["X-Request-Id"].update(required=False),
        "may be absent now",
    ),
    "response field": (lambda d: order(d)["properties"].pop("parts"), "Order (response) .parts: the field is gone"),
    "response field optional": (lambda d: order(d)["required"].remove("id"), ".id: the field may be absent now"),
    "response field retyped": (lambda d: answered(d, "id").update(type="integer"), "retyped: integer is sent now"),
    "response null": (lambda d: answered(d, "id").update(type=["string", "null"]), "retyped: null is sent now"),
    "response format": (lambda d: answered(d, "id").pop("format"), "format is None instead of 'uuid'"),
    "response enum": (lambda d: answered(d, "state")["enum"].remove("open"), "'open' is never sent any more"),
    "response enum freed": (
        lambda d: (answered(d, "state").pop("enum"), answered(d, "state").update(type="string")),
        "no longer one of a list",
    ),
    "response alternative": (lambda d: answered(d, "note")["anyOf"].append({"type": "array"}), "array is a new"),
    "response alternative gone": (lambda d: answered(d, "note")["anyOf"].pop(0), "string is never sent any more"),
    "response items": (lambda d: answered(d, "parts").update(items={"type": "string"}), ".parts[]: retyped"),
    "response positions": (lambda d: answered(d, "place")["prefixItems"].pop(), "has 1 described items instead of 2"),
    "response map": (lambda d: answered(d, "counts").update(additionalProperties={"type": "string"}), "retyped"),
    "undated deprecation": (lambda d: post(d).update(deprecated=True), "deprecated without `x-deprecated-on`"),
}
ADDITIVE: dict[str, Edit] = {
    "nothing": lambda d: None,
    "operation": lambda d: d["paths"].update({"/more": {"get": {}}}),
    "optional parameter": lambda d: post(d)["parameters"].append({"name": "new", "in": "query", "schema": {}}),
    "header name in another case": lambda d: post(d)["parameters"][1].update(name="x-trace"),
    "optional request field": lambda d: body(d)["properties"].update(new={"type": "string"}),
    "field no longer required": lambda d: body(d)["required"].clear(),
    "wider limits": lambda d: (field(d, "name").update(minLength=0, maxLength=99), field(d, "size").pop("maximum")),
    "number for integer": lambda d: field(d, "size").update(type="number"),
    "the same bound spelled differently": lambda d: (
        field(d, "size").pop("minimum"),
        field(d, "size").update(exclusiveMinimum=0),
    ),
    "request enum value": lambda d: field(d, "kind")["enum"].append("c"),
    "request alternative": lambda d: field(d, "either")["anyOf"].append({"type": "null"}),
    "other fields accepted": lambda d: body(d).update(additionalProperties=True),
    "request media type": lambda d: post(d)["requestBody"]["content"].update({"text/csv": {}}),
    "alternative credentials": lambda d: post(d)["security"].append({"Bearer": ["orders:write"]}),
    "no credentials": lambda d: post(d).update(security=[]),
    "success status": lambda d: post(d)["responses"].update({"202": {}}),
    "no error any more": lambda d: post(d)["responses"].pop("404"),
    "response field": lambda d: order(d)["properties"].update(new={"type": "string"}),
    "response field always sent": lambda d: order(d)["required"].append("note"),
    "response enum value": lambda d: answered(d, "state")["enum"].append("lost"),
    "response never null": lambda d: answered(d, "note")["anyOf"].pop(1),
    "response media type": lambda d: post(d)["responses"]["200"]["content"].update({"text/csv": {}}),
    "deprecation": lambda d: post(d).update({"deprecated": True, "x-deprecated-on": "2026-11-19"}),
    "texts": lambda d: (post(d).update(description="other"), answered(d, "id").update(title="T", examples=["x"])),
}


def changes(edit: Edit) -> list[str]:
    document = an_order_api()
    edit(document)
    return [str(change) for change in breaking_changes(an_order_api(), document, today=TODAY)]


@pytest.mark.parametrize("name", BREAKING)
def test_an_edit_that_breaks_older_clients_is_found(name: str) -> None:
    edit, expected = BREAKING[name]

    found = changes(edit)

    assert any(expected in change for change in found), found


@pytest.mark.parametrize("name", ADDITIVE)
def test_an_addition_passes(name: str) -> None:
    assert changes(ADDITIVE[name]) == []


# --- Deprecation ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("announced", "sunset", "found"),
    [
        ("2026-08-21", None, 0),  # 90 days ago
        ("2026-08-22", None, 1),
        ("2026-08-21", "2026-11-19", 0),
        ("2026-08-21", "2026-11-20", 1),
        ("2026-11-18", "2026-11-19", 1),  # a sunset does not shorten the notice
        (None, None, 1),
    ],
)
@pytest.mark.parametrize("removed", ["operation", "parameter", "field", "header"])
def test_something_deprecated_may_be_removed_after_ninety_days(
    removed: str, announced: str | None, sunset: str | None, found: int
) -> None:
    old = an_order_api()
    places: dict[str, tuple[Any, Any]] = {
        "operation": (old["paths"]["/orders"], "post"),
        "parameter": (post(old)["parameters"], 0),
        "field": (order(old)["properties"], "parts"),
        "header": (post(old)["responses"]["200"]["headers"], "X-Request-Id"),
    }
    new = copy.deepcopy(old)
    holder, key = places[removed]
    marks = {"x-deprecated-on": announced, "x-sunset": sunset}
    holder[key] |= {"deprecated": True} | {name: value for name, value in marks.items() if value}
    {
        "operation": new["paths"]["/orders"],
        "parameter": post(new)["parameters"],
        "field": order(new)["properties"],
        "header": post(new)["responses"]["200"]["headers"],
    }[removed].pop(key)

    assert len(breaking_changes(old, new, today=TODAY)) == found


def test_the_message_about_a_removal_says_what_to_do() -> None:
    old = an_order_api()
    new = an_order_api()
    del new["paths"]["/orders"]["get"]

    never = breaking_changes(old, new, today=TODAY)
    old["paths"]["/orders"]["get"] |= {"deprecated": True, "x-deprecated-on": "2026-11-01"}
    early = breaking_changes(old, new, today=TODAY)

    assert "release it with `deprecated: true` and `x-deprecated-on`, and remove it 90 days later" in str(never[0])
    assert "may be removed from 2027-01-30 on" in str(early[0])


def test_a_date_of_deprecation_is_not_moved_back() -> None:
    old, new = an_order_api(), an_order_api()
    post(old).update({"deprecated": True, "x-deprecated-on": "2026-11-01"})
    post(new).update({"deprecated": True, "x-deprecated-on": "2026-01-01"})

    found = breaking_changes(old, new, today=TODAY)

    assert [change.what for change in found] == ["was deprecated on 2026-11-01, not on 2026-01-01"]


def test_a_date_may_be_written_without_quotes() -> None:
    node = yaml.safe_load("{deprecated: true, x-deprecated-on: 2026-08-21}")

    assert removal_permitted_from(node) == TODAY


# --- Properties, on the document of the last release ------------------------------------------------------------------


def removable(document: Document) -> Iterator[tuple[str | int, ...]]:
    """The place of every part that a client may rely on, and whose removal nothing else makes up for."""
    for path, item in document["paths"].items():
        yield ("paths", path)
        for method in item.keys() & set(METHODS):
            here: tuple[str | int, ...] = ("paths", path, method)
            yield here
            operation = item[method]
            yield from ((*here, "parameters", n) for n in range(len(operation.get("parameters", ()))))
            for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
                place = (*here, "requestBody", "content", media_type)
                yield place
                yield from removable_fields(content.get("schema", {}), (*place, "schema"), sent=True)
            for status, response in operation["responses"].items():
                if status.startswith("2"):
                    yield (*here, "responses", status)
                yield from ((*here, "responses", status, "headers", name) for name in response.get("headers", ()))
                for media_type, content in response.get("content", {}).items():
                    place = (*here, "responses", status, "content", media_type)
                    yield place
                    yield from removable_fields(content.get("schema", {}), (*place, "schema"), sent=False)
    for name, schema in document["components"]["schemas"].items():
        if name in used(document):
            yield from removable_fields(schema, ("components", "schemas", name), sent=False)


def used(document: Document) -> set[str]:
    """The schemas that operations refer to, directly or not."""
    found: set[str] = set()
    waiting: list[Any] = [document["paths"]]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            waiting += node.values()
            name = str(node.get("$ref", "")).rpartition("/")[2]
            if name and name not in found:
                found.add(name)
                waiting.append(document["components"]["schemas"][name])
    return found


def removable_fields(node: Any, place: tuple[str | int, ...], *, sent: bool) -> Iterator[tuple[str | int, ...]]:
    if not isinstance(node, dict):
        return
    yield from ((*place, "properties", name) for name in node.get("properties", ()))
    if not sent:
        yield from ((*place, "required", n) for n in range(len(node.get("required", ()))))
    yield from ((*place, "enum", n) for n in range(len(node.get("enum", ()))))
    for name, part in node.get("properties", {}).items():
        yield from removable_fields(part, (*place, "properties", name), sent=sent)
    yield from removable_fields(node.get("items"), (*place, "items"), sent=sent)
    for keyword in ("anyOf", "oneOf"):
        for position, part in enumerate(node.get(keyword, ())):
            yield from removable_fields(part, (*place, keyword, position), sent=sent)


REMOVABLE = list(removable(RELEASED))


def without(document: Document, place: tuple[str | int, ...]) -> Document:
    edited = copy.deepcopy(document)
    node: Any = edited
    for word in place[:-1]:
        node = node[word]
    del node[place[-1]]
    return edited


def test_the_released_document_has_plenty_to_remove() -> None:
    assert len(REMOVABLE) > 1_000


def test_a_document_is_compatible_with_itself() -> None:
    assert breaking_changes(RELEASED, copy.deepcopy(RELEASED), today=TODAY) == []


@given(place=st.sampled_from(REMOVABLE))
def test_any_single_removal_is_found_and_adding_it_back_is_compatible(place: tuple[str | int, ...]) -> None:
    smaller = without(RELEASED, place)

    assert breaking_changes(RELEASED, smaller, today=TODAY) != []
    assert breaking_changes(smaller, smaller, today=TODAY) == []


names = st.text("abc", min_size=1, max_size=3)
schemas = st.recursive(
    st.one_of(
        st.sampled_from(
            [{"type": "string"}, {"type": "integer"}, {"type": "null"}, {"$ref": "#/components/schemas/S"}]
        ),
        st.lists(names, min_size=1, max_size=3, unique=True).map(lambda values: {"enum": values}),
    ),
    lambda part: st.one_of(
        st.builds(lambda one: {"type": "array", "items": one}, part),
        st.builds(lambda several: {"anyOf": several}, st.lists(part, min_size=1, max_size=3)),
        st.builds(lambda fields: {"type": "object", "properties": fields}, st.dictionaries(names, part, max_size=3)),
    ),
    max_leaves=8,
)


def a_document(sent: Document, answer: Document, shared: Document) -> Document:
    operation = {
        "requestBody": {"content": {"application/json": {"schema": sent}}},
        "responses": {"200": {"content": {"application/json": {"schema": answer}}}},
    }
    parts = {"S": {"type": "object", "properties": {"again": {"$ref": "#/components/schemas/S"}, "part": shared}}}
    return {"paths": {"/a": {"post": operation}}, "components": {"schemas": parts}}


documents = st.builds(a_document, schemas, schemas, schemas)


@given(document=documents)
def test_any_document_is_compatible_with_itself(document: Document) -> None:
    assert breaking_changes(document, copy.deepcopy(document), today=TODAY) == []


# --- The program ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_the_program_lists_what_breaks_and_fails(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = tmp_path / f"old.{suffix}", tmp_path / f"new.{suffix}"
    document = an_order_api()
    old.write_text(yaml.safe_dump(document, default_flow_style=suffix == "json"))
    del document["paths"]["/orders"]["get"]
    new.write_text(yaml.safe_dump(document))

    assert main([str(old), str(new)]) == 1
    assert "GET /orders: the operation is gone" in capsys.readouterr().out
    assert main([str(new), str(new)]) == 0
    assert capsys.readouterr().out == ""

"""Which changes between two OpenAPI documents break a client of the older one. Reads no files.

What a client sends may become wider, what it receives may become narrower; everything else breaks it. New operations,
optional inputs, fields and values of enums in responses are additions, which a client has to tolerate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from enum import Enum
from typing import Any, TypeAlias

NOTICE_DAYS = 90
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
ANY_TYPE = frozenset({"null", "boolean", "object", "array", "number", "integer", "string"})

# A part of a document: JSON as it was parsed.
Node: TypeAlias = Mapping[str, Any]


class Direction(Enum):
    REQUEST = "request"
    RESPONSE = "response"


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakingChange:
    place: str
    what: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}"


def breaking_changes(old: Node, new: Node, *, today: date) -> list[BreakingChange]:
    """All of them, each once; none means that a client of the old document works with the new one."""
    found = (*_Comparison(old, new, today).all(), *_deprecation_mistakes(old, new))
    return list(dict.fromkeys(found))


def removal_permitted_from(node: Node) -> date | None:
    """When something deprecated may be removed; None if that was never announced."""
    if node.get("deprecated") is not True or "x-deprecated-on" not in node:
        return None
    earliest = date.fromisoformat(str(node["x-deprecated-on"])) + timedelta(days=NOTICE_DAYS)
    return max(earliest, date.fromisoformat(str(node.get("x-sunset", earliest))))


class _Comparison:
    def __init__(self, old: Node, new: Node, today: date) -> None:
        self._old = old
        self._new = new
        self._today = today
        # Recursive schemas end here, and what many operations use is compared once.
        self._compared: dict[tuple[str, str, Direction], list[BreakingChange]] = {}

    def all(self) -> Iterator[BreakingChange]:
        for path, operations in self._old.get("paths", {}).items():
            for method in METHODS:
                if method in operations:
                    yield from self._operation(f"{method.upper()} {path}", path, method)

    def _operation(self, place: str, path: str, method: str) -> Iterator[BreakingChange]:
        old_item, new_item = self._old["paths"][path], self._new.get("paths", {}).get(path, {})
        old, new = old_item[method], new_item.get(method)
        if new is None:
            yield from self._removal(place, "the operation", old)
            return
        if old.get("operationId") != new.get("operationId"):
            yield _change(place, f"operationId is no longer {old.get('operationId')}, which generated clients call")
        yield from self._parameters(place, self._parameters_of(old_item, old, self._old), new_item, new)
        yield from self._request_body(f"{place} request", old.get("requestBody"), new.get("requestBody"))
        yield from self._responses(place, old.get("responses", {}), new.get("responses", {}))
        yield from _security(place, _alternatives(self._old, old), _alternatives(self._new, new))

    def _removal(self, place: str, what: str, removed: Node) -> Iterator[BreakingChange]:
        permitted = removal_permitted_from(removed)
        if permitted is None:
            advice = "it was never deprecated: keep it, release it with `deprecated: true` and `x-deprecated-on`, and "
            yield _change(place, f"{what} is gone; {advice}remove it {NOTICE_DAYS} days later")
        elif self._today < permitted:
            yield _change(place, f"{what} is gone; by its deprecation it may be removed from {permitted} on: keep it")

    # --- What a client sends ------------------------------------------------------------------------------------------

    def _parameters_of(self, item: Node, operation: Node, document: Node) -> dict[tuple[str, str], Node]:
        every = [_resolved(one, document) for one in (*item.get("parameters", ()), *operation.get("parameters", ()))]
        return {(one["in"], _name_of(one)): one for one in every}

    def _parameters(
        self, place: str, old: Mapping[tuple[str, str], Node], new_item: Node, operation: Node
    ) -> Iterator[BreakingChange]:
        new = self._parameters_of(new_item, operation, self._new)
        for key, was in old.items():
            here = f"{place} {key[0]} parameter {was['name']}"
            if key not in new:
                yield from self._removal(here, "the parameter", was)
                continue
            now = new[key]
            if now.get("required") and not was.get("required"):
                yield _change(here, "is required now")
            if (was.get("style"), was.get("explode")) != (now.get("style"), now.get("explode")):
                yield _change(here, "is spelled differently (style, explode)")
            yield from self._schemas(here, was.get("schema", {}), now.get("schema", {}), Direction.REQUEST)
        for key, added in new.items():
            if key not in old and added.get("required"):
                yield _change(f"{place} {key[0]} parameter {added['name']}", "is new and required")

    def _request_body(self, place: str, old: Node | None, new: Node | None) -> Iterator[BreakingChange]:
        old, new = _resolved(old or {}, self._old), _resolved(new or {}, self._new)
        if new.get("required") and not old.get("required"):
            yield _change(place, "a body is required now")
        if old and not new:
            yield _change(place, "the body is gone")
            return
        yield from self._content(place, old, new, Direction.REQUEST)

    # --- What a client receives ---------------------------------------------------------------------------------------

    def _responses(self, place: str, old: Node, new: Node) -> Iterator[BreakingChange]:
        for status, was in old.items():
            here = f"{place} {status}"
            if status in new:
                before, after = _resolved(was, self._old), _resolved(new[status], self._new)
                yield from self._content(here, before, after, Direction.RESPONSE)
                yield from self._headers(here, before.get("headers", {}), after.get("headers", {}))
            elif status.startswith("2"):
                yield _change(here, "the success status is gone")

    def _headers(self, place: str, old: Node, new: Node) -> Iterator[BreakingChange]:
        present = {name.casefold(): _resolved(header, self._new) for name, header in new.items()}
        for name, reference in old.items():
            here, was = f"{place} header {name}", _resolved(reference, self._old)
            now = present.get(name.casefold())
            if now is None:
                yield from self._removal(here, "the header", was)
                continue
            if was.get("required") and not now.get("required"):
                yield _change(here, "may be absent now")
            yield from self._schemas(here, was.get("schema", {}), now.get("schema", {}), Direction.RESPONSE)

    def _content(self, place: str, old: Node, new: Node, direction: Direction) -> Iterator[BreakingChange]:
        for media_type, was in old.get("content", {}).items():
            now = new.get("content", {}).get(media_type)
            if now is None:
                yield _change(place, f"the media type {media_type} is gone")
                continue
            here = f"{place} {media_type}"
            yield from self._schemas(here, was.get("schema", {}), now.get("schema", {}), direction)

    # --- Schemas ------------------------------------------------------------------------------------------------------

    def _schemas(self, place: str, old: Any, new: Any, direction: Direction) -> list[BreakingChange]:
        names = _reference(old), _reference(new)
        if not all(names):
            return list(self._resolved_schemas(place, _schema(old, self._old), _schema(new, self._new), direction))
        key = (*names, direction)
        if key not in self._compared:
            self._compared[key] = []  # what refers to itself is the same as long as nothing else differs
            known = _schema(old, self._old), _schema(new, self._new)
            here = f"{names[0].rpartition('/')[2]} ({direction.value})"
            self._compared[key] = list(self._resolved_schemas(here, *known, direction))
        return self._compared[key]

    def _resolved_schemas(self, place: str, old: Node, new: Node, direction: Direction) -> Iterator[BreakingChange]:
        if direction is Direction.REQUEST and "default" in old and old["default"] != new.get("default"):
            yield _change(place, f"the default is no longer {old['default']!r}")
        before, after = _variants(old), _variants(new)
        if len(before) == len(after) == 1:
            yield from self._plain_schemas(place, before[0], after[0], direction)
            return
        sent, accepted = (before, after) if direction is Direction.REQUEST else (after, before)
        covered: list[Node] = []
        for one in sent:
            attempts = [(other, self._variant_pair(place, one, other, direction)) for other in accepted]
            best, changes = min(attempts, key=lambda attempt: len(attempt[1]))
            covered += [other for other, differences in attempts if not differences]
            if not changes:
                continue
            if self._kinds(one, direction) & self._kinds(best, direction, other=True):
                yield from changes
            else:
                said = "is no longer accepted" if direction is Direction.REQUEST else "is a new alternative"
                yield _change(place, f"{self._label(one)} {said}")
        if direction is Direction.RESPONSE:
            for was in before:
                if was not in covered and was.get("type") != "null":
                    yield _change(place, f"{self._label(was)} is never sent any more")

    def _variant_pair(self, place: str, sent: Node, accepted: Node, direction: Direction) -> list[BreakingChange]:
        old, new = (sent, accepted) if direction is Direction.REQUEST else (accepted, sent)
        return self._schemas(place, old, new, direction)

    def _kinds(self, variant: Node, direction: Direction, *, other: bool = False) -> frozenset[str]:
        is_old = (direction is Direction.REQUEST) is not other
        return _types(_schema(variant, self._old if is_old else self._new))

    @staticmethod
    def _label(variant: Node) -> str:
        return _reference(variant).rpartition("/")[2] or str(variant.get("title") or variant.get("type") or "a form")

    def _plain_schemas(self, place: str, old: Node, new: Node, direction: Direction) -> Iterator[BreakingChange]:
        if _reference(old) or _reference(new):
            yield from self._schemas(place, old, new, direction)
            return
        before, after = _types(old), _types(new)
        sent, accepted = (before, after) if direction is Direction.REQUEST else (after, before)
        if unknown := sorted(sent - accepted):
            said = "is no longer accepted" if direction is Direction.REQUEST else "is sent now"
            yield _change(place, f"retyped: {', '.join(unknown)} {said}")
            return
        yield from _values(place, old, new, direction)
        yield from _texts(place, old, new, direction)
        if direction is Direction.REQUEST:
            yield from _limits(place, old, new)
        yield from self._fields(place, old, new, direction)
        yield from self._items(place, old, new, direction)

    def _fields(self, place: str, old: Node, new: Node, direction: Direction) -> Iterator[BreakingChange]:
        before, after = old.get("properties", {}), new.get("properties", {})
        for name, was in before.items():
            here = f"{place} .{name}"
            if name in after:
                yield from self._schemas(here, was, after[name], direction)
            else:
                marks = was if "deprecated" in was else _schema(was, self._old)
                yield from self._removal(here, "the field", marks)
        needed, given = set(new.get("required", ())), set(old.get("required", ()))
        if direction is Direction.REQUEST:
            for name in sorted(needed - given):
                yield _change(f"{place} .{name}", "the field is required now" if name in before else "new and required")
        else:
            for name in sorted((given - needed) & after.keys()):
                yield _change(f"{place} .{name}", "the field may be absent now")
        was, now = old.get("additionalProperties", True), new.get("additionalProperties", True)
        yield from self._others(f"{place} other fields", was, now, direction)

    def _items(self, place: str, old: Node, new: Node, direction: Direction) -> Iterator[BreakingChange]:
        yield from self._others(f"{place}[]", old.get("items", True), new.get("items", True), direction)
        before, after = old.get("prefixItems", []), new.get("prefixItems", [])
        for position, (was, now) in enumerate(zip(before, after, strict=False)):
            yield from self._schemas(f"{place}[{position}]", was, now, direction)
        if len(before) > len(after) if direction is Direction.RESPONSE else len(before) < len(after):
            yield _change(place, f"has {len(after)} described items instead of {len(before)}")

    def _others(self, place: str, old: Any, new: Any, direction: Direction) -> Iterator[BreakingChange]:
        """Schemas that may be a plain boolean."""
        if new is False or old is False:
            if old is not False and direction is Direction.REQUEST:
                yield _change(place, "are no longer accepted")
        elif new is not True if direction is Direction.REQUEST else old is not True:
            yield from self._schemas(place, old, new, direction)


def _change(place: str, what: str) -> BreakingChange:
    return BreakingChange(place=place, what=what)


def _name_of(parameter: Node) -> str:
    name: str = parameter["name"]
    return name.casefold() if parameter["in"] == "header" else name


def _reference(node: Any) -> str:
    return str(node["$ref"]) if isinstance(node, Mapping) and "$ref" in node else ""


def _resolved(node: Node, document: Node) -> Node:
    while reference := _reference(node):
        found: Any = document
        for word in reference.removeprefix("#/").split("/"):
            found = found[word.replace("~1", "/").replace("~0", "~")]
        node = found
    return node


def _schema(node: Any, document: Node) -> Node:
    return {} if isinstance(node, bool) else _resolved(node, document)


def _variants(schema: Node) -> list[Node]:
    found: list[Node] = schema.get("anyOf") or schema.get("oneOf") or [schema]
    return found


def _types(schema: Node) -> frozenset[str]:
    named = schema.get("type")
    if named is None:
        listed = _listed(schema)
        return ANY_TYPE if listed is None else frozenset(_type_of(value) for value in listed)
    types = frozenset([named] if isinstance(named, str) else named)
    return types | {"integer"} if "number" in types else types


def _type_of(value: Any) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null", list: "array"}
    return names.get(type(value), "object")


def _listed(schema: Node) -> list[Any] | None:
    return [schema["const"]] if "const" in schema else schema.get("enum")


def _values(place: str, old: Node, new: Node, direction: Direction) -> Iterator[BreakingChange]:
    before, after = _listed(old), _listed(new)
    if before is not None and after is not None:
        for value in before:
            if value not in after:
                said = "is no longer accepted" if direction is Direction.REQUEST else "is never sent any more"
                yield _change(place, f"the value {value!r} {said}")
    elif after is not None and direction is Direction.REQUEST:
        yield _change(place, f"accepts only {', '.join(map(repr, after))} now")
    elif before is not None and direction is Direction.RESPONSE:
        yield _change(place, "is no longer one of a list of values")


def _texts(place: str, old: Node, new: Node, direction: Direction) -> Iterator[BreakingChange]:
    for keyword in ("pattern", "format", "contentMediaType", "contentEncoding", "multipleOf"):
        was, now = old.get(keyword), new.get(keyword)
        # What is promised must stay, what is demanded must not be added.
        if was != now and (now if direction is Direction.REQUEST else was) is not None:
            yield _change(place, f"{keyword} is {now!r} instead of {was!r}")


def _limits(place: str, old: Node, new: Node) -> Iterator[BreakingChange]:
    for keyword in ("minLength", "minItems", "minProperties"):
        if new.get(keyword, 0) > old.get(keyword, 0):
            yield _change(place, f"{keyword} is {new[keyword]} instead of {old.get(keyword, 0)}")
    for keyword in ("maxLength", "maxItems", "maxProperties"):
        if keyword in new and new[keyword] < old.get(keyword, float("inf")):
            yield _change(place, f"{keyword} is {new[keyword]} instead of {old.get(keyword, 'no limit')}")
    if new.get("uniqueItems") and not old.get("uniqueItems"):
        yield _change(place, "items must be unique now")
    # -1 turns a maximum into a minimum.
    for keyword, exclusive, sign in (("minimum", "exclusiveMinimum", 1), ("maximum", "exclusiveMaximum", -1)):
        was, now = _bound(old, keyword, exclusive, sign), _bound(new, keyword, exclusive, sign)
        if now > was:
            yield _change(place, f"the {keyword} is {sign * now[0]} instead of {sign * was[0]}")


def _bound(schema: Node, inclusive: str, exclusive: str, sign: int) -> tuple[float, bool]:
    bounds = [(sign * schema[name], name == exclusive) for name in (inclusive, exclusive) if name in schema]
    return max(bounds, default=(-float("inf"), False))


def _alternatives(document: Node, operation: Node) -> list[Node]:
    found: list[Node] = operation.get("security", document.get("security", []))
    return found


def _security(place: str, old: list[Node], new: list[Node]) -> Iterator[BreakingChange]:
    """Credentials that sufficed must suffice."""
    for was in old or [{}]:
        if not any(_suffices(was, now) for now in new or [{}]):
            words = ", ".join(f"{scheme} with {' '.join(scopes) or 'no scope'}" for scheme, scopes in was.items())
            yield _change(place, f"no longer open to {words or 'everybody'}")


def _suffices(was: Node, now: Node) -> bool:
    return all(scheme in was and set(scopes) <= set(was[scheme]) for scheme, scopes in now.items())


def _deprecation_mistakes(old: Node, new: Node) -> Iterator[BreakingChange]:
    """A date that is missing, or that shortens the notice."""
    announced = {place: node.get("x-deprecated-on") for place, node in _deprecated(old, "#")}
    for place, node in _deprecated(new, "#"):
        since = node.get("x-deprecated-on")
        if since is None:
            yield _change(place, "is deprecated without `x-deprecated-on`: add the date of the release that says so")
        elif announced.get(place) is not None and str(since) < str(announced[place]):
            yield _change(place, f"was deprecated on {announced[place]}, not on {since}")


def _deprecated(node: Any, place: str) -> Iterator[tuple[str, Node]]:
    if isinstance(node, Mapping):
        if node.get("deprecated") is True:
            yield place, node
        for name, part in node.items():
            yield from _deprecated(part, f"{place}/{name}")
    elif isinstance(node, list):
        for position, part in enumerate(node):
            yield from _deprecated(part, f"{place}/{position}")

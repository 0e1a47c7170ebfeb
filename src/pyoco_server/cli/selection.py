"""Parts of an answer, as `--json FIELDS` and `--template TEXT` choose them. Prints nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyoco_server.cli.suggestions import invalid
from pyoco_server.cli.terminal_escape import escape_line

Item = Mapping[str, Any]
# One name for the id of everything: a run, a job or an execution.
ID, ID_FIELDS = "id", ("id", "run_id", "executionId", "worker_id", "graphId")
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\\\": "\\", "{{": "{", "}}": "}"}
_PIECE = re.compile(r"\\[nt\\]|\{\{|\}\}|\{([^{}]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What is shown of each item: a JSON object of these fields, or the template with their values."""

    fields: tuple[str, ...]
    template: str | None = None

    def check(self, items: Iterable[Item], known: Iterable[str] = ()) -> None:
        """Refuse a field that neither these items nor answers of this kind have."""
        names = dict.fromkeys([*known, *(name for item in items for name in item)])
        if not names:
            return
        for one in self.fields:
            first = one.partition(".")[0]
            if first not in names and not (first == ID and set(ID_FIELDS) & set(names)):
                # An option may hold several names: only the wrong one is replaced.
                wrong = ",".join(self.fields)
                right = ",".join(dict.fromkeys(ID if name == one else name for name in self.fields))
                given = {wrong: right} if self.template is None else {self.template: "{id}"}
                raise invalid(f"there is no field {one[:80]!r}; there are: {', '.join(sorted(names))}", given)

    def of(self, item: Item) -> dict[str, Any]:
        """The fields of an item, under the names that were asked for."""
        return {name: _lookup(item, name) for name in self.fields}

    def line(self, item: Item) -> str:
        """The template with the values of an item. A text stands as it is, anything else as JSON, null as nothing."""

        def put(found: re.Match[str]) -> str:
            return _ESCAPES[found[0]] if found[0] in _ESCAPES else _shown(_lookup(item, found[1].strip()))

        return _PIECE.sub(put, self.template or "")


def parse_fields(text: str) -> Selection:
    fields = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not fields:
        raise invalid("--json needs the names of fields, joined by commas", {text: ID})
    return Selection(fields=fields)


def parse_template(text: str) -> Selection:
    pieces = [found[1].strip() for found in _PIECE.finditer(text) if found[1] is not None]
    if not pieces or not all(pieces):
        raise invalid(f"--template {text[:80]!r} names no field", {text: "{id} {status}"})
    return Selection(fields=tuple(dict.fromkeys(pieces)), template=text)


def _lookup(item: Item, path: str) -> Any:
    """The value of `field.sub.sub`; None where there is none. A list takes the number of its entry."""
    value: Any = item
    for name in path.split("."):
        if isinstance(value, Mapping):
            value = next((value[one] for one in ID_FIELDS if one in value), None) if name == ID else value.get(name)
        elif isinstance(value, Sequence) and not isinstance(value, str) and name.isascii() and name.isdigit():
            value = value[int(name)] if int(name) < len(value) else None
        else:
            return None
    return value


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return escape_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))

"""YAML bytes → plain values, strictly: refuses ambiguous and expensive documents.

The events are counted before anything is built, so a YAML bomb costs no more than the bytes before it. Accepted values
have the meaning that pyoco's reader (YAML 1.1) gives them; surprising ones (12:30 is 750, a date is not a text) must be
quoted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.constructor import SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML without libyaml: ten times slower, with the same guards
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

MAX_DEPTH = 32
# Enough for two thousand tasks, or a thousand with two inputs each; a value takes a few microseconds.
MAX_VALUES = 12_000
MAX_ALIASES = 16
# The text that aliases may add; a few of them could multiply one long text by thousands.
MAX_ALIASED_CHARS = 65_536
# Quotations from the file in messages are cut to this length.
SHOWN_CHARS = 60
# A 64-bit number has at most 67 characters (-0b…), a float far fewer; longer ones are refused unparsed.
_MAX_NUMBER_CHARS = 400

_PREFIX = "tag:yaml.org,2002:"
_AMBIGUOUS = {
    f"{_PREFIX}timestamp": "is a date or a time to YAML; put it in quotes to pass it as text",
    f"{_PREFIX}merge": "would merge another mapping into this one; write the keys out",
    f"{_PREFIX}value": "has a meaning of its own in YAML; put it in quotes",
}


class YamlFault(ValueError):
    """The file is invalid: what is wrong, and on which line if known."""

    def __init__(self, what: str, line: int | None = None) -> None:
        super().__init__(what if line is None else f"line {line}: {what}")
        self.what = what
        self.line = line


@dataclass(frozen=True, slots=True)
class Document:
    """A file's value, and the nodes that it was built from."""

    value: Any
    root: Node

    def line_of(self, *path: str) -> int:
        """The line of a key, or of its nearest parent that is there."""
        node, line = self.root, 1
        for name in path:
            pairs = node.value if isinstance(node, MappingNode) else ()
            found = next(((key, value) for key, value in pairs if key.value == name), None)
            if found is None:
                break
            line, node = _line(found[0]), found[1]
        return line


def shown(text: object) -> str:
    """A part of the file, shortened for a message."""
    quoted = repr(text)
    return quoted if len(quoted) <= SHOWN_CHARS else f"{quoted[:SHOWN_CHARS]}…"


def read_yaml(data: bytes, *, max_values: int = MAX_VALUES) -> Document:
    """The single document in `data`; `YamlFault` names what is wrong, and where."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise YamlFault("the file is not UTF-8 text", data.count(b"\n", 0, error.start) + 1) from error
    try:
        _check_size(text, max_values)
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else None
        reason = " ".join(part for part in (error.context, error.problem) if part)
        raise YamlFault(f"not YAML: {reason[:200]}", line) from error
    except yaml.YAMLError as error:
        raise YamlFault("the file holds characters that YAML does not allow") from error
    if root is None:
        raise YamlFault("the file is empty")
    return Document(_Builder(max_values, len(text) + MAX_ALIASED_CHARS).build(root, 0), root)


def _check_size(text: str, max_values: int) -> None:
    """Refuses what would be expensive to build. Counts aliases, not their content."""
    depth = values = aliases = documents = 0
    for event in yaml.parse(text, Loader=_Loader):
        values += isinstance(event, yaml.NodeEvent)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.AliasEvent):
            aliases += 1
        elif isinstance(event, yaml.DocumentStartEvent):
            documents += 1
        if depth > MAX_DEPTH:
            raise YamlFault(f"nested deeper than {MAX_DEPTH} levels", _line(event))
        if values > max_values:
            raise YamlFault(f"more than {max_values} values", _line(event))
        if aliases > MAX_ALIASES:
            raise YamlFault(f"more than {MAX_ALIASES} aliases; write the values out", _line(event))
        if documents > 1:
            raise YamlFault("a second document begins here; one file is one document", _line(event))


@dataclass(slots=True)
class _Builder:
    """Builds the value of a node. An alias is built and counted anew at each place."""

    values_left: int
    chars_left: int

    def build(self, node: Node, depth: int) -> Any:
        self.values_left -= 1
        if self.values_left < 0:
            raise YamlFault("more values than are accepted, with its aliases written out", _line(node))
        if depth > MAX_DEPTH:
            raise YamlFault(f"nested deeper than {MAX_DEPTH} levels, or an alias refers to itself", _line(node))
        if isinstance(node, ScalarNode):
            self.chars_left -= len(node.value)
            if self.chars_left < 0:
                raise YamlFault("aliases of too much text; write it out", _line(node))
            return _scalar(node)
        if isinstance(node, MappingNode) and node.tag == f"{_PREFIX}map":
            return self._mapping(node, depth)
        if isinstance(node, SequenceNode) and node.tag == f"{_PREFIX}seq":
            return [self.build(item, depth + 1) for item in node.value]
        raise YamlFault(f"the tag {shown(node.tag)} is not known here", _line(node))

    def _mapping(self, node: MappingNode, depth: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                raise YamlFault("a key must be text, not a list or a mapping", _line(key_node))
            key, line = self.build(key_node, depth + 1), _line(key_node)
            if not isinstance(key, str):
                raise YamlFault(f"a key must be text, and YAML reads this one as {shown(key)}; put it in quotes", line)
            if key in mapping:
                raise YamlFault(f"the key {shown(key)} stands twice in one mapping", line)
            mapping[key] = self.build(value_node, depth + 1)
        return mapping


def _scalar(node: ScalarNode) -> Any:
    if node.tag in _AMBIGUOUS:
        raise YamlFault(f"{shown(node.value)} {_AMBIGUOUS[node.tag]}", _line(node))
    if node.tag not in _SCALARS:
        raise YamlFault(f"the tag {shown(node.tag)} is not known here", _line(node))
    try:
        return _SCALARS[node.tag](node)
    except YamlFault:
        raise
    except (LookupError, ValueError) as error:
        raise YamlFault(f"{shown(node.value)} is not what its tag {shown(node.tag)} says", _line(node)) from error


def _text(node: ScalarNode) -> str:
    # Only an escape can produce one, and only the pure Python parser accepts it.
    if node.style == '"' and any("\ud800" <= char <= "\udfff" for char in node.value):
        raise YamlFault("half of a surrogate pair is no character", _line(node))
    return str(node.value)


def _integer(node: ScalarNode) -> int:
    number: int = _CONSTRUCTOR.construct_yaml_int(_checked_number(node))
    if not -(2**63) <= number < 2**63:
        raise YamlFault(
            f"{shown(node.value)} has more than 64 bits and would be rounded; put it in quotes", _line(node)
        )
    return number


def _float(node: ScalarNode) -> float:
    number: float = _CONSTRUCTOR.construct_yaml_float(_checked_number(node))
    if not math.isfinite(number):
        what = f"{shown(node.value)} is not a number that can be kept; put it in quotes to pass it as text"
        raise YamlFault(what, _line(node))
    return number


def _checked_number(node: ScalarNode) -> ScalarNode:
    quoted = shown(node.value)
    if ":" in node.value:
        raise YamlFault(f"{quoted} is a number in base 60 to YAML; put it in quotes to pass it as text", _line(node))
    if len(node.value) > _MAX_NUMBER_CHARS:
        raise YamlFault(f"{quoted} has more digits than can be kept; put it in quotes to pass it as text", _line(node))
    return node


def _line(part: Node | yaml.Event) -> int:
    return 1 if part.start_mark is None else int(part.start_mark.line) + 1


_CONSTRUCTOR = SafeConstructor()
_SCALARS: Mapping[str, Callable[[ScalarNode], Any]] = {
    f"{_PREFIX}str": _text,
    f"{_PREFIX}null": lambda node: None,
    f"{_PREFIX}bool": _CONSTRUCTOR.construct_yaml_bool,
    f"{_PREFIX}int": _integer,
    f"{_PREFIX}float": _float,
}

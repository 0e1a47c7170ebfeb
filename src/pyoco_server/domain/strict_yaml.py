"""YAML bytes → plain values, strictly: refuses ambiguous and expensive documents.

The file is read event by event and refused at the first fault, so a YAML bomb costs no more than the bytes before it.
Accepted values have the meaning that pyoco's reader (YAML 1.1) gives them; surprising ones (12:30 is 750, a date is not
a text) must be quoted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.constructor import SafeConstructor
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

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
# Lines are kept for the keys of the schema: tasks.<name>.callable is the deepest.
_LINED_DEPTH = 3
# Quotations from the file in messages are cut to this length.
SHOWN_CHARS = 60
# A 64-bit number has at most 67 characters (-0b…), a float far fewer; longer ones are refused unparsed.
_MAX_NUMBER_CHARS = 400

_PREFIX = "tag:yaml.org,2002:"
_resolve: Callable[..., str] = Resolver().resolve
_CONSTRUCTOR = SafeConstructor()
_READERS: Mapping[str, Callable[[ScalarNode], Any]] = {
    "null": lambda node: None,
    "bool": _CONSTRUCTOR.construct_yaml_bool,
    "int": _CONSTRUCTOR.construct_yaml_int,
    "float": _CONSTRUCTOR.construct_yaml_float,
}
_AMBIGUOUS = {
    "timestamp": "is a date or a time to YAML; put it in quotes to pass it as text",
    "merge": "would merge another mapping into this one; write the keys out",
    "value": "has a meaning of its own in YAML; put it in quotes",
}

Path = tuple[str, ...]


class YamlFault(ValueError):
    """The file is invalid: what is wrong, and on which line if known."""

    def __init__(self, what: str, line: int | None = None) -> None:
        super().__init__(what if line is None else f"line {line}: {what}")
        self.what = what
        self.line = line


@dataclass(frozen=True, slots=True)
class Document:
    """A file's value, and the lines of its upper keys."""

    value: Any
    lines: Mapping[Path, int]

    def line_of(self, *path: str) -> int:
        """The line of a key, or of its nearest parent with a line."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


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
    reader = _Reader(max_values)
    try:
        for event in yaml.parse(text, Loader=_Loader):
            reader.take(event)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else None
        raise YamlFault(f"not YAML: {error.problem}", line) from error
    except yaml.YAMLError as error:
        raise YamlFault("the file holds characters that YAML does not allow") from error
    if reader.documents == 0:
        raise YamlFault("the file is empty")
    return Document(reader.value, reader.lines)


@dataclass(slots=True)
class _Open:
    """A mapping or list that is still open."""

    value: Any
    path: Path | None
    line: int
    anchor: str | None
    values_before: int
    chars_before: int
    key: str | None = None


@dataclass(frozen=True, slots=True)
class _Anchored:
    value: Any
    values: int
    chars: int


@dataclass(slots=True)
class _Reader:
    """Builds values from events and applies all guards."""

    max_values: int
    value: Any = None
    documents: int = 0
    lines: dict[Path, int] = field(default_factory=dict)
    _open: list[_Open] = field(default_factory=list)
    _anchors: dict[str, _Anchored] = field(default_factory=dict)
    _values: int = 0
    _chars: int = 0
    _aliases: int = 0
    _aliased_chars: int = 0

    def take(self, event: Event) -> None:
        if isinstance(event, ScalarEvent):
            self._scalar(event)
        elif isinstance(event, MappingStartEvent | SequenceStartEvent):
            self._begin(event)
        elif isinstance(event, MappingEndEvent | SequenceEndEvent):
            self._end()
        elif isinstance(event, AliasEvent):
            self._alias(event)
        elif isinstance(event, DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise YamlFault("a second document begins here; one file is one document", _line(event))

    def _scalar(self, event: ScalarEvent) -> None:
        value = _scalar_value(event)
        self._count(1, len(event.value), event)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, 1, len(event.value))
        self._put(value, event)

    def _begin(self, event: MappingStartEvent | SequenceStartEvent) -> None:
        line, is_map = _line(event), isinstance(event, MappingStartEvent)
        if len(self._open) == MAX_DEPTH:
            raise YamlFault(f"nested deeper than {MAX_DEPTH} levels", line)
        if event.tag not in (None, "!", f"{_PREFIX}{'map' if is_map else 'seq'}"):
            raise YamlFault(f"the tag {shown(event.tag)} is not known here", line)
        if self._open and isinstance(self._open[-1].value, dict) and self._open[-1].key is None:
            raise YamlFault("a key must be text, not a list or a mapping", line)
        if event.anchor is not None:
            self._anchors.pop(event.anchor, None)  # an alias inside it would refer to itself
        opened = _Open({} if is_map else [], self._path_here(), line, event.anchor, self._values, self._chars)
        self._count(1, 0, event)
        self._open.append(opened)

    def _end(self) -> None:
        ended = self._open.pop()
        if ended.anchor is not None:
            size = self._values - ended.values_before, self._chars - ended.chars_before
            self._anchors[ended.anchor] = _Anchored(ended.value, *size)
        self._place(ended.value)

    def _alias(self, event: AliasEvent) -> None:
        line = _line(event)
        name = event.anchor or ""
        meant = self._anchors.get(name)
        if meant is None:
            raise YamlFault(f"the alias *{name[:40]} refers to nothing before it, or to itself", line)
        self._aliases += 1
        self._aliased_chars += meant.chars
        if self._aliases > MAX_ALIASES or self._aliased_chars > MAX_ALIASED_CHARS:
            raise YamlFault(f"more than {MAX_ALIASES} aliases, or aliases of too much text; write it out", line)
        self._count(meant.values, meant.chars, event)
        self._put(meant.value, event)

    def _count(self, values: int, chars: int, event: Event) -> None:
        self._values += values
        self._chars += chars
        if self._values > self.max_values:
            raise YamlFault(f"more than {self.max_values} values", _line(event))

    def _put(self, value: Any, event: Event) -> None:
        """Add a complete value: the next key of the open mapping, or the value of its last key."""
        if self._open and isinstance(self._open[-1].value, dict) and self._open[-1].key is None:
            self._key(value, _line(event))
        else:
            self._place(value)

    def _key(self, key: Any, line: int) -> None:
        parent = self._open[-1]
        if not isinstance(key, str):
            raise YamlFault(f"a key must be text, and YAML reads this one as {shown(key)}; put it in quotes", line)
        if key in parent.value:
            raise YamlFault(f"the key {shown(key)} stands twice in one mapping", line)
        parent.key = key
        if parent.path is not None and len(parent.path) < _LINED_DEPTH:
            self.lines[(*parent.path, key)] = line

    def _place(self, value: Any) -> None:
        if not self._open:
            self.value = value
            return
        parent = self._open[-1]
        if isinstance(parent.value, list):
            parent.value.append(value)
        else:
            parent.value[parent.key] = value
            parent.key = None

    def _path_here(self) -> Path | None:
        """The path of the value that begins now; None inside lists."""
        if not self._open:
            return ()
        parent = self._open[-1]
        return None if parent.path is None or parent.key is None else (*parent.path, parent.key)


def _scalar_value(event: ScalarEvent) -> Any:
    tag = event.tag
    if tag is None or tag == "!":
        tag = _resolve(ScalarNode, event.value, event.implicit)
    kind = tag.removeprefix(_PREFIX) if tag.startswith(_PREFIX) else ""
    if kind == "str":
        return _text(event)
    if kind in _AMBIGUOUS:
        raise YamlFault(f"{shown(event.value)} {_AMBIGUOUS[kind]}", _line(event))
    if kind not in _READERS:
        raise YamlFault(f"the tag {shown(tag)} is not known here", _line(event))
    if kind in ("int", "float"):
        return _number(event, tag, kind)
    try:
        return _READERS[kind](ScalarNode(tag, event.value))
    except KeyError as error:
        raise YamlFault(f"{shown(event.value)} is not what its tag {shown(tag)} says", _line(event)) from error


def _text(event: ScalarEvent) -> str:
    # Only an escape can produce one, and only the pure Python parser accepts it.
    if event.style == '"' and any("\ud800" <= char <= "\udfff" for char in event.value):
        raise YamlFault("half of a surrogate pair is no character", _line(event))
    return event.value


def _number(event: ScalarEvent, tag: str, kind: str) -> int | float:
    text, line = event.value, _line(event)
    if kind == "int" and text.isdecimal() and text[0] != "0" and len(text) < 19:
        return int(text)  # the common case, three times as fast
    if ":" in text:
        raise YamlFault(f"{shown(text)} is a number in base 60 to YAML; put it in quotes to pass it as text", line)
    if len(text) > _MAX_NUMBER_CHARS:
        raise YamlFault(f"{shown(text)} has more digits than can be kept; put it in quotes to pass it as text", line)
    try:
        number: int | float = _READERS[kind](ScalarNode(tag, text))
    except (ValueError, IndexError) as error:
        raise YamlFault(f"{shown(text)} is not what its tag {shown(tag)} says", line) from error
    if isinstance(number, float) and not math.isfinite(number):
        raise YamlFault(f"{shown(text)} is not a number that can be kept; put it in quotes to pass it as text", line)
    if isinstance(number, int) and not -(2**63) <= number < 2**63:
        raise YamlFault(f"{shown(text)} has more than 64 bits and would be rounded; put it in quotes", line)
    return number


def _line(event: Event) -> int:
    return 1 if event.start_mark is None else int(event.start_mark.line) + 1

"""The params of a flow, merged in the order of the command line: the last value wins.

Only keys of the top level are merged. A dot in a key is a dot, not a path.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyoco_server.cli.suggestions import invalid
from pyoco_server.errors import InvalidUsage

Params = dict[str, Any]
EXAMPLE = """pyoco-client submit hello --params '{"name": "Ann"}'"""
# Far above the limit of the server; stops early at a wrong path (a device, a data file).
MAX_FILE_BYTES = 16 * 1024 * 1024


def merge(order: Iterable[str], words: list[str] | None = None, **given: list[str] | None) -> Params:
    """All params; `order` names the options in their order, `given` has the values of each. Words come last."""
    values = {name: iter(texts or ()) for name, texts in given.items()}
    params: Params = {}
    for name in order:
        if name in values:
            params |= READERS[name](next(values[name]))
    for word in words or ():
        params |= from_pair(word, is_option=False)
    try:
        json.dumps(params, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:  # infinite numbers, lone surrogates, deep nesting
        raise InvalidUsage(f"the params cannot be sent: {error}", example=EXAMPLE) from error
    return params


def from_pair(text: str, *, is_option: bool = True) -> Params:
    """`key=value`; the value is JSON where it can be read as such, else the text itself."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        detail = f"--param {text!r} is not key=value" if is_option else f"the word {text!r} is not key=value"
        raise invalid(detail, {text: f"{key or 'key'}={value or 'value'}"})
    try:
        return {key: parse_json(value)}
    except ValueError:
        return {key: value}


def from_json(text: str) -> Params:
    try:
        value = parse_json(text)
    except ValueError as error:
        raise invalid(f"--params is not JSON: {error}", {text: _as_json(text)}) from error
    if not isinstance(value, dict):
        fixed = json.dumps({"key": value}, ensure_ascii=False)
        raise invalid(f"--params is {_kind(value)}, not a JSON object", {text: fixed})
    return value


def from_file(path: str) -> Params:
    """A JSON or YAML file, by its ending; `-` is JSON on standard input."""
    replace = {path: "params.json"}
    raw = read_file(path, f"--params-file {path}", replace)
    try:
        text = raw.decode("utf-8-sig")
        value = _parse_yaml(text) if Path(path).suffix in (".yaml", ".yml") else parse_json(text)
    except UnicodeDecodeError as error:
        raise invalid(f"--params-file {path} is not UTF-8", replace) from error
    except ValueError as error:
        raise invalid(f"--params-file {path}: {error}", replace) from error
    if not isinstance(value, dict):
        raise invalid(f"--params-file {path} holds {_kind(value)}, not an object", replace)
    return value


READERS = {"params_file": from_file, "params": from_json, "param": from_pair}


def parse_json(text: str) -> Any:
    """Strict JSON: neither NaN nor duplicate keys. Raises ValueError."""
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _object(pairs: list[tuple[str, Any]]) -> Params:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        duplicate = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {duplicate!r} is given twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _parse_yaml(text: str) -> Any:
    from pyoco_server.domain.strict_yaml import read_yaml  # here: most commands do not need it

    if not any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines()):
        return {}
    return read_yaml(text.encode()).value


def read_file(path: str, what: str, replace: dict[str, str]) -> bytes:
    """The content of a file; `-` is standard input. Errors begin with `what` and suggest the replacement."""
    try:
        if path == "-":
            raw = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise invalid(f"{what}: {error.strerror}", replace) from error
    if len(raw) > MAX_FILE_BYTES:
        raise invalid(f"{what} is larger than {MAX_FILE_BYTES} bytes", replace)
    return raw


def _as_json(text: str) -> str:
    """The text with Python's quotes replaced by JSON's, or an example."""
    example = {"key": "value"}
    try:
        meant = ast.literal_eval(text)
        return json.dumps(meant if isinstance(meant, dict) else example, ensure_ascii=False, allow_nan=False)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return json.dumps(example)


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(value), "null")

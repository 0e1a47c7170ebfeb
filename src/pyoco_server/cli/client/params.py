"""What a flow is given, gathered from the command line in the order in which it stands there: the last word wins.

Keys of the top level are merged; what stands below a key is replaced whole. A dot in a key is a dot, not a path.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyoco_server.cli.correction import corrected
from pyoco_server.errors import InvalidUsage

Params = dict[str, Any]
EXAMPLE = """pyoco-client submit --flow-name hello --params '{"name": "Ann"}'"""
# Far beyond what the server takes; only so that a wrong path (a device, a data file) is told at once.
MAX_FILE_BYTES = 16 * 1024 * 1024


def merged(order: Iterable[str], given: dict[str, list[str]]) -> Params:
    """All params; `order` names the options as they came, `given` has the values of each."""
    values = {name: iter(texts) for name, texts in given.items()}
    params: Params = {}
    for name in order:
        if name in values:
            params |= READERS[name](next(values[name]))
    try:
        json.dumps(params, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:  # infinite numbers, halves of characters, a tower of brackets
        raise InvalidUsage(f"the params cannot be sent: {error}", example=EXAMPLE) from error
    return params


def from_pair(text: str) -> Params:
    """`key=value`; the value is JSON where it can be read as such, else the text itself."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        fixed = f"{key or 'key'}={value or 'value'}"
        raise _refused(f"--param {text!r} is not key=value", text, fixed)
    try:
        return {key: parse_json(value)}
    except ValueError:
        return {key: value}


def from_json(text: str) -> Params:
    """A JSON object."""
    try:
        value = parse_json(text)
    except ValueError as error:
        raise _refused(f"--params is not JSON: {error}", text, _as_json(text)) from error
    if not isinstance(value, dict):
        fixed = json.dumps({"key": value}, ensure_ascii=False)
        raise _refused(f"--params is {_kind(value)}, not a JSON object", text, fixed)
    return value


def from_file(path: str) -> Params:
    """A JSON or YAML file, by its ending; `-` is JSON on standard input."""
    text = _read(path)
    try:
        value = _parse_yaml(text) if Path(path).suffix in (".yaml", ".yml") else parse_json(text)
    except ValueError as error:
        raise _refused(f"--params-file {path}: {error}", path, "params.json") from error
    if not isinstance(value, dict):
        raise _refused(f"--params-file {path} holds {_kind(value)}, not an object", path, "params.json")
    return value


READERS = {"params_file": from_file, "params": from_json, "param": from_pair}


def parse_json(text: str) -> Any:
    """JSON in the strict sense: neither NaN nor the same key twice. ValueError when it is not."""
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _object(pairs: list[tuple[str, Any]]) -> Params:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} is given twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _parse_yaml(text: str) -> Any:
    from pyoco_server.domain.strict_yaml import read_yaml  # here: most commands never need it

    if not any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines()):
        return {}
    return read_yaml(text.encode()).value


def _read(path: str) -> str:
    try:
        if path == "-":
            raw = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise _refused(f"--params-file {path}: {error.strerror}", path, "params.json") from error
    if len(raw) > MAX_FILE_BYTES:
        raise _refused(f"--params-file {path} is larger than {MAX_FILE_BYTES} bytes", path, "params.json")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refused(f"--params-file {path} is not UTF-8", path, "params.json") from error


def _as_json(text: str) -> str:
    """What was probably meant: Python's quotes turned into JSON's, or an example."""
    try:
        meant = ast.literal_eval(text)
        if isinstance(meant, dict):
            return json.dumps(meant, ensure_ascii=False, allow_nan=False)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return '{"key": "value"}'
    return '{"key": "value"}'


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(value), "null")


def _refused(detail: str, wrong: str, fixed: str) -> InvalidUsage:
    return InvalidUsage(detail, example=corrected(sys.argv[1:], replace={wrong: fixed}))

"""Reads files of strategies: CSV, YAML and JSON, row by row, each with its line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pyoco_server.config import WORDS_FOR_NO, WORDS_FOR_YES
from pyoco_server.domain.pdca.strategies import Strategy, new_strategy
from pyoco_server.domain.strict_yaml import YamlFault, read_yaml
from pyoco_server.errors import InvalidRequest, InvalidUsage

FIELDS = ("id", "title", "instrument", "enabled", "tags")
REQUIRED = FIELDS[:3]
# Strategies of the largest file that is read, and their values in YAML.
MAX_ROWS = 1_000_000
MAX_YAML_VALUES = 20 * MAX_ROWS
KINDS = (".csv", ".yaml", ".yml", ".json")


class Row(NamedTuple):
    """One row of a file: a strategy, or why it is none."""

    line: int
    strategy: Strategy | None
    reason: str = ""


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of the file; `InvalidUsage` when it cannot be read at all. An id that is there again is rejected."""
    if path.suffix.lower() not in KINDS:
        raise InvalidUsage(f"{path}: the name of the file has to end with {', '.join(KINDS)}")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidUsage(f"{path} cannot be read: {error.strerror}") from error
    known: dict[str, int] = {}
    for line, plain in _plain_rows(path, data):
        row = _row(line, plain)
        if row.strategy is not None and row.strategy.id in known:
            row = Row(line, None, f"id: it is there twice, first in line {known[row.strategy.id]}")
        elif row.strategy is not None:
            known[row.strategy.id] = line
        yield row


def _plain_rows(path: Path, data: bytes) -> Iterator[tuple[int, Any]]:
    try:
        match path.suffix.lower():
            case ".csv":
                yield from _from_csv(data.decode("utf-8-sig"))
            case ".json":
                yield from _from_json(data.decode("utf-8-sig"))
            case _:
                yield from _from_yaml(data)
    except UnicodeDecodeError as error:
        raise InvalidUsage(f"{path} is not UTF-8 text") from error
    except (csv.Error, ValueError) as error:
        raise InvalidUsage(f"{path}: {error}") from error


def _from_csv(text: str) -> Iterator[tuple[int, Any]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    head = [name.strip() for name in next(reader, [])]
    if not set(REQUIRED) <= set(head) <= set(FIELDS) or len(set(head)) < len(head):
        raise ValueError(f"line 1: the head has the columns {', '.join(REQUIRED)}, and may have enabled and tags")
    line = reader.line_num
    for cells in reader:
        first, line = line + 1, reader.line_num
        if cells:
            yield first, dict(zip(head, cells, strict=False)) if len(cells) == len(head) else cells


def _from_json(text: str) -> Iterator[tuple[int, Any]]:
    """The items of an array, decoded one by one for the sake of their lines."""
    place = _skip(text, 0)
    if text[place : place + 1] != "[":
        raise ValueError("the file has to be an array of objects")
    decoder, place, line, counted = json.JSONDecoder(), _skip(text, place + 1), 1, 0
    while text[place : place + 1] != "]":
        line, counted = line + text.count("\n", counted, place), place
        try:
            item, place = decoder.raw_decode(text, place)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"line {line}: not JSON") from error
        yield line, item
        place = _skip(text, place)
        if text[place : place + 1] not in (",", "]"):
            raise ValueError(f"line {line}: a comma or the end of the array is missing behind this row")
        if text[place] == ",":
            place = _skip(text, place + 1)


def _skip(text: str, place: int) -> int:
    while text[place : place + 1] in (" ", "\t", "\r", "\n"):
        place += 1
    return place


def _from_yaml(data: bytes) -> Iterator[tuple[int, Any]]:
    try:
        document = read_yaml(data, max_values=MAX_YAML_VALUES)
    except YamlFault as fault:
        raise ValueError(str(fault)) from fault
    if not isinstance(document.value, list):
        raise ValueError("the file has to be a list of strategies")  # noqa: TRY004 — of the file, not of a caller
    for node, item in zip(document.root.value, document.value, strict=True):
        yield node.start_mark.line + 1, item


def _row(line: int, plain: Any) -> Row:
    if not isinstance(plain, Mapping):
        found = f"{len(plain)} columns" if isinstance(plain, list) else "no object"
        return Row(line, None, f"it has {found}, and not the fields {', '.join(FIELDS)}")
    try:
        return Row(line, _strategy(plain))
    except InvalidRequest as refused:
        return Row(line, None, refused.detail)


def _strategy(plain: Mapping[Any, Any]) -> Strategy:
    unknown = [str(name) for name in plain if name not in FIELDS]
    if unknown:
        raise InvalidRequest(f"{unknown[0][:64]}: there is no such field")
    for name in REQUIRED:
        if not isinstance(plain.get(name), str):
            raise InvalidRequest(f"{name}: a text is required")
    return new_strategy(
        strategy_id=plain["id"].strip(),
        title=plain["title"].strip(),
        instrument=plain["instrument"].strip(),
        enabled=_enabled(plain.get("enabled", True)),
        tags=_tags(plain.get("tags", ())),
    )


def _enabled(given: Any) -> bool:
    word = str(given).strip().lower()
    if given is True or word in ("", *WORDS_FOR_YES):
        return True
    if given is False or word in WORDS_FOR_NO:
        return False
    raise InvalidRequest(f"enabled: one of {', '.join(WORDS_FOR_YES + WORDS_FOR_NO)} is accepted")


def _tags(given: Any) -> list[str]:
    """A list, or the tags of a cell joined by commas or semicolons."""
    if isinstance(given, str):
        return [tag.strip() for tag in given.replace(";", ",").split(",") if tag.strip()]
    if not isinstance(given, list | tuple) or not all(isinstance(tag, str) for tag in given):
        raise InvalidRequest("tags: a list of texts is accepted")
    return list(given)

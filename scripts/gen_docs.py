"""Writes the pages of docs/ that say what the code already says: settings, errors, events. It decides nothing."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from inspect import getdoc
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pyoco_server.config import SETTINGS, Setting
from pyoco_server.errors import catalogue

DOCS = Path(__file__).resolve().parent.parent / "docs"
NOTICE = "<!-- Written by scripts/gen-docs from the code. Change the code, then run it. -->"


SETTINGS_INTRO = """\
# Settings

Every setting is an environment variable, and a field of `pyoco_server.config.NatsBackendConfig` of the same
name in lower case without `PYOCO_`. An empty variable is an unset one. A value that cannot work is refused at
start with ERR-PYOCO-0018 and the name of the variable.

Variables may stand in a dotenv file (`.env`): lines `KEY=VALUE`, comments with `#`, an optional `export`, and
quotes, between which nothing is interpreted. A variable that is set already is never overridden.
"""
ERRORS_INTRO = """\
# Errors / エラー一覧

Every error carries its ids wherever it is shown: in the body of an answer, in a log line, on the command line.
The kind decides the HTTP status and the exit status.

エラーは応答本文・ログ・CLI のいずれにも同じ ID で現れます。
種別（kind）が HTTP ステータスと終了コードを決めます。
"""
EVENTS_INTRO = """\
# Events

A run is its list of events. These are all there are; their names are stored and never change. In the log the
names of fields are written in camelCase, and a field that has its default is left out. Times are unix seconds.
"""


def settings_page() -> Iterator[str]:
    yield SETTINGS_INTRO
    yield from table(
        ("variable", "default", "accepted", "what it is"),
        ((f"`{s.variable}`", code(s.default), accepted(s), s.about) for s in SETTINGS),
    )


def accepted(setting: Setting) -> str:
    words = [setting.accepts.words]
    if setting.unit:
        words.append(f"({setting.unit})")
    if setting.secret:
        words.append("(secret: never shown)")
    return " ".join(words)


def errors_page() -> Iterator[str]:
    yield ERRORS_INTRO
    yield from table(
        ("id", "name", "kind", "message / 文面", "what to do / 対処"),
        (
            (
                f"{error.err_id}<br>{error.msg_id}",
                f"`{error.__name__}`",
                error.kind.value,
                f"{error.message()}<br>{error.message_ja}",
                f"{error.hint}<br>{error.hint_ja}",
            )
            for error in catalogue()
        ),
    )


def events_page() -> Iterator[str]:
    from pyoco_server.execution.events import EVENT_NAMES  # here, so that the other pages do not need the core

    yield EVENTS_INTRO.rstrip()
    parts: dict[type, None] = {}
    for name, kind in EVENT_NAMES.items():
        yield from ("", f"## {name}", "", *described(kind))
        parts |= dict.fromkeys(part for hint in get_type_hints(kind).values() for part in dataclasses_in(hint))
    for part in parts:
        yield from ("", f"## {part.__name__} (part of an event)", "", *described(part))


def described(kind: type) -> Iterator[str]:
    yield from ((getdoc(kind) or "").splitlines()[0], "")
    yield from table(
        ("field", "type", "default"),
        ((f"`{field.name}`", code(field.type, raw=True), default(field)) for field in fields(kind)),
    )


def default(field: Field[Any]) -> str:
    if field.default_factory is not MISSING:
        return code(field.default_factory())
    return "required" if field.default is MISSING else code(field.default)


def dataclasses_in(hint: Any) -> Iterator[type]:
    if isinstance(hint, type) and is_dataclass(hint):
        yield hint
    for argument in get_args(hint):
        yield from dataclasses_in(argument)


def code(value: object, *, raw: bool = False) -> str:
    if isinstance(value, bool):
        value = str(value).lower()
    return f"`{value}`" if raw or value not in ("", None) else "–"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield row(head)
    yield row(tuple("---" for _ in head))
    for cells in rows:
        yield row(cells)


def row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "settings.md": settings_page,
    "errors.md": errors_page,
    "events.md": events_page,
}


def page(name: str) -> str:
    """What should stand in the page of this name."""
    return "\n".join([NOTICE, "", *PAGES[name]()]) + "\n"


def is_stale(name: str) -> bool:
    path = DOCS / name
    return not path.exists() or path.read_text("utf-8") != page(name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a page is stale")
    check = parser.parse_args().check
    stale = [name for name in PAGES if is_stale(name)]
    for name in stale:
        print(f"docs/{name}: {'stale; run scripts/gen-docs' if check else 'written'}", file=sys.stderr)
        if not check:
            (DOCS / name).write_text(page(name), "utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())

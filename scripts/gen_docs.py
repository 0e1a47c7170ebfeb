"""Writes the pages of docs/ that say what the code says: settings, errors, events, commands. It decides nothing."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from inspect import get_annotations, getdoc
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
from scripts.openapi_page import openapi_page

from pyoco_server.config import SETTINGS, Setting
from pyoco_server.domain.execution.events import EVENT_NAMES
from pyoco_server.domain.execution.graph import Graph
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
CLI_INTRO = """\
# The command line: pyoco-client

`pyoco-client` does over HTTP what people and scripts do with runs. It is built on the
[SDK](sdk.md).

## Where the server is

| | option | variable | key of a profile | default |
|---|---|---|---|---|
| server | `--server` | `PYOCO_SERVER` | `server` | `http://127.0.0.1:8000` |
| API key | `--api-key` | `PYOCO_API_KEY` | `api-key` | none |
| bearer token | `--token` | `PYOCO_TOKEN` | `token` | none |
| profile | `--profile` | `PYOCO_PROFILE` | that of `config use` | `default` |
| language | – | `PYOCO_LANG` | `language`: `en`, `ja` | the locale: `LC_ALL`, `LC_MESSAGES`, `LANG` |
| form of output | `--output` | – | `output`, where the command has that form | see below |

From left to right: an option wins over a variable, a variable over the profile. The options may stand before the
command or after it; after it wins. A key on the command line can be seen by others on the same machine: prefer a
variable or a profile. A server that wants it in another header (`PYOCO_HTTP_API_KEY_HEADER`) is reached with the same
variable here.

Profiles are in `$XDG_CONFIG_HOME/pyoco/config.toml` (`~/.config/pyoco/config.toml`), which only its owner can read. The
credentials of a profile are sent to the server of that profile only: not with another `--server` or `PYOCO_SERVER`.

```sh
pyoco-client --profile work config set server https://pyoco.example.org
pyoco-client --profile work config set token      # asks for it, so that it is in no history of a shell
pyoco-client config use work
```

## Ids and times

Where a command takes an id it also takes a unique beginning of one (`get 01a1f21e`; runs in the lists only), and
`@last`: the last run, job or execution that was submitted from this machine by this user with this profile to this
server (a file in `$XDG_STATE_HOME/pyoco/last`, so that `cancel @last` never means the run of someone else). `get`,
`cancel`, `explain`, `job get` and `job rm` take several ids; the exit code is the worst one.

A time is `1h` ago (also `s`, `m`, `d`, `w`), a date from its midnight (`2026-11-19`), ISO 8601 (`2026-11-19T09:00`,
with or without a zone), `today`, `yesterday`, or unix seconds. Without a zone it is in the time zone of this machine.
`--since` is "then or later", `--until` is "before". `--at` also takes a version of the run: a number without a point.

## What is printed

What is printed by default does not depend on the terminal, so that a script may rely on it; only colours, the width of
tables (columns that do not fit are cut, or left out) and the live display do. Data goes to stdout, words for people
(errors, hints, what goes on) to stderr.

| `--output` | what it is | default of |
|---|---|---|
| `json` | what the server answered, one document; of events and logs a line for each | all that are not named below |
| `table` | for people: columns, or one run with its tasks | `execution`, `events`, `job ls`, `job get`, `job tags` |
| `status` | one line per run, per task, or per change | `watch`, `submit --watch` and `execute --watch` |
| `text` | sentences, lines of logs, labels | `explain`, `doctor`, `logs`, `job logs`, `job follow`, `job tag` |

`--json id,status` prints only these fields as JSON: of a list an array, of one item an object. `--template` prints a
line for each item, with the values of its fields:

```sh
pyoco-client list --status FAILED --json id,flow_name,error
pyoco-client list --since 1h --template '{id}\\t{status}\\t{error}'
RUN=$(pyoco-client submit hello name=Ann --template '{id}')
```

`{field}` and `{field.sub}` are looked up, nothing is computed; an entry of a list has its number (`{tags.0}`). A text
stands as it is, anything else as JSON, nothing for null. `\\n` and `\\t` are a new line and a tab, `{{` and `}}` are
braces. `id` stands for `run_id`, `executionId` and the like. An unknown field is an error that lists the known ones.

On a terminal, `watch`, `submit --watch` and `execute --watch` draw the tasks with their time and progress while they
run, and end with one line. Elsewhere, and with `TERM=dumb`, they print one line per change. With `--logs`, `watch`,
`submit` and `submit-yaml` print the output of the run to stdout as it comes, and changes of status to stderr.

`NO_COLOR` is heeded. What other people named (flows, tasks, labels, errors) is shown without control characters; in
JSON these are escaped.

Messages and `--help` are in Japanese where the language is (see above), and the server is asked for the same.
`pyoco-server`, `pyoco-worker` and `pyoco-server-admin` do likewise.

## Exit codes

| code | when |
|---|---|
| 0 | it worked; also when the reader of the output went away (`pyoco-client list \\| head`) |
| 1 | something you can mend: a command line (ERR-PYOCO-0018, with a corrected one), an input, what the server refused |
| 1 | with `--wait`, `--watch` or `--until-terminal`: the run did not end COMPLETED, or not in time |
| 1 | `job follow`, `job submit --follow`: the job did not end completed |
| 1 | `doctor`: something is wrong |
| 130 | Ctrl-C, or told to end (SIGTERM). A run or job that was waited for goes on; the message says how to cancel it |

`cancel --wait` is 0 whenever the runs have ended: CANCELLED, or before the cancel came.

## Cancel

`cancel --wait` shows on stderr how long a task may still take to stop by itself before its process is killed: the
grace period, `PYOCO_CANCEL_GRACE_PERIOD_SEC`, 30 s by default. With filters instead of ids it cancels all runs that
match and have not ended; `--status` narrows that to PENDING or RUNNING. It asks first on a terminal, and elsewhere
needs `--yes`:

```sh
pyoco-client cancel --flow report --since 1h --reason "wrong input" --yes
```

## Params

`submit hello name=Ann` is short for `submit --flow-name hello --param name=Ann`. `--params-file`, `--params` and
`--param` may be mixed and repeated. They are merged in the order in which they are given, then the words `key=value`,
and the last one wins, key by key of the top level: what stands below a key is replaced whole.

```sh
pyoco-client submit report --params-file base.yaml --params '{"year": 2026}' title="Annual report"
```

- A file is YAML if its name ends in `.yaml` or `.yml`, else JSON; `-` is JSON on standard input.
- The value of `key=value` is JSON if it can be read as such (`3`, `true`, `[1,2]`, `"3"`), else the text
  itself. A dot in a key is part of the key.

## Completion

`pyoco-client completion bash >> ~/.bashrc`, `completion zsh >> ~/.zshrc`, or `completion fish >
~/.config/fish/completions/pyoco-client.fish`; or `pyoco-client --install-completion`, which finds out the shell and
does it itself. Then open a new shell. Names of flows, routing tags and recent ids are completed from the server, if
it answers within a second.
"""


# Described once, in the introduction.
CONNECTION = ("server", "api_key", "token", "profile", "json_fields", "template", "help")


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
        ("id", "code", "name", "kind", "message / 文面", "what to do / 対処"),
        (
            (
                f"{error.err_id}<br>{error.msg_id}",
                f"`{error.code}`",
                f"`{error.__name__}`",
                error.kind.value,
                f"{error.message()}<br>{error.message_ja}",
                f"{error.hint}<br>{error.hint_ja}",
            )
            for error in catalogue()
        ),
    )


def events_page() -> Iterator[str]:
    yield EVENTS_INTRO.rstrip()
    parts: dict[type, None] = {}
    for name, kind in EVENT_NAMES.items():
        yield from ("", f"## {name}", "", *described(kind))
        parts |= dict.fromkeys(part for hint in get_type_hints(kind).values() for part in parts_in(hint))
    for part in parts:
        yield from ("", f"## {part.__name__} (part of an event)", "", *described(part))


def cli_page() -> Iterator[str]:
    import typer.main

    from pyoco_server.cli.client.program import ALL_COMMANDS, app

    yield CLI_INTRO.rstrip()
    for entry in ALL_COMMANDS:
        command: Any = typer.main.get_command(app)
        for word in entry.name.split():
            command = command.commands[word]
        arguments = "".join(f" {one.metavar}" for one in command.params if one.param_type_name == "argument")
        yield from ("", f"## pyoco-client {entry.name}{arguments}", "", (command.help or "").strip(), "")
        yield from ("```sh", f"pyoco-client {entry.example}", "```")
        rows = [option_row(one) for one in command.params if one.name not in CONNECTION]
        yield from ("", *table(("option", "values", "what it is", "default"), rows)) if rows else ()


def option_row(option: Any) -> tuple[str, ...]:
    words = option.metavar if option.param_type_name == "argument" else ", ".join(option.opts)
    values = ", ".join(f"`{getattr(value, 'value', value)}`" for value in option.type_descriptor.choices or ())
    shown = code(option.default if isinstance(option.default, str) else None)
    return (f"`{words}`", values or "–", (option.help or "").strip(), "required" if option.required else shown)


def described(kind: type) -> Iterator[str]:
    yield from ((getdoc(kind) or "").splitlines()[0], "")
    types = {name: text for base in reversed(kind.__mro__) for name, text in get_annotations(base).items()}
    known = {field.name: field for field in msgspec.structs.fields(kind)} if is_struct(kind) else {}
    rows = ((f"`{name}`", code(text, raw=True), default(known.get(name))) for name, text in types.items())
    yield from table(("field", "type", "default"), rows)


def default(field: msgspec.structs.FieldInfo | None) -> str:
    if field is None or field.required:
        return "required"
    return code(field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory())


def is_struct(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def parts_in(hint: Any) -> Iterator[type]:
    if is_struct(hint) or hint is Graph:
        yield hint
    for argument in get_args(hint):
        yield from parts_in(argument)


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
    "reference/settings.md": settings_page,
    "reference/errors.md": errors_page,
    "reference/events.md": events_page,
    "reference/cli.md": cli_page,
}


OPENAPI = "openapi.yaml"
NAMES = (*PAGES, OPENAPI)


def page(name: str) -> str:
    """What should stand in the page of this name."""
    if name == OPENAPI:
        return openapi_page()
    return "\n".join([NOTICE, "", *PAGES[name]()]) + "\n"


def is_stale(name: str) -> bool:
    path = DOCS / name
    return not path.exists() or path.read_text("utf-8") != page(name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a page is stale")
    check = parser.parse_args().check
    stale = [name for name in NAMES if is_stale(name)]
    for name in stale:
        print(f"docs/{name}: {'stale; run scripts/gen-docs' if check else 'written'}", file=sys.stderr)
        if not check:
            (DOCS / name).write_text(page(name), "utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())

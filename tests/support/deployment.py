"""The files of deploy/, parsed as systemd, Docker and compose parse them, limited to the syntax of our files."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer
import yaml

from pyoco_server.cli import admin, server, worker
from pyoco_server.cli.client import program as client

ROOT = Path(__file__).resolve().parents[2]
SYSTEMD, DOCKER = ROOT / "deploy" / "systemd", ROOT / "deploy" / "docker"
UNITS = sorted(SYSTEMD.glob("*.service"))
PROGRAMS = {
    "pyoco-server": server.app,
    "pyoco-worker": worker.app,
    "pyoco-client": client.app,
    "pyoco-server-admin": admin.app,
}
SECONDS = re.compile(r"(\d+)s?")
IN_BRACES = re.compile(r"\$\{(\w+)(?::-([^}]*)|:\?[^}]*)?\}")

Unit = dict[str, list[str]]


def read_unit(path: Path) -> Unit:
    """The settings of all sections; a setting may occur several times."""
    found: Unit = {}
    for line in path.read_text("utf-8").splitlines():
        if line and line[0] not in "#[":
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def read_environment(path: Path, *, with_examples: bool = False) -> dict[str, str]:
    """The variables of an environment file; `with_examples`: those that are commented out, too."""
    lines = path.read_text("utf-8").splitlines()
    if with_examples:
        lines = [line.removeprefix("#") for line in lines]
    pairs = (re.fullmatch(r"([A-Z_]+)=(.*)", line) for line in lines)
    return {pair[1]: pair[2] for pair in pairs if pair}


def environment_of(unit: Unit) -> dict[str, str]:
    """What Environment= sets, with the folder of %S as systemd has it."""
    words = (word for line in unit.get("Environment", []) for word in shlex.split(line))
    pairs = (word.partition("=") for word in words)
    return {name: specified(value) for name, _, value in pairs}


def specified(text: str) -> str:
    """The text with systemd's specifiers expanded for a first instance on a host of that name."""
    for specifier, value in {"%S": "/var/lib", "%l": "host", "%i": "1"}.items():
        text = text.replace(specifier, value)
    return text


def exec_start(unit: Unit, environment: Mapping[str, str]) -> list[str]:
    """The command line of systemd: `$NAME` as a word of its own is split into words."""
    (line,) = unit["ExecStart"]
    words: list[str] = []
    for word in shlex.split(specified(line)):
        words += environment.get(word[1:], "").split() if word.startswith("$") else [word]
    return words


def dockerfile() -> list[tuple[str, str]]:
    """Instruction and rest, line by line."""
    text = re.sub(r"\\\n\s*", "", (DOCKER / "Dockerfile").read_text("utf-8"))
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


def docker_command(text: str) -> list[str]:
    """The words of an instruction that is given as JSON, perhaps after options."""
    words: list[str] = json.loads(text[text.index("[") :])
    return words


def compose(environment: Mapping[str, str]) -> dict[str, Any]:
    """The services of compose.yaml; variables are filled in after the file was read as YAML, as Docker does it."""
    read = yaml.safe_load((DOCKER / "compose.yaml").read_text("utf-8"))
    services: dict[str, Any] = _filled(read["services"], environment)
    return services


def _filled(node: Any, environment: Mapping[str, str]) -> Any:
    match node:
        case dict():
            return {key: _filled(value, environment) for key, value in node.items()}
        case list():
            return [_filled(value, environment) for value in node]
        case str():
            return IN_BRACES.sub(lambda found: environment.get(found[1]) or found[2] or "", node)
    return node


def seconds(text: str) -> int:
    found = SECONDS.fullmatch(text)
    assert found is not None, text
    return int(found[1])


def parse(words: list[str]) -> dict[str, Any]:
    """Parses the words with our own command line, and raises its errors; runs nothing."""
    command: Any = typer.main.get_command(PROGRAMS[Path(words[0]).name])
    context, rest = None, words[1:]
    while hasattr(command, "resolve_command"):
        context = command.make_context(words[0], rest, parent=context)
        _, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
    return dict(command.make_context(command.name, rest, parent=context).params)


def shell_lines(document: Path) -> Iterator[list[str]]:
    """The command lines of our programs in the shell blocks of a document, including those in containers."""
    for block in re.findall(r"```sh\n(.*?)```", document.read_text("utf-8"), re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(re.sub(r"^docker compose exec \w+ ", "", line), comments=True)
            if words and words[0] in PROGRAMS:
                yield words

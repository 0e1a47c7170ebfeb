"""The answer to a prompt: from the command line, or asked for on a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from pyoco_server.cli import output
from pyoco_server.cli.client.params import parse_json
from pyoco_server.cli.suggestions import command_line, invalid
from pyoco_server.cli.tables import inline_json
from pyoco_server.domain.execution.choices import choices_of, shown
from pyoco_server.errors import InvalidUsage

# An answer that begins like this is meant as JSON; any other one that is no JSON is a text.
_BEGINS_JSON = ("{", "[", '"')


def read_answer(text: str) -> Any:
    """The value of `--answer`: JSON, or a plain text such as `stop`."""
    try:
        return parse_json(text)
    except ValueError as error:
        if not text.strip() or text.lstrip().startswith(_BEGINS_JSON):
            raise invalid(f"--answer is not JSON: {error}", {text: '{"choice": "ship"}'}) from error
        return text


def answer_without_option(execution_id: str, node: Mapping[str, Any]) -> Any:
    """The answer if none was given: a choice that the terminal is asked for; None if the prompt has no choices."""
    choices = choices_of(node.get("prompt"))
    if not choices:
        return None
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        name = str(node["nodeId"])
        raise InvalidUsage(
            f"{name} asks {_question(node)}: choose by --answer one of {shown(choices)}",
            example=command_line(["approve", execution_id, "--node", name, "--answer", _quoted(choices[0])]),
        )
    output.print_stderr(_question(node))
    for number, choice in enumerate(choices, start=1):
        output.print_stderr(f"  {number}. {choice}")
    return _chosen_on_terminal(choices)


def _chosen_on_terminal(choices: Sequence[str]) -> str:
    numbered = {str(number): choice for number, choice in enumerate(choices, start=1)}
    while True:
        sys.stderr.write(output.localized("choice: ", "選択: "))
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise typer.Abort
        picked = line.strip()
        if picked in choices:
            return picked
        if picked in numbered:
            return numbered[picked]
        output.print_stderr(output.localized(f"one of: {shown(choices)}", f"次のいずれか: {shown(choices)}"))


def _question(node: Mapping[str, Any]) -> str:
    prompt = node.get("prompt")
    others = {key: value for key, value in prompt.items() if key != "choices"} if isinstance(prompt, Mapping) else {}
    question = others.get("question", others.get("text"))
    return question if isinstance(question, str) else inline_json(others)


def _quoted(choice: str) -> str:
    """The choice as `--answer` reads it back."""
    try:
        same = read_answer(choice)
    except InvalidUsage:
        same = None
    return choice if isinstance(same, str) and same == choice else json.dumps(choice, ensure_ascii=False)

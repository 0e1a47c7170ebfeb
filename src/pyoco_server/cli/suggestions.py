"""Corrected command lines for invalid ones. Every suggestion parses, and none contains a secret."""

from __future__ import annotations

import difflib
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from typer.exceptions import TyperException

from pyoco_server.errors import InvalidUsage

SECRETS = {"--api-key": "$PYOCO_API_KEY", "--token": "$TOKEN"}
# A misspelled name of another option must not select a profile.
NEVER_MEANT = {"--profile"}
PASSWORD = re.compile(r"://[^/@\s]*@")
MAX_CHARS = 400
MAX_CORRECTIONS = 3
CLIENT = "pyoco-client"


def invalid(detail: str, replace: Mapping[str, str], *, program: str = CLIENT) -> InvalidUsage:
    """The error for an argument that typer accepts; its example is the command line with the words replaced."""
    words = [_replace(word, replace) for word in sys.argv[1:]]
    return InvalidUsage(detail, example=command_line(words, program=program))


def command_line(words: Sequence[str], *, program: str = CLIENT) -> str | None:
    """The words as one would type them, without secrets; None if that is too long to read."""
    shown: list[str] = []
    hidden: str | None = None
    for word in words:
        name, equals, _ = word.partition("=")
        if hidden is not None:
            shown.append(f'"{hidden}"')
            hidden = None
        elif name in SECRETS and equals:
            shown.append(f'{name}="{SECRETS[name]}"')
        else:
            hidden = SECRETS.get(word)
            shown.append(shlex.quote(PASSWORD.sub("://…@", word)))
    text = " ".join([program, *shown])
    return text if len(text) <= MAX_CHARS else None


def suggest(error: TyperException, root: Any, arguments: Sequence[str], program: str) -> str | None:
    """The command line with its mistakes corrected; if that is not possible, the example of the command's help."""
    words, problem = list(arguments), error
    for _ in range(MAX_CORRECTIONS):
        corrected = _correct(problem, words, example_of(root, words))
        if corrected is None:
            break
        words, remaining = corrected, _problem(root, corrected)
        if remaining is None:
            return command_line(words, program=program) or example_of(root, words)
        problem = remaining
    return example_of(root, words)


def example_of(root: Any, arguments: Sequence[str], *, if_given: bool = False) -> str | None:
    """The example in the help of the command that the arguments name; of the program, if they name none.

    `if_given` returns it only if the command has arguments: otherwise none of them can be wrong.
    """
    command, rest = _find(root, arguments)
    if if_given and not rest:
        return None
    return (command.epilog or root.epilog or "").removeprefix("Example: ") or None


def _find(root: Any, arguments: Sequence[str]) -> tuple[Any, list[str]]:
    command, rest = root, list(arguments)
    for place, word in enumerate(arguments):
        if word in getattr(command, "commands", {}):
            command, rest = command.commands[word], list(arguments[place + 1 :])
    return command, rest


def _problem(root: Any, words: list[str]) -> TyperException | None:
    command, rest = _find(root, words)
    if hasattr(command, "commands"):
        return TyperException("Missing command.")
    if {"--help", "-h", "--version"} & set(rest):
        return None  # parsing them would print
    try:
        command.make_context(command.name, rest)
    except TyperException as error:
        return error
    return None


def _correct(error: Any, arguments: list[str], example: str | None) -> list[str] | None:
    context = getattr(error, "ctx", None)
    if context is None:
        return None
    kind = type(error).__name__
    if kind == "MissingParameter" and getattr(error.param, "param_type_name", None) == "option":
        name = max(error.param.opts, key=len)
        match _unnamed_values(arguments, context):
            case []:
                return [*arguments, name, _value_in(example, name)]
            case [place]:
                return [*arguments[:place], name, *arguments[place:]]
            case _:
                return None
    if kind == "BadOptionUsage" and arguments[-1:] == [error.option_name]:
        return [*arguments, _value_in(example, error.option_name)]
    if kind == "NoSuchOption":
        given = {word.partition("=")[0] for word in arguments}
        given |= NEVER_MEANT
        free = [one for one in context.command.params if getattr(one, "multiple", False) or not given & set(one.opts)]
        return _rename(arguments, error.option_name, [name for one in free for name in one.opts if name[:1] == "-"])
    if kind == "UsageError" and hasattr(context.command, "commands"):
        known = list(context.command.commands)
        unknown = [word for word in arguments if word not in known and f"'{word}'" in error.message]
        return _rename(arguments, unknown[0], known) if unknown else None
    return None


def _unnamed_values(arguments: list[str], context: Any) -> list[int]:
    valued = {name for one in context.command.params if not getattr(one, "is_flag", False) for name in one.opts}
    start = arguments.index(context.info_name) + 1 if context.info_name in arguments else 0
    return [
        place
        for place, word in enumerate(arguments)
        if place >= start and not word.startswith("-") and arguments[place - 1] not in valued
    ]


def _value_in(example: str | None, option: str) -> str:
    words = shlex.split(example or "")
    after = words[words.index(option) + 1 :] if option in words else []
    return after[0] if after else "VALUE"


def _rename(arguments: list[str], wrong: str, known: list[str]) -> list[str] | None:
    near = difflib.get_close_matches(wrong, known, n=1)
    return [_replace(word, {wrong: near[0]}) for word in arguments] if near else None


def _replace(word: str, replace: Mapping[str, str]) -> str:
    """The replacement of a word, also where it stands before or behind an `=`."""
    if word in replace:
        return replace[word]
    name, equals, value = word.partition("=")
    if equals and name in replace:
        return f"{replace[name]}={value}"
    if equals and name.startswith("--") and value in replace:
        return f"{name}={replace[value]}"
    return word

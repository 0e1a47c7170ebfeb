"""A command line that was refused, written as it would be accepted; secrets are left out of it. It runs nothing."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

SECRETS = {"--api-key": "$PYOCO_API_KEY", "--token": "$TOKEN"}
PASSWORD = re.compile(r"://[^/@\s]*@")
MAX_SHOWN = 400
PROGRAM = "pyoco-client"


def corrected(arguments: Sequence[str], *, replace: Mapping[str, str], program: str = PROGRAM) -> str:
    """The same command with some words replaced, also where they stand behind an `=`."""
    return _shown(program, [_replaced(word, replace) for word in arguments])


def suggestion(error: Any, arguments: Sequence[str]) -> str | None:
    """The very command with the fix where the fix is known, else the example of the command's help."""
    context = getattr(error, "ctx", None)
    if context is None:
        return None
    program = context.find_root().info_name or PROGRAM
    example = (context.command.epilog or "").removeprefix("Example: ") or None
    fixed = _fixed(error, context, list(arguments), example)
    return example if fixed is None else _shown(program, fixed)


def _fixed(error: Any, context: Any, arguments: list[str], example: str | None) -> list[str] | None:
    kind = type(error).__name__
    if kind == "MissingParameter" and getattr(error.param, "param_type_name", None) == "option":
        name = max(error.param.opts, key=len)
        match _strays(arguments, context):
            case []:
                return [*arguments, name, _example_of(name, shlex.split(example or ""))]
            case [place]:
                return [*arguments[:place], name, *arguments[place:]]  # its value, without its name
            case _:
                return None
    if kind == "BadOptionUsage" and arguments[-1:] == [error.option_name]:
        return [*arguments, _example_of(error.option_name, shlex.split(example or ""))]
    if kind == "NoSuchOption":
        known = [name for one in context.command.params for name in one.opts if name.startswith("-")]
        return _renamed(arguments, error.option_name, known)
    if kind == "UsageError" and hasattr(context.command, "commands"):
        known = list(context.command.commands)
        unknown = [word for word in arguments if word not in known and f"'{word}'" in error.message]
        return _renamed(arguments, unknown[0], known) if unknown else None
    return None


def _strays(arguments: list[str], context: Any) -> list[int]:
    """Where words stand that belong to no option of the command."""
    valued = {name for one in context.command.params if not getattr(one, "is_flag", False) for name in one.opts}
    start = arguments.index(context.info_name) + 1 if context.info_name in arguments else 0
    return [
        place
        for place, word in enumerate(arguments)
        if place >= start and not word.startswith("-") and arguments[place - 1] not in valued
    ]


def _example_of(name: str, example: list[str]) -> str:
    """The value that the example gives an option."""
    after = example[example.index(name) + 1 :] if name in example else []
    return after[0] if after else "VALUE"


def _renamed(arguments: list[str], wrong: str, known: list[str]) -> list[str] | None:
    near = difflib.get_close_matches(wrong, known, n=1)
    return [_replaced(word, {wrong: near[0]}) for word in arguments] if near else None


def _replaced(word: str, replace: Mapping[str, str]) -> str:
    if word in replace:
        return replace[word]
    name, equals, value = word.partition("=")
    if equals and name in replace:
        return f"{replace[name]}={value}"
    if equals and name.startswith("--") and value in replace:
        return f"{name}={replace[value]}"
    return word


def _shown(program: str, words: list[str]) -> str:
    shown: list[str] = []
    hide_next: str | None = None
    for word in words:
        name, equals, _ = word.partition("=")
        if hide_next is not None:
            shown.append(f'"{hide_next}"')
            hide_next = None
        elif name in SECRETS and equals:
            shown.append(f'{name}="{SECRETS[name]}"')
        else:
            hide_next = SECRETS.get(word)
            shown.append(shlex.quote(PASSWORD.sub("://…@", word)))
    told = " ".join([program, *shown])
    return told if len(told) <= MAX_SHOWN else f"{told[:MAX_SHOWN]}…"

"""Messages on stderr, in English or Japanese, and the exit codes of all command lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import typer
from typer.exceptions import TyperException

from pyoco_server.cli.suggestions import example_of, suggest
from pyoco_server.cli.terminal_escape import escape_lines
from pyoco_server.errors import InvalidUsage, PyocoError, catalogue
from pyoco_server.japanese import is_japanese_locale, japanese

OK, FAILED, INTERRUPTED = 0, 1, 130


def print_stderr(text: str) -> None:
    """Print a message for people; stdout is for results."""
    sys.stderr.write(f"{escape_lines(text)}\n")
    sys.stderr.flush()


def is_japanese() -> bool:
    """Whether PYOCO_LANG or the locale of this terminal is Japanese."""
    return is_japanese_locale(os.environ, "PYOCO_LANG")


def localized(english: str, japanese: str) -> str:
    return japanese if is_japanese() else english


def print_error(error: PyocoError, example: str | None = None) -> None:
    """Print an error of the catalogue: the detail, its id, the hint, and a command that works."""
    detail = with_japanese(error.message_ja, error.detail) if is_japanese() else error.detail
    print_problem(detail, error.err_id, localized(error.hint, error.hint_ja), error.facts.get("example") or example)


def with_japanese(message: str, detail: str) -> str:
    """The Japanese message, followed by the detail unless that is the same message."""
    if detail in (message, *(known.message() for known in catalogue())):
        return message
    return f"{message}: {japanese(detail)}"


def print_problem(detail: str, err_id: str | None, hint: str | None, example: object = None) -> None:
    print_stderr(f"{localized('error', 'エラー')}: {detail}{f' [{err_id}]' if err_id else ''}")
    if hint:
        print_stderr(f"{localized('hint', '対処')}: {hint}")
    if example:
        print_stderr(f"{localized('example', '修正例')}: {example}")


def run(app: typer.Typer, name: str) -> None:
    """Run a program and exit. Invalid arguments end with exit code 1, as the contract says, not with typer's 2."""
    raise SystemExit(_exit_code(app, name, sys.argv[1:]))


def _exit_code(app: typer.Typer, name: str, arguments: list[str]) -> int:
    command = typer.main.get_command(app)
    if is_japanese():
        from pyoco_server.cli.japanese_help import translate_help

        translate_help(command)
    try:
        returned = command(args=arguments, prog_name=name, standalone_mode=False)
    except TyperException as error:
        context = getattr(error, "ctx", None)
        if context is not None:
            print_stderr(context.get_usage())
        # Typer puts every choice on a line of its own, and pydantic names the class of an error.
        detail = " ".join(error.format_message().split()).replace(": Value error, ", ": ")
        print_error(InvalidUsage(detail, example=suggest(error, command, arguments, name)))
        return FAILED
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except (PyocoError, ExceptionGroup) as error:
        group = error if isinstance(error, ExceptionGroup) else ExceptionGroup("", [error])
        ours, others = group.split(PyocoError)
        if ours is None or others is not None:
            raise
        example = example_of(command, arguments, if_given=True)
        for one in _leaves(ours):
            print_error(one, example if isinstance(one, InvalidUsage) else None)
        return FAILED
    return returned if isinstance(returned, int) else OK


def _leaves(group: ExceptionGroup[PyocoError]) -> Iterator[PyocoError]:
    for error in group.exceptions:
        if isinstance(error, ExceptionGroup):
            yield from _leaves(error)
        else:
            yield error

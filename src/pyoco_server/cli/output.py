"""How the command lines end and what they say: people read stderr, programs stdout; exit codes follow the contract."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

import typer
from typer.exceptions import TyperException

from pyoco_server.cli import plain
from pyoco_server.cli.correction import suggestion
from pyoco_server.errors import InvalidUsage, PyocoError, catalogue

OK, USER_CAN_MEND, INTERRUPTED = 0, 1, 130


def say(text: str) -> None:
    """A line for people."""
    sys.stderr.write(f"{plain.lines(text)}\n")
    sys.stderr.flush()


def speaks_japanese() -> bool:
    """Whether the person at this terminal has set Japanese."""
    words = (os.environ.get(name, "") for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return next((word for word in words if word), "").lower().startswith("ja")


def in_words(english: str, japanese: str) -> str:
    """What to say to the person at this terminal."""
    return japanese if speaks_japanese() else english


def complain(error: PyocoError) -> None:
    """An error in the catalogue's words: what is wrong, and what to do next."""
    detail = in_words(error.detail, in_japanese(error.message_ja, error.detail))
    tell(detail, error.err_id, in_words(error.hint, error.hint_ja), example=error.facts.get("example"))


def in_japanese(message: str, detail: str) -> str:
    """The sentence, and the English detail behind it; not where that is the same sentence once more."""
    return message if detail in (message, *(known.message() for known in catalogue())) else f"{message}: {detail}"


def tell(detail: str, err_id: str | None, hint: str | None, *, example: object = None) -> None:
    """An error, its id, what to do next, and the command that would do it."""
    say(f"error: {detail} [{err_id}]" if err_id else f"error: {detail}")
    if hint:
        say(f"hint: {hint}")
    if example:
        say(f"{in_words('example', '修正例')}: {example}")


def run(app: typer.Typer, name: str) -> None:
    """Run a command line to its exit code; usage errors are 1, as the contract says, not the library's 2."""
    raise SystemExit(_exit_code(lambda: app(prog_name=name, standalone_mode=False)))


def _exit_code(command: Callable[[], object]) -> int:
    try:
        returned = command()
    except TyperException as error:
        context = getattr(error, "ctx", None)
        if context is not None:
            say(context.get_usage())
        # What there is to choose from comes with a line for each.
        detail = " ".join(error.format_message().split())
        complain(InvalidUsage(detail, example=suggestion(error, sys.argv[1:])))
        return USER_CAN_MEND
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except PyocoError as error:
        complain(error)
        return USER_CAN_MEND
    except ExceptionGroup as group:
        ours, others = group.split(PyocoError)
        if ours is None or others is not None:
            raise
        for one in _leaves(ours):
            complain(one)
        return USER_CAN_MEND
    return returned if isinstance(returned, int) else OK


def _leaves(group: ExceptionGroup[PyocoError]) -> Iterator[PyocoError]:
    for error in group.exceptions:
        if isinstance(error, ExceptionGroup):
            yield from _leaves(error)
        else:
            yield error

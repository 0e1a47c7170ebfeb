"""Options that several commands share, and checks before a request is sent."""

from __future__ import annotations

import re
import sys
from enum import StrEnum
from typing import Annotated, Literal

from typer import Argument, Option

from pyoco_server.cli.suggestions import command_line, invalid
from pyoco_server.errors import InvalidUsage
from pyoco_server.http_client import RunStatus

EXAMPLE_ID = "0190a8c0-7d2e-7cc3-8b54-0d2f9a6c1e11"
# A number of seconds: neither NaN nor infinite.
MAX_SEC = 1e12


class Include(StrEnum):  # typer has no lists of literals
    RECORDS = "records"
    FULL = "full"
    ALL = "all"


RunIdArgument = Annotated[str | None, Argument(metavar="RUN_ID", help="The run.")]
RunIdOption = Annotated[str | None, Option("--run-id", metavar="RUN_ID", help="The same, as an option.")]
JobIdArgument = Annotated[str, Argument(metavar="JOB_ID", help="The job.")]
TagOption = Annotated[str | None, Option(help="Which workers may take it; the server's default tag if absent.")]
TimeoutOption = Annotated[
    float | None, Option("--timeout-sec", min=0.001, max=MAX_SEC, help="Stop waiting; the run continues.")
]
RunTimeoutOption = Annotated[
    float | None,
    Option("--run-timeout-sec", min=0.001, max=MAX_SEC, help="Stop a run that takes longer; it is then FAILED."),
]
ParamsFileOption = Annotated[
    list[str] | None, Option(metavar="FILE", help="Params from a JSON or YAML file, or - for stdin.")
]
ParamsOption = Annotated[list[str] | None, Option(metavar="JSON", help="Params as a JSON object.")]
ParamOption = Annotated[list[str] | None, Option(metavar="KEY=VALUE", help="One param; the value is JSON or text.")]
StrictOption = Annotated[
    bool, Option("--strict/--no-strict", help="Refuse what no running worker can run, or queue it all the same.")
]
RunOutput = Annotated[Literal["json", "table", "status"], Option("--output", "-o", help="What to print.")]
ListOutput = Annotated[Literal["json", "table"], Option("--output", "-o", help="What to print.")]
TableOutput = Annotated[Literal["table", "json"], Option("--output", "-o", help="What to print.")]
TextOutput = Annotated[Literal["text", "json"], Option("--output", "-o", help="What to print.")]
IncludeOption = Annotated[list[Include] | None, Option(help="More fields; may be repeated.")]
LimitOption = Annotated[int | None, Option(min=1, max=200, help="How many at most; 50 by default.")]
CursorOption = Annotated[str | None, Option(help="Continue behind a page: its next_cursor or nextCursor.")]
LabelsOption = Annotated[
    list[str] | None, Option("--tags", help="Labels, joined by commas; repeatable.", metavar="LABEL,…")
]
StatusOption = Annotated[RunStatus | None, Option(case_sensitive=False, help="Only runs of this status.")]


def required_run_id(argument: str | None, option: str | None) -> str:
    """The id of the run, which may be given as an argument or as an option."""
    if argument and option and argument != option:
        twice = ("--run-id", option, f"--run-id={option}")
        raise InvalidUsage(
            f"two different runs are given: {argument} and --run-id {option}",
            example=command_line([word for word in sys.argv[1:] if word not in twice]),
        )
    run_id = argument or option
    if not run_id:
        raise InvalidUsage("no run is given", example=command_line([*filter(None, sys.argv[1:]), EXAMPLE_ID]))
    return valid_id("a run id", run_id)


def valid_id(what: str, text: str, example: str = EXAMPLE_ID) -> str:
    """The id, which cannot lead to another path of the server."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,128}", text):
        raise invalid(f"{text[:80]!r} is not {what}", {text: example})
    return text


def split_labels(given: list[str] | None) -> list[str] | None:
    """`--tags a,b --tags c` as a list; None if there are none, so that the server's default applies."""
    found = [label.strip() for text in given or [] for label in text.split(",")]
    return list(dict.fromkeys(label for label in found if label)) or None


def check_timeout(timeout_sec: float | None, *, waits: bool, option: str = "--wait") -> None:
    """Refuse --timeout-sec where nothing waits."""
    if timeout_sec is not None and not waits:
        raise InvalidUsage(f"--timeout-sec needs {option}", example=command_line([*sys.argv[1:], option]))

"""Options that several commands share, and what is asked of them before a server is."""

from __future__ import annotations

import re
import sys
from enum import StrEnum
from typing import Annotated, Literal

import typer

from pyoco_server.cli.correction import corrected
from pyoco_server.errors import InvalidUsage

Status = Literal["PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLING", "CANCELLED"]
EXAMPLE_ID = "0190a8c0-7d2e-7cc3-8b54-0d2f9a6c1e11"


class Include(StrEnum):
    """What may be asked for beside the fields that are always there."""

    RECORDS = "records"
    FULL = "full"
    ALL = "all"


RunIdArgument = Annotated[str | None, typer.Argument(metavar="RUN_ID", help="Which run.", show_default=False)]
RunIdOption = Annotated[str | None, typer.Option("--run-id", metavar="RUN_ID", help="The same, as an option.")]
JobIdArgument = Annotated[str, typer.Argument(metavar="JOB_ID", help="Which job.", show_default=False)]
TagOption = Annotated[str | None, typer.Option(help="Which workers may take it; the server's default tag if absent.")]
TimeoutOption = Annotated[
    float | None, typer.Option("--timeout-sec", min=0.001, help="Wait no longer than this; the run goes on.")
]
RunTimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--run-timeout-sec", min=0.001, help="Stop the run when it takes longer; it is then FAILED.", show_default=False
    ),
]
RunOutput = Annotated[Literal["json", "table", "status"], typer.Option("--output", "-o", help="What to print.")]
ListOutput = Annotated[Literal["json", "table"], typer.Option("--output", "-o", help="What to print.")]
TableOutput = Annotated[Literal["table", "json"], typer.Option("--output", "-o", help="What to print.")]
TextOutput = Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="What to print.")]
IncludeOption = Annotated[list[Include] | None, typer.Option(help="More fields; may be repeated.")]
LimitOption = Annotated[int | None, typer.Option(min=1, max=200, help="How many at most; 50 by default.")]
CursorOption = Annotated[str | None, typer.Option(help="Go on where a page ended: its nextCursor.")]
LabelsOption = Annotated[
    list[str] | None, typer.Option("--tags", help="Labels, joined by commas; may be repeated.", metavar="LABEL,…")
]


def the_run(argument: str | None, option: str | None) -> str:
    """The run that is meant, however it was named."""
    if argument and option and argument != option:
        twice = ("--run-id", option, f"--run-id={option}")
        raise InvalidUsage(
            f"two different runs are named: {argument} and --run-id {option}",
            example=corrected([word for word in sys.argv[1:] if word not in twice], replace={}),
        )
    run_id = argument or option
    if not run_id:
        raise InvalidUsage("no run is named", example=corrected([*filter(None, sys.argv[1:]), EXAMPLE_ID], replace={}))
    return checked_id("a run id", run_id, EXAMPLE_ID)


def the_job(job_id: str) -> str:
    return checked_id("a job id", job_id, EXAMPLE_ID)


def checked_id(what: str, text: str, example: str) -> str:
    """An id, which cannot lead to another path of the server than the one that is meant."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,128}", text):
        raise InvalidUsage(f"{text[:80]!r} is not {what}", example=corrected(sys.argv[1:], replace={text: example}))
    return text


def labels(given: list[str] | None) -> list[str] | None:
    """`--tags a,b --tags c` as a list; None when there are none, so that the server's default holds."""
    found = [label.strip() for text in given or [] for label in text.split(",")]
    return list(dict.fromkeys(label for label in found if label)) or None


def check_timeout(timeout_sec: float | None, *, waits: bool) -> None:
    """A time to wait for nothing is a mistake, and better told than ignored."""
    if timeout_sec is not None and not waits:
        raise InvalidUsage("--timeout-sec needs --wait", example=corrected([*sys.argv[1:], "--wait"], replace={}))

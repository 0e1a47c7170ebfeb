"""Options that several commands share, and checks before a request is sent."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal

from typer import Argument, Option

from pyoco_server.cli.client.completions import flow_names, recent_ids, routing_tags
from pyoco_server.cli.selection import Selection
from pyoco_server.cli.suggestions import command_line, invalid
from pyoco_server.cli.times import parse_time
from pyoco_server.errors import InvalidUsage
from pyoco_server.http_client import RunStatus

LAST = "@last"
EXAMPLE_ID = "0190a8c0-7d2e-7cc3-8b54-0d2f9a6c1e11"
# A number of seconds: neither NaN nor infinite.
MAX_SEC = 1e12


class Include(StrEnum):  # typer has no lists of literals
    RECORDS = "records"
    FULL = "full"
    ALL = "all"


# An id, a unique beginning of one, or @last.
RunIdArgument = Annotated[
    str | None,
    Argument(metavar="RUN_ID", help="The run: its id or its beginning, or @last.", autocompletion=recent_ids),
]
RunIdArguments = Annotated[
    list[str] | None,
    Argument(metavar="RUN_ID...", help="The runs: ids or their beginnings, or @last.", autocompletion=recent_ids),
]
RunIdOption = Annotated[
    str | None,
    Option("--run-id", metavar="RUN_ID", help="The same, as an option.", autocompletion=recent_ids),
]
JobIdArgument = Annotated[
    str, Argument(metavar="JOB_ID", help="The job: its id or its beginning, or @last.", autocompletion=recent_ids)
]
JobIdArguments = Annotated[
    list[str],
    Argument(metavar="JOB_ID...", help="The jobs: ids or their beginnings, or @last.", autocompletion=recent_ids),
]
WordsArgument = Annotated[
    list[str] | None,
    Argument(metavar="[FLOW] [KEY=VALUE]...", help="The flow and its params.", autocompletion=flow_names),
]
ParamWordsArgument = Annotated[
    list[str] | None, Argument(metavar="[KEY=VALUE]...", help="Its params; the same as --param.")
]
TagOption = Annotated[
    str | None,
    Option(
        "--tag",
        "--queue",
        help="Which workers may take it; the server's default tag if absent.",
        autocompletion=routing_tags,
    ),
]
TagFilter = Annotated[
    str | None, Option("--tag", "--queue", help="Only runs with this routing tag.", autocompletion=routing_tags)
]
FlowFilter = Annotated[str | None, Option("--flow", help="Only runs of this flow.", autocompletion=flow_names)]
SinceOption = Annotated[
    str | None, Option("--since", metavar="TIME", help="Submitted then or later: 1h ago, a date, ISO 8601.")
]
UntilOption = Annotated[str | None, Option("--until", metavar="TIME", help="Submitted before then.")]
AtOption = Annotated[
    str | None, Option("--at", metavar="TIME|VERSION", help="As it was: a time as for --since, or a version.")
]
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
# With `Selection` a command also has --json and --template.
RunOutput = Annotated[Literal["json", "table", "status"] | Selection, Option("--output", "-o", help="What to print.")]
ListOutput = Annotated[Literal["json", "table"] | Selection, Option("--output", "-o", help="What to print.")]
TableOutput = Annotated[Literal["table", "json"] | Selection, Option("--output", "-o", help="What to print.")]
PlainOutput = Annotated[Literal["table", "json"], Option("--output", "-o", help="What to print.")]
TextOutput = Annotated[Literal["text", "json"], Option("--output", "-o", help="What to print.")]
IncludeOption = Annotated[list[Include] | None, Option(help="More fields; may be repeated.")]
LimitOption = Annotated[int | None, Option(min=1, max=200, help="How many at most; 50 by default.")]
CursorOption = Annotated[str | None, Option(help="Continue behind a page: its next_cursor or nextCursor.")]
LabelsOption = Annotated[
    list[str] | None, Option("--tags", "--labels", help="Labels, joined by commas; repeatable.", metavar="LABEL,…")
]
StatusOption = Annotated[RunStatus | None, Option(case_sensitive=False, help="Only runs of this status.")]


def required_run_id(argument: str | None, option: str | None) -> str:
    """The id of the run, which may be given as an argument or as an option."""
    return required_run_ids([argument] if argument else [], option)[0]


def required_run_ids(arguments: Sequence[str] | None, option: str | None) -> list[str]:
    """The ids of one or more runs; a single one may be given as an option."""
    given = [word for word in arguments or () if word]
    if given and option and given != [option]:
        twice = ("--run-id", option, f"--run-id={option}")
        raise InvalidUsage(
            f"two different runs are given: {given[0]} and --run-id {option}",
            example=command_line([word for word in sys.argv[1:] if word not in twice]),
        )
    run_ids = given or [option or ""]
    if run_ids == [""]:
        raise InvalidUsage("no run is given", example=command_line([*filter(None, sys.argv[1:]), EXAMPLE_ID]))
    return list(dict.fromkeys(valid_id("a run id", word) for word in run_ids))


def valid_id(what: str, text: str, example: str = EXAMPLE_ID) -> str:
    """The id or @last, which cannot lead to another path of the server."""
    if text != LAST and not re.fullmatch(r"[A-Za-z0-9_-]{1,128}", text):
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


def submitted(since: str | None, until: str | None) -> dict[str, Any]:
    """The filters of --since and --until."""
    return {"submitted_after": given_time("--since", since), "submitted_before": given_time("--until", until)}


def given_time(option: str, given: str | None) -> float | None:
    if given is None:
        return None
    try:
        return parse_time(given, time.time())
    except ValueError as error:
        raise invalid(f"{option}: {error}", {given: "1h"}) from error


def as_of(given: str | None) -> float | int | None:
    """The time or, if it is a number, the version of --at."""
    if given is None or not (given.isascii() and given.isdigit()):
        return given_time("--at", given)
    return int(given)


def flow_and_words(words: Sequence[str] | None, flow: str | None, option: str) -> tuple[str | None, list[str]]:
    """The flow, which is the first word or an option, and the words with params."""
    first, *others = words or [""]
    if not first or "=" in first:
        return flow, list(words or ())
    if flow is not None:
        raise InvalidUsage(
            f"the flow is given twice: {first[:80]} and {option} {flow[:80]}",
            example=command_line([word for word in sys.argv[1:] if word != first]),
        )
    return first, others

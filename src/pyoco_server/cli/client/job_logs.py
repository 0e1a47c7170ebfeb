"""What jobs write: `pyoco-client job logs` and `job follow`, for people line by line, for programs as JSON or bytes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pyoco_server.cli import output
from pyoco_server.cli.client import job_view as view
from pyoco_server.cli.client import screen
from pyoco_server.cli.client.connection import Where, connected, reaches_server
from pyoco_server.cli.client.following import job_goes_on
from pyoco_server.cli.client.log_lines import MOST_LINES, writer
from pyoco_server.cli.client.options import JobIdArgument, TextOutput, the_job
from pyoco_server.cli.correction import corrected
from pyoco_server.errors import InvalidUsage

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoHttpClient

Level = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
TailOption = Annotated[int | None, typer.Option(min=1, max=MOST_LINES, help="Only the last so many lines.")]
TaskOption = Annotated[str | None, typer.Option(help="Only lines of this task.")]
LevelOption = Annotated[
    Level | None, typer.Option(case_sensitive=False, help="Only lines of this level or more severe.")
]
SinceOption = Annotated[
    str | None, typer.Option("--since", metavar="TOKEN", help="Go on here: a token that `job logs` said.")
]


@reaches_server
def logs(
    where: Where,
    job_id: JobIdArgument,
    tail: TailOption = None,
    task: TaskOption = None,
    level: LevelOption = None,
    since: SinceOption = None,
    text: Annotated[
        str | None,
        typer.Option("--text", metavar="FILE", help="The whole log as text; goes on where FILE ends. - is stdout."),
    ] = None,
    form: TextOutput = "text",
) -> None:
    """Show what a job has written so far: each line with its time (UTC) and its task."""
    wanted = the_job(job_id)
    filters = {"--tail": tail, "--task": task, "--level": level, "--since": since}
    if text is not None:
        _refuse_beside_text([name for name, value in filters.items() if value is not None], wanted, text)
    with connected(where) as client:
        if text is not None:
            _download(client, wanted, text)
            return
        show = writer(form)
        page: Any = {}
        for page in _pages(client, wanted, tail, since, task, level):
            for entry in page["entries"]:
                show(entry)
    if not page["complete"]:
        again = f"pyoco-client job logs {wanted} --since {page['nextToken']}"
        output.say(output.in_words(f"the job goes on; to go on here: {again}", f"job は継続中です。続き: {again}"))


def _pages(
    client: PyocoHttpClient, job_id: str, tail: int | None, since: str | None, task: str | None, level: str | None
) -> Iterator[Any]:
    """All that is written so far, or the last of it. Of chosen lines a page may have none, and more behind it."""
    page = client.job_logs(job_id, since_token=since, tail=tail, limit=MOST_LINES, task=task, level=level)
    yield page
    while tail is None and not page["complete"] and page["nextToken"] != since:
        since = page["nextToken"]
        page = client.job_logs(job_id, since_token=since, limit=MOST_LINES, task=task, level=level)
        yield page


def _refuse_beside_text(others: list[str], job_id: str, text: str) -> None:
    if others:
        raise InvalidUsage(
            f"--text brings the whole log; {others[0]} chooses from it",
            example=corrected(["job", "logs", job_id, "--text", text], replace={}),
        )


def _download(client: PyocoHttpClient, job_id: str, text: str) -> None:
    if text == "-":
        client.download_job_log(job_id, screen.bytes_of_others())
        return
    with _on_disk(job_id, text):
        received = client.download_job_log(job_id, text)
    screen.write_json({**received, "path": text})


@contextmanager
def _on_disk(job_id: str, text: str) -> Iterator[None]:
    """What this machine's disk refuses, and a file that holds something else, is for its owner to mend."""
    example = corrected(["job", "logs", job_id, "--text", f"{job_id}.log"], replace={})
    try:
        yield
    except OSError as error:
        raise InvalidUsage(f"--text {text[:200]!r}: {error.strerror}", example=example) from error
    except ValueError as error:
        raise InvalidUsage(f"--text {text[:200]!r}: {error}", example=example) from error


@reaches_server
def follow(
    where: Where,
    job_id: JobIdArgument,
    tail: TailOption = None,
    task: TaskOption = None,
    level: LevelOption = None,
    since: SinceOption = None,
    after: Annotated[
        str | None, typer.Option(metavar="PLACE", help="Go on where following was left; it says the place then.")
    ] = None,
    form: TextOutput = "text",
) -> int:
    """Show what a job has written and writes, until it is over. Exits with 1 unless it has completed."""
    wanted = the_job(job_id)
    lines: dict[str, Any] = {"tail": tail, "task": task, "level": level, "since_token": since, "after": _place(after)}
    with connected(where) as client:
        return exit_code(followed(client, wanted, form, **lines))


def _place(after: str | None) -> str | None:
    """A place goes into a header, where not everything can stand."""
    if after is not None and not (after.isascii() and after.isprintable()):
        raise InvalidUsage(f"{after[:80]!r} is not a place", example=corrected(sys.argv[1:], replace={after: "3.87"}))
    return after


def followed(client: PyocoHttpClient, job_id: str, form: str, **wanted: Any) -> str | None:
    """Show the lines of a job to its end, and then how it ended and after how long; that status."""
    show = writer(form)
    with client.follow_job_logs(job_id, **wanted) as lines, job_goes_on(job_id, lambda: lines.place):
        for entry in lines:
            show(entry)
    told = view.last_line(job_id, lines.status, lines.job or {})
    # Among JSON lines a sentence is none of them.
    (output.say if form == "json" else screen.write)(told)
    return lines.status


def exit_code(status: str | None) -> int:
    """A job that was followed succeeds or fails as the command that followed it."""
    return output.OK if status == "completed" else output.USER_CAN_MEND

"""The output of runs and jobs: `logs`, `job logs` and `job follow`, as text, JSON lines or bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal, cast

from typer import Option

from pyoco_server.cli import output
from pyoco_server.cli.client import options as opt
from pyoco_server.cli.client.connection import RETRIES, Target, connected, remote_command
from pyoco_server.cli.client.execution_view import as_run
from pyoco_server.cli.client.following import continues, end_of_watch, exit_code, job_continues, merge_event
from pyoco_server.cli.client.ids import full_id
from pyoco_server.cli.client.run_view import TERMINAL, changes, summary
from pyoco_server.cli.stdout import RawOutput, draw, is_terminal, write, write_json, write_json_line
from pyoco_server.cli.suggestions import command_line, invalid
from pyoco_server.cli.tables import Json, stamp
from pyoco_server.cli.terminal_escape import escape_line, escape_lines
from pyoco_server.errors import InvalidUsage

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoHttpClient

MAX_LINES = 10_000
LEVEL_STYLES = {"DEBUG": "dim", "WARNING": "yellow", "ERROR": "red", "CRITICAL": "bold red"}

TailOption = Annotated[int | None, Option(min=1, max=MAX_LINES, help="Only the last lines, this many.")]
TaskOption = Annotated[str | None, Option(help="Only lines of this task.")]
LevelOption = Annotated[
    Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] | None,
    Option(case_sensitive=False, help="Only lines of this level or more severe."),
]
SinceOption = Annotated[str | None, Option("--since", metavar="TOKEN", help="Continue here: a token of `job logs`.")]


@remote_command
def run_logs(
    target: Target,
    run_id: opt.RunIdArgument = None,
    run_id_option: opt.RunIdOption = None,
    follow: Annotated[bool, Option("--follow", "-f", help="Continue with new output, until the run ends.")] = False,
    tail: TailOption = None,
    search: Annotated[
        str | None, Option("--search", metavar="TEXT", help="Only lines with TEXT; upper-case letters make case count.")
    ] = None,
    task: TaskOption = None,
    level: LevelOption = None,
    form: opt.TextOutput = "text",
) -> None:
    """Show the output of a run: each line with its time (UTC) and its task."""
    wanted = opt.required_run_id(run_id, run_id_option)
    filters: dict[str, Any] = {"search": search, "task": task, "level": level}
    given = [f"--{name}" for name, value in filters.items() if value is not None]
    if follow and given:
        raise InvalidUsage(
            f"--follow shows all lines; {given[0]} selects from those stored",
            example=command_line(["logs", wanted, given[0], str(filters[given[0][2:]])]),
        )
    # A line that was searched is found again by its number.
    show = line_writer(form, is_numbered=search is not None)
    with connected(target) as client:
        wanted = full_id(target, client, wanted)
        if follow:
            with continues("run", wanted):
                for line in client.follow_run_logs(wanted, tail=tail):
                    show(line)
            return
        page = client.get_run_logs(wanted, tail=tail, limit=None if tail else MAX_LINES, **filters)
        while True:
            for item in page["items"]:
                show(item)
            # A page of a search may be empty before the end.
            is_last = page["scanned_to"] >= page["lines"] if given else not page["items"] or page["complete"]
            if tail is not None or is_last:
                return
            if search is not None:
                _show_progress(page["scanned_to"], page["lines"])
            page = client.get_run_logs(wanted, since_token=page["next_token"], limit=MAX_LINES, **filters)


def _show_progress(scanned: int, lines: int) -> None:
    output.print_stderr(
        output.localized(f"searched {scanned:,} of {lines:,} lines", f"{lines:,} 行中 {scanned:,} 行まで検索しました")
    )


@remote_command
def job_logs(
    target: Target,
    job_id: opt.JobIdArgument,
    tail: TailOption = None,
    task: TaskOption = None,
    level: LevelOption = None,
    since: SinceOption = None,
    text: Annotated[
        str | None, Option("--text", metavar="FILE", help="The whole log; continues FILE. - is stdout.")
    ] = None,
    form: opt.TextOutput = "text",
) -> None:
    """Show the output of a job so far: each line with its time (UTC) and its task."""
    wanted = opt.valid_id("a job id", job_id)
    if text is not None:
        filters = {"--tail": tail, "--task": task, "--level": level, "--since": since}
        for name in [name for name, value in filters.items() if value is not None]:
            raise InvalidUsage(
                f"--text downloads the whole log; {name} selects from it",
                example=command_line(["job", "logs", wanted, "--text", text]),
            )
    with connected(target) as client:
        wanted = full_id(target, client, wanted)
        if text is not None:
            _download(client, wanted, text)
            return
        show = line_writer(form)
        page: Any = {}
        for page in _pages(client, wanted, tail, since, task, level):
            for entry in page["entries"]:
                show(entry)
    if not page["complete"]:
        again = f"pyoco-client job logs {wanted} --since {page['nextToken']}"
        output.print_stderr(
            output.localized(f"the job continues; to continue here: {again}", f"job は継続中です。続き: {again}")
        )


def _pages(
    client: PyocoHttpClient, job_id: str, tail: int | None, since: str | None, task: str | None, level: str | None
) -> Iterator[Any]:
    """All output so far, or its tail. With filters a page can be empty although more pages follow."""
    page = client.job_logs(job_id, since_token=since, tail=tail, limit=MAX_LINES, task=task, level=level)
    yield page
    while tail is None and not page["complete"] and page["nextToken"] != since:
        since = page["nextToken"]
        page = client.job_logs(job_id, since_token=since, limit=MAX_LINES, task=task, level=level)
        yield page


def _download(client: PyocoHttpClient, job_id: str, text: str) -> None:
    if text == "-":
        client.download_job_log(job_id, cast("IO[bytes]", RawOutput()))
        return
    try:
        received = client.download_job_log(job_id, text)
    except (OSError, ValueError) as error:  # a file that cannot be written, or holds something else
        reason = error.strerror if isinstance(error, OSError) else error
        example = command_line(["job", "logs", job_id, "--text", f"{job_id}.log"])
        raise InvalidUsage(f"--text {text[:200]!r}: {reason}", example=example) from error
    write_json({**received, "path": text})


@remote_command
def job_follow(
    target: Target,
    job_id: opt.JobIdArgument,
    tail: TailOption = None,
    task: TaskOption = None,
    level: LevelOption = None,
    since: SinceOption = None,
    after: Annotated[str | None, Option(metavar="PLACE", help="Continue here: a place that Ctrl-C printed.")] = None,
    form: opt.TextOutput = "text",
) -> int:
    """Show the output of a job until it ends. Exits with 1 unless it completes."""
    wanted = opt.valid_id("a job id", job_id)
    # The place is sent in a header.
    if after is not None and not (after.isascii() and after.isprintable()):
        raise invalid(f"{after[:80]!r} is not a place", {after: "3.87"})
    filters: dict[str, Any] = {"tail": tail, "task": task, "level": level, "since_token": since, "after": after}
    with connected(target) as client:
        return exit_code(follow_job(client, full_id(target, client, wanted), form, **filters))


def follow_job(client: PyocoHttpClient, job_id: str, form: str, **filters: Any) -> str | None:
    """Show the output of a job to its end, then a summary; returns its status."""
    show = line_writer(form)
    with client.follow_job_logs(job_id, **filters) as lines, job_continues(job_id, lambda: lines.place):
        for entry in lines:
            show(entry)
    last = summary("job", job_id, as_run(lines.job or {}, ended="completedAt") | {"status": lines.status})
    # Stdout has only JSON lines.
    (output.print_stderr if form == "json" else write)(last)
    return lines.status


def follow_with_logs(target: Target, run_id: str, form: str, timeout_sec: float | None) -> Json:
    """Show the run and its output until it ends: changes of status on stderr, lines of output on stdout."""
    import asyncio  # here: most commands need no event loop

    with continues("run", run_id):
        try:
            run = asyncio.run(_follow_both(target, run_id, form, timeout_sec))
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
    end_of_watch(run, run_id, output.print_stderr)
    return run


async def _follow_both(target: Target, run_id: str, form: str, timeout_sec: float | None) -> Json:
    import asyncio

    run: Json = {}
    show = line_writer(form)
    async with target.async_client(retries=RETRIES) as client, asyncio.TaskGroup() as group:

        async def show_output() -> None:
            async for line in client.follow_run_logs(run_id):
                show(line)

        lines = group.create_task(show_output())
        async for event in client.watch(run_id, include="records", timeout_sec=timeout_sec):
            before, run = run, merge_event(run, event)
            for line in changes(before, run):
                output.print_stderr(line)
        if run.get("status") not in TERMINAL:
            lines.cancel()
    return run


def line_writer(form: str, *, is_numbered: bool = False) -> Callable[[Any], None]:
    if form == "json":
        return write_json_line

    def number(item: Json) -> str:
        return f"{item['n']} " if is_numbered else ""

    if not is_terminal():
        return lambda item: write(number(item) + "".join(_parts(item)))

    def write_coloured(item: Json) -> None:
        from rich.text import Text

        when, task, message = _parts(item)
        style = LEVEL_STYLES.get(item.get("level", ""), "")
        draw(Text.assemble((number(item) + when, "dim"), (task, "cyan"), (message, style)))

    return write_coloured


def _parts(item: Json) -> tuple[str, str, str]:
    message = escape_lines(str(item.get("message", "")).rstrip("\r").replace("\n", " "))
    # The time of a job is text already; that of a run is a number.
    when = escape_line(item["timestamp"]) if item.get("timestamp") else stamp(item.get("ts"))
    return f"{when} ", f"{escape_line(item.get('task') or '-')} ", message

"""`cancel`: runs by id, or all that match filters; with --wait, shows how long a task may still take to stop."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Option

from pyoco_server.cli import output
from pyoco_server.cli.client import options as opt
from pyoco_server.cli.client.commands.runs import show_runs
from pyoco_server.cli.client.connection import Target, connected, remote_command, report
from pyoco_server.cli.client.ids import full_ids
from pyoco_server.cli.client.run_view import TERMINAL
from pyoco_server.cli.output import localized, print_stderr
from pyoco_server.cli.selection import Selection
from pyoco_server.cli.stdout import Form, console, is_terminal
from pyoco_server.cli.suggestions import command_line, invalid
from pyoco_server.cli.tables import Json, text
from pyoco_server.errors import InvalidUsage
from pyoco_server.http_client import RunStatus

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoHttpClient

# What has not ended, apart from what is being cancelled already.
CANCELLABLE: tuple[RunStatus, ...] = ("PENDING", "RUNNING")
PAGE = 200
CancelOutput = Annotated[
    Literal["json", "table", "status"] | Selection | None,
    Option("--output", "-o", help="What to print: json, or status with filters."),
]
YES = ("y", "yes", "はい")


@remote_command
def cancel(
    target: Target,
    run_ids: opt.RunIdArguments = None,
    run_id_option: opt.RunIdOption = None,
    status: opt.StatusOption = None,
    flow: opt.FlowFilter = None,
    tag: opt.TagFilter = None,
    tags: opt.LabelsOption = None,
    since: opt.SinceOption = None,
    until: opt.UntilOption = None,
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask before runs are cancelled by filters.")] = False,
    wait: Annotated[bool, Option("--wait", help="Wait until they have ended.")] = False,
    timeout_sec: opt.TimeoutOption = None,
    reason: Annotated[str | None, Option(help="Why; is stored with the run.")] = None,
    form: CancelOutput = None,
) -> int:
    """Cancel runs by id, or all that match filters. A finished run stays as it is, which is not an error."""
    opt.check_timeout(timeout_sec, waits=wait)
    filters: dict[str, Any] = {"flow": flow, "tag": tag, "tags": opt.split_labels(tags)}
    filters |= opt.submitted(since, until)
    if status is None and not any(filters.values()):
        words = opt.required_run_ids(run_ids, run_id_option)
        with connected(target) as client:
            return _cancel_all(client, full_ids(target, client, words), wait, timeout_sec, reason, form or "json")
    _check_filters(status, [*(run_ids or ()), *filter(None, [run_id_option])])
    with connected(target) as client:
        found = _matching(client, status, filters)
        if not found:
            print_stderr(localized("no run matches", "該当する run はありません"))
            return output.OK
        if not yes:
            _ask(found)
        return _cancel_all(client, list(found), wait, timeout_sec, reason, form or "status", by_filters=True)


def _check_filters(status: RunStatus | None, run_ids: Sequence[str]) -> None:
    if run_ids:
        raise InvalidUsage("ids and filters exclude each other", example=command_line(["cancel", *run_ids]))
    if status is not None and status not in CANCELLABLE:
        raise invalid(f"runs that are {status} cannot be cancelled", dict.fromkeys((status, status.lower()), "RUNNING"))


def _matching(client: PyocoHttpClient, status: RunStatus | None, filters: dict[str, Any]) -> dict[str, Json]:
    """All runs that match, by id: first what waits, so that nothing starts in place of what was cancelled."""
    found: dict[str, Json] = {}
    for one in CANCELLABLE if status is None else (status,):
        found |= {run["run_id"]: run for run in client.iter_runs(status=one, limit=PAGE, **filters)}
    return found


def _ask(found: dict[str, Json]) -> None:
    """Refuse without a terminal; stop unless the answer is yes."""
    flows = [text(run.get("flow_name")) for run in found.values()]
    counts = ", ".join(f"{flows.count(name)} {name}" for name in list(dict.fromkeys(flows))[:5])
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InvalidUsage(
            f"this would cancel {len(found)} runs ({counts}); --yes cancels them",
            example=command_line([*sys.argv[1:], "--yes"]),
        )
    question = f"cancel {len(found)} runs ({counts})? [y/N] "
    sys.stderr.write(localized(question, f"{len(found)} 件の run（{counts}）を取り消しますか? [y/N] "))
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in YES:
        raise typer.Abort


def _cancel_all(
    client: PyocoHttpClient,
    run_ids: Sequence[str],
    wait: bool,
    timeout_sec: float | None,
    reason: str | None,
    form: Form,
    *,
    by_filters: bool = False,
) -> int:
    """Request all cancels first, then wait. An error of one run does not stop the rest."""
    several = by_filters or len(run_ids) > 1
    deadline = None if timeout_sec is None else time.monotonic() + timeout_sec
    runs: list[Json] = []
    for number, run_id in enumerate(run_ids, start=1):
        runs += _tried(partial(client.cancel_run, run_id, reason=reason), run_id, several)
        if by_filters:
            _show_progress(number, len(run_ids))
    failed = len(run_ids) - len(runs)
    if wait:
        for place, run in enumerate(runs):
            ended = _tried(partial(_waited, client, run, deadline), str(run["run_id"]), several)
            runs[place] = ended[0] if ended else run
            failed += not ended
    show_runs(form, runs, one=not several)
    if several:
        finished = sum(run.get("status") in TERMINAL for run in runs)
        going, errors = len(runs) - finished, f", errors: {failed}" if failed else ""
        print_stderr(
            localized(
                f"cancelled: {finished} have ended, {going} are stopping{errors}",
                f"取り消しました: 終了 {finished} 件、停止中 {going} 件" + (f"、エラー {failed} 件" if failed else ""),
            )
        )
    return output.FAILED if failed else output.OK


def _tried(work: Callable[[], Json], run_id: str, several: bool) -> list[Json]:
    """The run that the work returns; nothing if it failed for this one of several runs, which is reported."""
    from pyoco_server.http_client import GatewayUnreachable, PyocoClientError

    try:
        return [work()]
    except PyocoClientError as error:
        if not several or isinstance(error, GatewayUnreachable):
            raise
        report(error, about=run_id)
        return []


def _show_progress(number: int, total: int) -> None:
    if is_terminal(sys.stderr):
        sys.stderr.write(f"\r{number}/{total}{chr(10) if number == total else ''}")
        sys.stderr.flush()


def _waited(client: PyocoHttpClient, run: Json, deadline: float | None) -> Json:
    """The run when it has ended; meanwhile shows what it waits for."""
    if run.get("status") in TERMINAL:
        return run
    run_id = str(run["run_id"])
    left_sec = None if deadline is None else max(0.001, deadline - time.monotonic())
    try:
        with _countdown(run_id, _grace_left_sec(client, run_id)):
            return client.wait(run_id, timeout_sec=left_sec)
    except KeyboardInterrupt:
        print_stderr(
            localized(
                f"no longer waiting; {run_id} is still being cancelled",
                f"待機を終了しました。{run_id} の取消は継続しています",
            )
        )
        raise


def _grace_left_sec(client: PyocoHttpClient, run_id: str) -> float | None:
    """How long its task may still take to stop before it is killed; None where nothing is killed."""
    from pyoco_server.http_client import PyocoClientError

    try:
        reasons = client.explain_run(run_id)["reasons"]
    except PyocoClientError:  # only the display depends on it
        return None
    of_worker = [one["facts"] for one in reasons if one["code"] in ("cancel_delivered", "cancel_on_its_way")]
    left = of_worker[0].get("grace_left_sec") if of_worker else None
    return float(left) if isinstance(left, int | float) else None


@contextmanager
def _countdown(run_id: str, grace_left_sec: float | None) -> Iterator[None]:
    """On a terminal a line that counts down, elsewhere one line."""
    killed_at = None if grace_left_sec is None else time.monotonic() + grace_left_sec

    def line() -> str:
        left = None if killed_at is None else round(killed_at - time.monotonic())
        if left is None:
            return localized(f"waiting for {run_id} to end", f"{run_id} の終了を待っています")
        if left <= 0:
            return localized("the task did not stop; it is being killed", "task が停止しないため、強制終了しています")
        return localized(
            f"waiting for the task; it is killed in {left} s", f"task の停止を待っています（{left} 秒後に強制終了）"
        )

    if not is_terminal(sys.stderr):
        print_stderr(line())
        yield
        return
    from rich.live import Live
    from rich.text import Text

    board = console(stderr=True)
    with Live(console=board, transient=True, refresh_per_second=4, get_renderable=lambda: Text(line())):
        yield

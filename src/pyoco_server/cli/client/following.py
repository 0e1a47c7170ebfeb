"""Follows a run: drawn live on a terminal, as lines elsewhere, as JSON lines for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from pyoco_server.cli import output
from pyoco_server.cli.client.run_view import TERMINAL, changes, last_lines, summary
from pyoco_server.cli.stdout import is_terminal, write, write_json_line
from pyoco_server.cli.tables import Json

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoHttpClient


def follow_run(
    client: PyocoHttpClient, run_id: str, form: Literal["json", "status"], timeout_sec: float | None = None
) -> Json:
    """Show the run until it ends or the time is over; returns its last snapshot."""
    with continues("run", run_id):
        events = client.watch(run_id, include="records", timeout_sec=timeout_sec)
        show = _as_json if form == "json" else _live if is_terminal() else _as_lines
        run = show(events)
    if run.get("status") not in TERMINAL:
        output.print_stderr(
            output.localized(
                f"the time is over; the run continues. To see more: pyoco-client watch {run_id}",
                f"時間切れです。run は継続しています。続きを見るには: pyoco-client watch {run_id}",
            )
        )
    elif form != "json":
        for line in (*last_lines(run), summary("run", run.get("run_id"), run)):
            write(line)
    return run


def exit_code(status: object) -> int:
    """A command that follows something succeeds only if that completes."""
    return output.OK if status in ("COMPLETED", "completed") else output.FAILED


@contextmanager
def continues(kind: str, item_id: str) -> Iterator[None]:
    """On Ctrl-C, print that the run or execution continues and how to cancel it."""
    try:
        yield
    except KeyboardInterrupt:
        output.print_stderr(
            output.localized(
                f"no longer waiting; the {kind} continues. To stop it: pyoco-client cancel {item_id}",
                f"待機を終了しました。{kind} は継続しています。停止するには: pyoco-client cancel {item_id}",
            )
        )
        raise


@contextmanager
def job_continues(job_id: str, place: Callable[[], str | None]) -> Iterator[None]:
    """The same for a job; `place` is the position in its log, from where following can continue."""
    try:
        yield
    except KeyboardInterrupt:
        position = place()
        again = f"pyoco-client job follow {job_id}" + (f" --after {position}" if position else "")
        output.print_stderr(
            output.localized(
                f"no longer following; the job continues. To continue here: {again}\n"
                f"To stop it: pyoco-client job rm {job_id}",
                f"表示を終了しました。job は継続しています。続きを見るには: {again}\n"
                f"停止するには: pyoco-client job rm {job_id}",
            )
        )
        if not position:
            output.print_stderr(
                output.localized(
                    f"There was no output; to see why: pyoco-client explain {job_id}",
                    f"出力はまだありません。理由を見るには: pyoco-client explain {job_id}",
                )
            )
        raise


def _merge(run: Json, event: Json) -> Json:
    """The newest state: a heartbeat has fewer fields than a snapshot and must not remove any."""
    return {**run, **(event.get("snapshot") or {})}


def _as_json(events: Iterator[Any]) -> Json:
    run: Json = {}
    for event in events:
        write_json_line(event)
        run = _merge(run, event)
    return run


def _as_lines(events: Iterator[Any]) -> Json:
    run: Json = {}
    for event in events:
        newer = _merge(run, event)
        for line in changes(run, newer):
            write(line)
        run = newer
    return run


def _live(events: Iterator[Any]) -> Json:
    from pyoco_server.cli.client.live import live_view

    run: Json = {}
    with live_view() as show:
        for event in events:
            run = _merge(run, event)
            show(run, event.get("ts"))
    return run

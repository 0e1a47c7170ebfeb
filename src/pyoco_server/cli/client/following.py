"""Follows a run: drawn live on a terminal, as lines elsewhere, as JSON lines for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from pyoco_server.cli import output
from pyoco_server.cli.client.run_view import TERMINAL, changes, last_lines, result_line, summary
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
        if form != "json" and is_terminal():
            run = _live(events)
        else:
            run = fold(events, merge_event, show_json if form == "json" else _show_lines)
    end_of_watch(run, run_id, None if form == "json" else write)
    return run


def end_of_watch(run: Json, run_id: str, show: Callable[[str], None] | None) -> None:
    """Show how the run ended, or on stderr that it continues."""
    if run.get("status") not in TERMINAL:
        output.print_stderr(
            output.localized(
                f"the time is over; the run continues. To see more: pyoco-client watch {run_id}",
                f"時間切れです。run は継続しています。続きを見るには: pyoco-client watch {run_id}",
            )
        )
    elif show is not None:
        result = result_line(run)
        returned = [] if result is None else [f"result: {result}"]
        for line in (*last_lines(run), *returned, summary("run", run.get("run_id"), run)):
            show(line)


def exit_code(status: object) -> int:
    """A command that follows something succeeds only if that completes."""
    return output.OK if status in ("COMPLETED", "completed") else output.FAILED


@contextmanager
def continues(kind: str, item_id: str) -> Iterator[None]:
    """On Ctrl-C, print that the run or execution continues and how to cancel it."""
    cancel = f"pyoco-client cancel {item_id}"
    with _on_interrupt(
        lambda: output.localized(
            f"no longer waiting; the {kind} continues. To stop it: {cancel}",
            f"待機を終了しました。{kind} は継続しています。停止するには: {cancel}",
        )
    ):
        yield


@contextmanager
def job_continues(job_id: str, place: Callable[[], str | None]) -> Iterator[None]:
    """The same for a job; `place` is the position in its log, from where following can continue."""

    def message() -> str:
        position = place()
        again = f"pyoco-client job follow {job_id}" + (f" --after {position}" if position else "")
        remove, explain = f"pyoco-client job rm {job_id}", f"pyoco-client explain {job_id}"
        english = f"no longer following; the job continues. To continue here: {again}\nTo stop it: {remove}"
        japanese = f"表示を終了しました。job は継続しています。続きを見るには: {again}\n停止するには: {remove}"
        if not position:
            english += f"\nThere was no output; to see why: {explain}"
            japanese += f"\n出力はまだありません。理由を見るには: {explain}"
        return output.localized(english, japanese)

    with _on_interrupt(message):
        yield


@contextmanager
def _on_interrupt(message: Callable[[], str]) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        output.print_stderr(message())
        raise


def fold(events: Iterator[Any], apply: Callable[[Json, Json], Json], show: Callable[[Json, Json, Json], None]) -> Json:
    """Apply the events one by one; `show` gets the state before, the state after and the event."""
    state: Json = {}
    for event in events:
        before, state = state, apply(state, event)
        show(before, state, event)
    return state


def show_json(before: Json, after: Json, event: Json) -> None:
    write_json_line(event)


def _show_lines(before: Json, after: Json, event: Json) -> None:
    for line in changes(before, after):
        write(line)


def merge_event(run: Json, event: Json) -> Json:
    """The newest state: a heartbeat has fewer fields than a snapshot and must not remove any."""
    return {**run, **(event.get("snapshot") or {})}


def _live(events: Iterator[Any]) -> Json:
    from pyoco_server.cli.client.live import live_view

    with live_view() as draw:
        return fold(events, merge_event, lambda _, run, event: draw(run, event.get("ts")))

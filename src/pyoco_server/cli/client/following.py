"""Waiting for a run in front of somebody: live on a terminal, line by line elsewhere, as JSON lines for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from pyoco_server.cli import output
from pyoco_server.cli.client import screen
from pyoco_server.cli.client.render import TERMINAL, Json, changes, last_words, summary

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoHttpClient

Form = Literal["json", "status"]


def follow(client: PyocoHttpClient, run_id: str, form: Form, timeout_sec: float | None = None) -> Json:
    """Show the run until it is finished or the time is over; the last that was seen of it."""
    with run_goes_on(run_id):
        events = client.watch(run_id, include="records", timeout_sec=timeout_sec)
        show = _as_json if form == "json" else _live if screen.is_terminal() else _as_lines
        run = show(events)
    if run.get("status") not in TERMINAL:
        output.say(
            output.in_words(
                f"the time is over; the run goes on. To see more: pyoco-client watch {run_id}",
                f"時間切れです。run は継続しています。続きを見るには: pyoco-client watch {run_id}",
            )
        )
    return run


def exit_code(run: Json) -> int:
    """A run that was waited for succeeds or fails as the command that waited."""
    return output.OK if run.get("status") == "COMPLETED" else output.USER_CAN_MEND


@contextmanager
def run_goes_on(run_id: str) -> Iterator[None]:
    """Ctrl-C ends the waiting and not the run; say so, and how to end the run."""
    try:
        yield
    except KeyboardInterrupt:
        output.say(
            output.in_words(
                f"no longer waiting; the run goes on. To stop it: pyoco-client cancel {run_id}",
                f"待機を終了しました。run は継続しています。停止するには: pyoco-client cancel {run_id}",
            )
        )
        raise


@contextmanager
def goes_on(execution_id: str) -> Iterator[None]:
    """The same for an execution."""
    try:
        yield
    except KeyboardInterrupt:
        output.say(
            output.in_words(
                f"no longer waiting; the execution goes on. To stop it: pyoco-client cancel {execution_id}",
                f"待機を終了しました。execution は継続しています。停止するには: pyoco-client cancel {execution_id}",
            )
        )
        raise


@contextmanager
def job_goes_on(job_id: str, place: Callable[[], str | None]) -> Iterator[None]:
    """The same for a job; `place` is how far its log was read, and where to go on."""
    try:
        yield
    except KeyboardInterrupt:
        behind = place()
        again = f"pyoco-client job follow {job_id}" + (f" --after {behind}" if behind else "")
        output.say(
            output.in_words(
                f"no longer following; the job goes on. To go on here: {again}\n"
                f"To stop it: pyoco-client job rm {job_id}",
                f"表示を終了しました。job は継続しています。続きを見るには: {again}\n"
                f"停止するには: pyoco-client job rm {job_id}",
            )
        )
        if not behind:
            output.say(
                output.in_words(
                    f"Nothing came; to see why: pyoco-client explain {job_id}",
                    f"出力はまだありません。理由を見るには: pyoco-client explain {job_id}",
                )
            )
        raise


def _newer(run: Json, event: Json) -> Json:
    """What is known after an event: a heartbeat says less than a snapshot does, and takes nothing back."""
    return {**run, **(event.get("snapshot") or {})}


def _as_json(events: Iterator[Any]) -> Json:
    run: Json = {}
    for event in events:
        screen.write_json(event, lines=True)
        run = _newer(run, event)
    return run


def _as_lines(events: Iterator[Any]) -> Json:
    run: Json = {}
    for event in events:
        newer = _newer(run, event)
        for line in changes(run, newer):
            screen.write(line)
        run = newer
    _tell_the_end(run)
    return run


def _live(events: Iterator[Any]) -> Json:
    from pyoco_server.cli.client.live import live_board

    run: Json = {}
    with live_board() as show:
        for event in events:
            run = _newer(run, event)
            show(run, event.get("ts"))
    _tell_the_end(run)
    return run


def _tell_the_end(run: Json) -> None:
    if run.get("status") in TERMINAL:
        for line in (*last_words(run), summary(run)):
            screen.write(line)

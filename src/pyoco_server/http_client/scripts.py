"""How to get an answer, all pages, or a cancel that is over: the logic of both clients, without their I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

from pyoco_server.http_client import answers, calls
from pyoco_server.http_client.call_parts import Call
from pyoco_server.http_client.connection import Connection
from pyoco_server.http_client.effects import Script, Sleep, Tell, Transmit
from pyoco_server.http_client.errors import PyocoClientError, PyocoHttpError
from pyoco_server.http_client.lean_httpx import httpx
from pyoco_server.http_client.retry import Trouble, pause_sec

T = TypeVar("T")


def send(call: Call[T], connection: Connection, *, silence_sec: float | None = None, unsure: bool = False) -> Script[T]:
    """The result of a call, after as many tries as are allowed.

    `silence_sec`: how long an answer may take to begin, where that is another time than usual; `unsure`: something that
    belongs to it was done already.
    """
    timing = connection.timing
    began = timing.monotonic()
    failures = 0
    while True:
        answer: httpx.Response | httpx.RequestError = yield Transmit(call, silence_sec)
        if isinstance(answer, httpx.Response) and answer.is_success:
            return answers.result(call, answer)
        failures += 1
        failure = answer if isinstance(answer, httpx.RequestError) else answers.error_of(answer, timing.now())
        trouble = answers.trouble_of(failure)
        unsure = unsure or trouble is Trouble.UNSURE
        pause = pause_sec(
            trouble,
            failures=failures,
            elapsed_sec=timing.monotonic() - began,
            patience=connection.patience,
            asked_sec=failure.retry_after if isinstance(failure, PyocoHttpError) else None,
            luck=timing.luck(),
        )
        if pause is None:
            raise_failure(failure, call, failures, unsure=unsure)
        yield Sleep(pause)


def raise_failure(
    failure: httpx.RequestError | PyocoHttpError, call: Call[Any], tries: int, *, unsure: bool = False
) -> NoReturn:
    """End with the error that is ours; `unsure`: one of the tries may have been heard."""
    if isinstance(failure, PyocoHttpError):
        raise failure
    raise answers.unreachable(failure, call, tries, unsure=unsure) from failure


def within(connection: Connection, seconds: float | None) -> Connection:
    """The same connection for one who has no more time than this."""
    if seconds is None or seconds >= connection.patience.within_sec:
        return connection
    return replace(connection, patience=replace(connection.patience, within_sec=max(0.0, seconds)))


def all_runs(connection: Connection, **filters: Any) -> Script[None]:
    """Tells every run that matches, page after page."""
    yield from all_items(lambda cursor: calls.list_runs_page(cursor=cursor, **filters), connection, "next_cursor")


def all_items(
    page_at: Callable[[str], Call[Any]], connection: Connection, next_name: str, items_name: str = "items"
) -> Script[None]:
    """Tells the items of every page; `page_at` asks for the one at a cursor, which is empty for the first."""
    cursor = ""
    while True:
        page = yield from send(page_at(cursor), connection)
        for item in page[items_name]:
            yield Tell(item)
        following = page.get(next_name)
        if not following:
            return
        if following == cursor:
            raise PyocoClientError("the gateway gave the same cursor twice; its list has no end")
        cursor = following

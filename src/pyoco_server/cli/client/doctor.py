"""`doctor`: is everything there that a run needs? One line per question, with what to do where the answer is no."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pyoco_server import __version__
from pyoco_server.cli import output, plain
from pyoco_server.cli.client import screen
from pyoco_server.cli.client.connection import Where, reaches_server
from pyoco_server.cli.client.options import TextOutput
from pyoco_server.cli.output import in_words
from pyoco_server.errors import BrokerUnavailable, CredentialsMissing, GatewayUnreachable, InvalidApiKey, InvalidToken

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoClientError, PyocoHttpClient

Verdict = Literal["ok", "warning", "wrong", "skipped"]
MARKS: Mapping[Verdict, tuple[str, str]] = {
    "ok": ("✓", "green"),
    "warning": ("!", "yellow"),
    "wrong": ("✗", "bold red"),
    "skipped": ("-", "dim"),
}
MAX_SKEW_SEC = 5.0
PROBE_TIMEOUT_SEC = 5.0
MAX_WORKERS = 500
NOBODY_IS_KNOWN = (CredentialsMissing.err_id, InvalidApiKey.err_id, InvalidToken.err_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The answer to one question; `todo` where something is to be done about it."""

    check: str
    verdict: Verdict
    detail: str
    todo: str | None = None


@reaches_server
def doctor(
    where: Where,
    tag: Annotated[str | None, typer.Option(help="Also ask whether anybody serves this tag.")] = None,
    form: TextOutput = "text",
) -> int:
    """Check server, broker, credentials, workers and tags, and say what to do."""
    found: list[Finding] = []
    for finding in examine(where, tag):
        found.append(finding)
        if form == "text":
            _show(finding)
    healthy = all(finding.verdict != "wrong" for finding in found)
    if form == "json":
        screen.write_json({"ok": healthy, "checks": [asdict(finding) for finding in found]})
    return output.OK if healthy else output.USER_CAN_MEND


def examine(where: Where, tag: str | None) -> Iterator[Finding]:
    """Every question in its order; what makes the rest pointless comes first and ends it."""
    from pyoco_server.http_client import PyocoClientError

    with where.client(timeout=PROBE_TIMEOUT_SEC, retries=0) as client:
        try:
            health, asked_at = client.health(), time.time()
        except PyocoClientError as error:
            yield unreachable(error)
            return
        answers = in_words(f"{client.base_url} answers", f"{client.base_url} が応答しています")
        yield Finding(check="server", verdict="ok", detail=answers)
        yield version_of(health)
        yield clock(_server_date(client.base_url), asked_at)
        reached = broker(health)
        yield reached
        if reached.verdict == "ok":
            yield from _asked(client, tag)


def _asked(client: PyocoHttpClient, tag: str | None) -> Iterator[Finding]:
    from pyoco_server.http_client import PyocoClientError

    questions: Sequence[tuple[str, Callable[[], Any]]] = (
        ("runs", lambda: client.list_runs(limit=1)),
        ("workers", lambda: client.list_workers(scope="active", include_hidden=True, limit=MAX_WORKERS)),
    )
    answers: dict[str, Any] = {}
    for name, ask in questions:
        try:
            answers[name] = ask()
        except PyocoClientError as error:
            yield refused(name, error)
            if error.err_id in NOBODY_IS_KNOWN:
                return  # whoever is not known will be told the same again
        else:
            if name == "runs":
                let_in = in_words("runs can be read with these credentials", "この認証情報で run を参照できます")
                yield Finding(check="access", verdict="ok", detail=let_in)
    if "workers" in answers:
        yield from fleet(answers["workers"], tag)


def unreachable(error: PyocoClientError) -> Finding:
    """Nobody answers, or somebody who is no gateway."""
    todo = in_words(GatewayUnreachable.hint, GatewayUnreachable.hint_ja)
    detail = plain.line(f"{error.detail} [{error.err_id or GatewayUnreachable.err_id}]")
    return Finding(check="server", verdict="wrong", detail=detail, todo=todo)


def version_of(health: Mapping[str, Any]) -> Finding:
    """Do client and server come from the same release? Others usually work, but that is the first thing to know."""
    theirs = health.get("version")
    if theirs == __version__:
        same = in_words(f"client and server are {__version__}", f"クライアントとサーバーは {__version__} です")
        return Finding(check="version", verdict="ok", detail=same)
    detail = in_words(
        f"the client is {__version__}, the server {theirs or 'does not say its version'}",
        f"クライアントは {__version__}、サーバーは {theirs or '不明'} です",
    )
    todo = in_words("Use the same version on both sides.", "クライアントとサーバーのバージョンを揃えてください。")
    return Finding(check="version", verdict="warning", detail=detail, todo=todo)


def clock(date: str | None, now: float) -> Finding:
    """Two clocks that differ make waiting times and `updated_after` wrong."""
    from email.utils import parsedate_to_datetime

    try:
        ahead_sec = parsedate_to_datetime(date or "").timestamp() - now
    except ValueError:
        silent = in_words("the server does not tell the time", "サーバーの時刻を取得できません")
        return Finding(check="clock", verdict="skipped", detail=silent)
    # The header has whole seconds.
    if abs(ahead_sec) <= MAX_SKEW_SEC:
        return Finding(check="clock", verdict="ok", detail=in_words("the clocks agree", "時刻は一致しています"))
    detail = in_words(
        f"the server's clock is {abs(ahead_sec):.0f} s {'ahead of' if ahead_sec > 0 else 'behind'} this one",
        f"サーバーの時刻が {abs(ahead_sec):.0f} 秒{'進んで' if ahead_sec > 0 else '遅れて'}います",
    )
    todo = in_words("Set both clocks by NTP.", "双方の時刻を NTP で同期してください。")
    return Finding(check="clock", verdict="warning", detail=detail, todo=todo)


def broker(health: Mapping[str, Any]) -> Finding:
    """Does the gateway reach NATS?"""
    if health.get("nats") == "connected":
        reached = in_words("the gateway reaches its NATS", "Gateway は NATS に接続しています")
        return Finding(check="nats", verdict="ok", detail=reached)
    todo = in_words(BrokerUnavailable.hint, BrokerUnavailable.hint_ja)
    detail = in_words("the gateway does not reach its NATS", "Gateway が NATS に接続できません")
    detail = f"{detail} [{BrokerUnavailable.err_id}]"
    return Finding(check="nats", verdict="wrong", detail=detail, todo=todo)


def refused(question: str, error: PyocoClientError) -> Finding:
    """What the server would not tell; a list of workers that one may not see is no reason to worry."""
    status = getattr(error, "status_code", None)
    check = "access" if status in (401, 403) and question == "runs" else question
    told = error.detail if check == question else f"{question}: {error.detail}"
    detail = plain.line(f"{told} [{error.err_id}]" if error.err_id else told)
    todo = error.hint
    if error.err_id == CredentialsMissing.err_id:
        more = in_words(" Or set PYOCO_API_KEY.", "環境変数 PYOCO_API_KEY でも指定できます。")
        todo = f"{todo or in_words(CredentialsMissing.hint, CredentialsMissing.hint_ja)}{more}"
    if question == "workers" and status in (403, 404):
        return Finding(check="workers", verdict="skipped", detail=detail, todo=todo)
    return Finding(check=check, verdict="wrong", detail=detail, todo=todo)


def fleet(workers: Sequence[Mapping[str, Any]], tag: str | None) -> Iterator[Finding]:
    """Who is there to run something, and for which tags."""
    start = in_words("Start one: pyoco-worker --tags {}", "worker を起動してください: pyoco-worker --tags {}")
    wanted = tag or "default"
    if not workers:
        nobody = in_words("no worker is alive", "稼働中の worker がいません")
        yield Finding(check="workers", verdict="wrong", detail=nobody, todo=start.format(wanted))
        return
    served = sorted({str(one) for worker in workers for one in worker.get("tags") or []})
    busy = sum(worker.get("state") == "RUNNING" for worker in workers)
    detail = in_words(
        f"{len(workers)} alive, {busy} busy; tags served: {', '.join(served) or 'none'}",
        f"{len(workers)} 台稼働中、うち {busy} 台が実行中。tag: {', '.join(served) or 'なし'}",
    )
    yield Finding(check="workers", verdict="ok", detail=plain.line(detail))
    if wanted in served:
        somebody = in_words(f"somebody serves {wanted}", f"{wanted} を処理する worker がいます")
        yield Finding(check="tag", verdict="ok", detail=plain.line(somebody))
        return
    # Which tag a server takes by default is its own setting: only a tag that was asked for is surely missed.
    verdict: Verdict = "wrong" if tag else "warning"
    yield Finding(
        check="tag",
        verdict=verdict,
        detail=plain.line(in_words(f"nobody serves {wanted}", f"{wanted} を処理する worker がいません")),
        todo=start.format(plain.line(wanted)),
    )


def _server_date(address: str) -> str | None:
    """The time on the server, as every HTTP answer has it; the SDK shows bodies only."""
    from pyoco_server.http_client.connection import on_this_machine
    from pyoco_server.http_client.lean_httpx import httpx

    by_proxy = not on_this_machine(address)  # as the SDK does
    try:
        answer = httpx.get(f"{address}/health", timeout=PROBE_TIMEOUT_SEC, trust_env=by_proxy)
    except httpx.HTTPError:
        return None
    date: str | None = answer.headers.get("date")
    return date


def _show(finding: Finding) -> None:
    mark, style = MARKS[finding.verdict]
    words = f"{finding.check}: {finding.detail}"
    todo = f"\n  → {plain.line(finding.todo)}" if finding.todo else ""
    if not screen.is_terminal():
        screen.write(f"{mark} {words}{todo}")
        return
    from rich.text import Text

    board = screen.console()
    with board.capture() as drawn:
        board.print(Text.assemble((mark, style), f" {words}{todo}"), soft_wrap=True)
    screen.write(drawn.get().rstrip("\n"))

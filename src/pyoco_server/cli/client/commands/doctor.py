"""`doctor`: checks everything that a run needs; one line per check, with a remedy if it fails."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Option

from pyoco_server import __version__
from pyoco_server.cli import output
from pyoco_server.cli.client.connection import Target, remote_command
from pyoco_server.cli.client.options import TextOutput
from pyoco_server.cli.output import localized
from pyoco_server.cli.stdout import draw, is_terminal, write, write_json
from pyoco_server.cli.terminal_escape import escape_line
from pyoco_server.errors import (
    BrokerUnavailable,
    CredentialsMissing,
    EngineDown,
    EngineMisconfigured,
    EventsLost,
    GatewayUnreachable,
    InvalidApiKey,
    InvalidToken,
)

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoClientError, PyocoHttpClient

Verdict = Literal["ok", "warning", "wrong", "skipped"]
MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "wrong": ("✗", "bold red"), "skipped": ("-", "dim")}
MAX_SKEW_SEC = 5.0
PROBE_TIMEOUT_SEC = 5.0
MAX_WORKERS = 500
UNAUTHENTICATED = (CredentialsMissing.err_id, InvalidApiKey.err_id, InvalidToken.err_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check, and the remedy (`todo`) if there is one."""

    check: str
    verdict: Verdict
    detail: str
    todo: str | None = None


@remote_command
def doctor(
    target: Target,
    tag: Annotated[str | None, Option("--tag", "--queue", help="Also check that a worker serves this tag.")] = None,
    form: TextOutput = "text",
) -> int:
    """Check server, broker, credentials, workers and tags, and print what to do."""
    found: list[Finding] = []
    for finding in examine(target, tag):
        found.append(finding)
        if form == "text":
            _show(finding)
    healthy = all(finding.verdict != "wrong" for finding in found)
    if form == "json":
        write_json({"ok": healthy, "checks": [asdict(finding) for finding in found]})
    return output.OK if healthy else output.FAILED


def examine(target: Target, tag: str | None) -> Iterator[Finding]:
    """All checks in order; stops at a failure that makes the rest pointless."""
    from pyoco_server.http_client import PyocoClientError

    with target.client(timeout=PROBE_TIMEOUT_SEC, retries=0) as client:
        try:
            health = client.health()
        except PyocoClientError as error:
            yield unreachable(error)
            return
        yield _ok("server", f"{client.base_url} answers", f"{client.base_url} が応答しています")
        yield version_of(health)
        yield clock(_server_date(client), time.time())
        reached = broker(health)
        yield reached
        if reached.verdict == "ok":
            yield from _writes(client)
            yield from _requests(client, tag)


def _ok(check: str, english: str, japanese: str) -> Finding:
    return Finding(check=check, verdict="ok", detail=escape_line(localized(english, japanese)))


def _requests(client: PyocoHttpClient, tag: str | None) -> Iterator[Finding]:
    from pyoco_server.http_client import PyocoClientError

    try:
        client.list_runs(limit=1)
        yield _ok("access", "runs can be read with these credentials", "この認証情報で run を参照できます")
    except PyocoClientError as error:
        yield refused("runs", error)
        if error.err_id in UNAUTHENTICATED:
            return  # the next request would be refused as well
    try:
        workers = client.list_workers(scope="active", include_hidden=True, limit=MAX_WORKERS)
    except PyocoClientError as error:
        yield refused("workers", error)
    else:
        yield from fleet(workers, tag)


def unreachable(error: PyocoClientError) -> Finding:
    """No answer, or none of a gateway."""
    todo = localized(GatewayUnreachable.hint, GatewayUnreachable.hint_ja)
    detail = escape_line(f"{error.detail} [{error.err_id or GatewayUnreachable.err_id}]")
    return Finding(check="server", verdict="wrong", detail=detail, todo=todo)


def version_of(health: Mapping[str, Any]) -> Finding:
    """Client and server should have the same version; others usually work."""
    theirs = health.get("version")
    if theirs == __version__:
        return _ok("version", f"client and server are {__version__}", f"クライアントとサーバーは {__version__} です")
    detail = localized(
        f"the client is {__version__}, the server {theirs or 'unknown'}",
        f"クライアントは {__version__}、サーバーは {theirs or '不明'} です",
    )
    todo = localized("Use the same version on both sides.", "クライアントとサーバーのバージョンを揃えてください。")
    return Finding(check="version", verdict="warning", detail=escape_line(detail), todo=todo)


def clock(date: str | None, now: float) -> Finding:
    """Clocks that differ make durations and `updated_after` wrong."""
    from email.utils import parsedate_to_datetime

    try:
        ahead_sec = parsedate_to_datetime(date or "").timestamp() - now
    except ValueError:
        detail = localized("the server sends no Date header", "サーバーの時刻を取得できません")
        return Finding(check="clock", verdict="skipped", detail=detail)
    # The header has whole seconds.
    if abs(ahead_sec) <= MAX_SKEW_SEC:
        return _ok("clock", "the clocks agree", "時刻は一致しています")
    detail = localized(
        f"the server's clock is {abs(ahead_sec):.0f} s {'ahead of' if ahead_sec > 0 else 'behind'} this one",
        f"サーバーの時刻が {abs(ahead_sec):.0f} 秒{'進んで' if ahead_sec > 0 else '遅れて'}います",
    )
    todo = localized("Synchronise both clocks by NTP.", "双方の時刻を NTP で同期してください。")
    return Finding(check="clock", verdict="warning", detail=detail, todo=todo)


def broker(health: Mapping[str, Any]) -> Finding:
    if health.get("nats") == "connected":
        return _ok("nats", "the gateway is connected to NATS", "Gateway は NATS に接続しています")
    detail = localized("the gateway is not connected to NATS", "Gateway が NATS に接続できません")
    todo = localized(BrokerUnavailable.hint, BrokerUnavailable.hint_ja)
    return Finding(check="nats", verdict="wrong", detail=f"{detail} [{BrokerUnavailable.err_id}]", todo=todo)


def _writes(client: PyocoHttpClient) -> Iterator[Finding]:
    from pyoco_server.http_client import PyocoClientError

    try:
        ready = client.ready()
    except PyocoClientError as error:
        yield refused("writes", error)
        return
    yield _ok("writes", "the gateway accepts runs", "Gateway は run を受け付けています")
    yield from events(ready)
    yield from airflow(ready)


def events(ready: Mapping[str, Any]) -> Iterator[Finding]:
    """Whether the broker still has all events; an older gateway does not say it."""
    if ready.get("events") == "complete":
        yield _ok("events", "no events of runs are lost", "run のイベントは失われていません")
    elif "events" in ready:
        detail = localized("the broker has lost events of runs", "run のイベントが NATS から失われています")
        todo = localized(
            "The gateway's log and GET /metrics (pyoco_runs_with_lost_events) say how many. Check the disk of "
            "nats-server and restore its data from a backup if you have one.",
            "件数は Gateway のログと GET /metrics（pyoco_runs_with_lost_events）にあります。"
            "nats-server のディスクを確認し、バックアップがあればデータを復元してください。",
        )
        yield Finding(check="events", verdict="warning", detail=f"{detail} [{EventsLost.err_id}]", todo=todo)


def airflow(ready: Mapping[str, Any]) -> Iterator[Finding]:
    """Whether rechecks can run, where the gateway says that Airflow runs them."""
    found = ready.get("airflow")
    if not isinstance(found, Mapping):
        return
    status = found.get("status")
    if status == "up":
        yield _ok("airflow", "Airflow and its DAG are ready", "Airflow と DAG は利用できます")
    elif status == "unchecked":
        detail = localized("the gateway has not looked at it yet", "Gateway はまだ確認していません")
        yield Finding(check="airflow", verdict="skipped", detail=detail)
    else:
        error = EngineMisconfigured if status == "misconfigured" else EngineDown
        detail = escape_line(f"{found.get('detail') or localized(error.message(), error.message_ja)} [{error.err_id}]")
        todo = localized(error.hint, error.hint_ja)
        yield Finding(check="airflow", verdict="wrong", detail=detail, todo=todo)


def refused(question: str, error: PyocoClientError) -> Finding:
    """A request that failed; without permission the check of the workers is only skipped."""
    status = getattr(error, "status_code", None)
    check = "access" if status in (401, 403) and question == "runs" else question
    message = error.detail if check == question else f"{question}: {error.detail}"
    detail = escape_line(f"{message} [{error.err_id}]" if error.err_id else message)
    todo = error.hint
    if error.err_id == CredentialsMissing.err_id:
        more = localized(" Or set PYOCO_API_KEY.", "環境変数 PYOCO_API_KEY でも指定できます。")
        todo = f"{todo or localized(CredentialsMissing.hint, CredentialsMissing.hint_ja)}{more}"
    # An older gateway has no check of its writes.
    skipped = status in {"workers": (403, 404), "writes": (404,)}.get(question, ())
    return Finding(check=check, verdict="skipped" if skipped else "wrong", detail=detail, todo=todo)


def fleet(workers: Sequence[Mapping[str, Any]], tag: str | None) -> Iterator[Finding]:
    """The workers that can take runs, and their tags."""
    wanted = escape_line(tag or "default")
    start = localized("Start one", "worker を起動してください") + f": pyoco-worker --tags {wanted}"
    if not workers:
        detail = localized("no worker is running", "稼働中の worker がいません")
        yield Finding(check="workers", verdict="wrong", detail=detail, todo=start)
        return
    served = sorted({str(one) for worker in workers for one in worker.get("tags") or []})
    busy = sum(worker.get("state") == "RUNNING" for worker in workers)
    yield _ok(
        "workers",
        f"{len(workers)} running, {busy} busy; tags: {', '.join(served) or 'none'}",
        f"{len(workers)} 台稼働中、うち {busy} 台が実行中。tag: {', '.join(served) or 'なし'}",
    )
    if any(worker.get("runner_user") == "root" for worker in workers):
        detail = localized("tasks of a worker run as root", "task を root で実行する worker がいます")
        todo = localized("Set PYOCO_RUNNER_USER: docs/how-to/deploy.md", "PYOCO_RUNNER_USER を設定してください")
        yield Finding(check="runner user", verdict="warning", detail=detail, todo=todo)
    yield from code_of(workers)
    if wanted in served:
        yield _ok("tag", f"a worker serves {wanted}", f"{wanted} を処理する worker がいます")
        return
    # The default tag is a setting of the server, so only a tag that was given is certainly missing.
    detail = localized(f"no worker serves {wanted}", f"{wanted} を処理する worker がいません")
    yield Finding(check="tag", verdict="wrong" if tag else "warning", detail=detail, todo=start)


def code_of(workers: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Workers whose files differ from what they serve."""
    for worker in workers:
        name, code = escape_line(str(worker.get("worker_id"))), worker.get("code")
        if not isinstance(code, Mapping):
            continue
        version = escape_line(str(code.get("version")))
        if code.get("error"):
            reason = escape_line(str(code["error"]))
            detail = localized(
                f"{name} could not load the saved files: {reason}",
                f"{name} は保存されたファイルを読み込めません: {reason}",
            )
            todo = localized("Correct the file and save it.", "ファイルを修正して保存してください。")
        elif code.get("changed") and not code.get("reload"):
            detail = localized(
                f"{name} serves the code of its start ({version}), and the files have changed since",
                f"{name} は起動時のコード（{version}）を実行しています。ファイルはその後変更されました",
            )
            todo = localized(
                "Restart it to serve them; with --code-reload it loads saved files by itself.",
                "再起動すると反映されます。--code-reload を付けると保存のたびに読み込みます。",
            )
        else:
            continue
        yield Finding(check="code", verdict="warning", detail=detail, todo=todo)


def _server_date(client: PyocoHttpClient) -> str | None:
    """The Date header of the server; the methods of the SDK return only bodies."""
    from pyoco_server.http_client.answers import FAILURES
    from pyoco_server.http_client.requests import get

    try:
        return str(client._transport.exchange(get("/health")).headers["Date"])
    except (*FAILURES, KeyError):
        return None


def _show(finding: Finding) -> None:
    mark, style = MARKS[finding.verdict]
    todo = f"\n  → {escape_line(finding.todo)}" if finding.todo else ""
    line = f" {finding.check}: {finding.detail}{todo}"
    if not is_terminal():
        write(f"{mark}{line}")
        return
    from rich.text import Text

    draw(Text.assemble((mark, style), line))

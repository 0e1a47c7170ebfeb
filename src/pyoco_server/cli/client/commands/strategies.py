"""The commands about strategies and rechecks: list and show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from typer import Argument, Option

from pyoco_server.cli import output
from pyoco_server.cli.client import options as opt
from pyoco_server.cli.client.connection import Target, connected, remote_command
from pyoco_server.cli.client.run_view import as_object
from pyoco_server.cli.stdout import show, show_facts, write, write_table
from pyoco_server.cli.suggestions import invalid
from pyoco_server.cli.tables import Json, Table, moment, text
from pyoco_server.http_client.models.strategies import Recheck, StrategyDetails, StrategyListed

EXAMPLE_STRATEGY = "strat.meanrev.m1"
EXAMPLE_REQUEST = "01KADZ2F8MFH6STG3F1GXHMBJN"


def _on_or_off(value: object) -> str:
    return "on" if value is True else "off" if value is False else "-"


def _figure(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else "-"


def _indicator(name: str) -> Any:
    return lambda result: as_object(result.get("kpi")).get(name)


def _figures(kpi: object) -> str:
    return text([f"{name} {_figure(value)}" for name, value in as_object(kpi).items()])


def _counts(counts: object) -> str:
    return text([f"{name} {count}" for name, count in as_object(counts).items()])


def _ended(request: Json, what: str) -> str:
    progress = as_object(request.get("progress"))
    return f"{text(progress.get(f'completed_{what}'))}/{text(progress.get(f'total_{what}'))}"


STRATEGIES = Table(
    ("STRATEGY", "id"),
    ("HEALTH", "last_health"),
    ("CHECKED", "last_checked_at", moment),
    ("INSTRUMENT", "instrument"),
    ("ENABLED", "enabled", _on_or_off),
    ("TAGS", "tags"),
    ("TITLE", "title"),
)
STRATEGY = Table(
    ("strategy", "id"),
    ("title", "title"),
    ("health", "last_health"),
    ("checked", "last_checked_at", moment),
    ("instrument", "instrument"),
    ("enabled", "enabled", _on_or_off),
    ("tags", "tags"),
    ("days", "window_days"),
    ("averages", "kpi_avg", _figures),
)
RESULTS = Table(
    ("WHEN", "checked_at", moment),
    ("HEALTH", "health"),
    ("WINRATE", _indicator("winrate"), _figure),
    ("SHARPE", _indicator("sharpe"), _figure),
    ("MAX_DD", _indicator("max_dd"), _figure),
    ("REQUEST_ID", "request_id"),
    ("FILES", lambda result: [one.get("name") for one in result.get("artifacts") or ()]),
)
RECHECK = Table(
    ("request", "request_id"),
    ("status", "status"),
    ("note", "note"),
    ("submitted", "submitted_at", moment),
    ("updated", "last_update", moment),
    ("batches", lambda request: _ended(request, "batches")),
    ("strategies", lambda request: _ended(request, "strategies")),
    ("succeeded", lambda request: as_object(request.get("summary")).get("success")),
    ("failed", lambda request: as_object(request.get("summary")).get("failed")),
    ("health", lambda request: as_object(request.get("summary")).get("health"), _counts),
    ("engine", lambda request: as_object(request.get("dag")).get("name")),
    ("files", "artifacts", lambda files: str(len(files)) if isinstance(files, list) and files else "-"),
)


@remote_command
def strategies(
    target: Target,
    q: Annotated[str | None, Option("--q", "-q", metavar="TEXT", help="Only with this in their id or title.")] = None,
    tag: Annotated[
        list[str] | None, Option("--tag", metavar="TAG,…", help="Only with one of these tags; repeatable.")
    ] = None,
    health: Annotated[
        list[str] | None,
        Option("--health", metavar="HEALTH,…", help="Only of this health: healthy, degraded, unknown; repeatable."),
    ] = None,
    instrument: Annotated[
        list[str] | None, Option("--instrument", metavar="NAME,…", help="Only of these instruments; repeatable.")
    ] = None,
    enabled: Annotated[
        Literal["all", "on", "off"] | None, Option("--enabled", help="Only enabled or disabled ones; all by default.")
    ] = None,
    sort: Annotated[
        str | None,
        Option(
            "--sort",
            metavar="FIELD.asc|desc",
            help="By last_checked_at, id, instrument or health; last_checked_at.desc by default.",
        ),
    ] = None,
    page: Annotated[int | None, Option("--page", min=1, help="Which page; the first by default.")] = None,
    page_size: Annotated[int | None, Option(min=10, max=100, help="How many per page; 50 by default.")] = None,
    form: opt.TableOutput = "table",
) -> None:
    """List registered strategies with the health of their newest result, by page."""
    wanted: dict[str, Any] = {"q": q, "enabled": enabled, "sort": sort, "page": page, "page_size": page_size}
    for name, values in (("tags_any", tag), ("health", health), ("instrument", instrument)):
        wanted[name] = opt.split_labels(values)
    with connected(target) as client:
        found = client.list_strategies(**wanted)
    show(form, found, STRATEGIES, known=StrategyListed.__annotations__)
    if form != "json" and found["page"] * found["page_size"] < found["total"]:
        of = output.localized(f"({found['total']} strategies)", f"（strategy は全 {found['total']} 件）")
        output.print_stderr(f"{output.localized('next page', '次のページ')}: --page {found['page'] + 1} {of}")


@remote_command
def strategy(
    target: Target,
    strategy_id: Annotated[str, Argument(metavar="STRATEGY_ID", help="The id of the strategy.")],
    days: Annotated[
        int | None, Option("--days", min=1, max=366, help="The days of the averages; 30 by default.")
    ] = None,
    limit: Annotated[int | None, Option(min=1, max=200, help="How many results at most; 50 by default.")] = None,
    form: opt.TableOutput = "table",
) -> None:
    """Show a strategy with averages and its newest results."""
    with connected(target) as client:
        try:
            found: Mapping[str, Any] = client.get_strategy(strategy_id, days, limit)
        except ValueError as error:
            raise invalid(f"{strategy_id[:80]!r} is not a strategy id", {strategy_id: EXAMPLE_STRATEGY}) from error
    if form != "table":
        show_facts(form, found, STRATEGY, known=StrategyDetails.__annotations__)
        return
    show_facts(form, {**found["strategy"], **found["summary"]}, STRATEGY)
    if results := found["recent_results"]:
        write("")
        write_table(RESULTS.head, [RESULTS.row(result) for result in results])


@remote_command
def recheck(
    target: Target,
    request_id: Annotated[str, Argument(metavar="REQUEST_ID", help="The id of the request for a recheck.")],
    form: opt.TableOutput = "table",
) -> None:
    """Show how far a recheck is, and the health of the strategies that it has checked."""
    with connected(target) as client:
        try:
            found = client.get_recheck(request_id)
        except ValueError as error:
            raise invalid(f"{request_id[:80]!r} is not a request id", {request_id: EXAMPLE_REQUEST}) from error
    show_facts(form, found, RECHECK, known=Recheck.__annotations__)

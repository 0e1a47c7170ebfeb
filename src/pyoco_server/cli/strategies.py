"""`pyoco-server-admin strategies`: registers the strategies of a file. Talks to the broker, not to a gateway."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from pyoco_server.cli.brokers import DataDir, NatsUrl, OutputOption, with_broker
from pyoco_server.cli.output import FAILED, localized, print_stderr
from pyoco_server.cli.stdout import write, write_json
from pyoco_server.errors import BrokerUnavailable, InvalidUsage
from pyoco_server.japanese import japanese

if TYPE_CHECKING:
    from pyoco_server.cli.strategy_files import Row
    from pyoco_server.config import NatsBackendConfig
    from pyoco_server.domain.pdca.strategies import Strategy
    from pyoco_server.stores import StrategyStore

EXAMPLE = "Example: pyoco-server-admin strategies import strategies.csv --tenant team-a"
# Puts at a time: the broker stores them together.
AT_A_TIME = 128
# A broker that is busy, or restarts meanwhile, does not end an import.
ATTEMPTS = 10
PAUSE_SEC = 1.0
REPORT_EVERY = 10_000
# The resource of an import in the audit trail.
ALL = "*"

strategies = typer.Typer(
    add_completion=False, rich_markup_mode=None, epilog=EXAMPLE, help="Strategies of the PDCA API."
)


@strategies.callback()
def registry() -> None:
    """Strategies of the PDCA API."""


@strategies.command("import", epilog=EXAMPLE)
def import_strategies(
    file: Annotated[Path, Argument(help="A .csv, .yaml or .json file: id, title, instrument, enabled, tags.")],
    tenant: Annotated[
        str | None, Option(help="Whose strategies they are; none where access is not controlled.")
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Only check the file.")] = False,
    output_form: OutputOption = "table",
    nats_url: NatsUrl = None,
    data_dir: DataDir = None,
) -> None:
    """Register the strategies of a file, or replace those of the same ids. Lists rejected rows with their lines."""
    from pyoco_server.cli.strategy_files import read_rows
    from pyoco_server.domain.auth.caller import TENANT_WORDS, is_tenant_id

    if tenant is not None and not is_tenant_id(tenant):
        raise InvalidUsage(f"--tenant: {TENANT_WORDS}")
    rows = list(read_rows(file))
    rejected = [row for row in rows if row.strategy is None]
    accepted = [row.strategy for row in rows if row.strategy is not None]
    created = changed = 0
    if not dry_run and accepted:
        created, changed = with_broker(lambda config: _register(config, tenant, accepted), nats_url, data_dir)
    if output_form == "json":
        facts = {"rows": len(rows), "accepted": len(accepted), "created": created, "changed": changed}
        write_json(facts | {"rejected": [{"line": row.line, "reason": row.reason} for row in rejected]})
    else:
        for row in rejected:
            write(_told(row))
    print_stderr(_summary(len(accepted), created, changed, len(rejected), dry_run=dry_run))
    if rejected:
        raise typer.Exit(FAILED)


async def _register(config: NatsBackendConfig, tenant: str | None, accepted: Sequence[Strategy]) -> tuple[int, int]:
    """How many strategies were new, and how many have changed."""
    import asyncio

    from pyoco_server.bootstrap import open_strategies
    from pyoco_server.cli.process import operator_name
    from pyoco_server.domain.execution.events import Actor
    from pyoco_server.services.context import CommandContext
    from pyoco_server.services.pdca.registry import Change, register

    async def patiently(store: StrategyStore, strategy: Strategy) -> Change:
        for _ in range(ATTEMPTS - 1):
            try:
                return await register(store, tenant, strategy)
            except BrokerUnavailable:
                await asyncio.sleep(PAUSE_SEC)
        return await register(store, tenant, strategy)

    done: list[Change] = []
    context = CommandContext(actor=Actor(kind="operator", id=operator_name()))
    # One record for all: one per strategy would take several times as long as the import.
    what = ("strategy.import", "strategy", ALL)
    facts = {"strategies": len(accepted)}
    async with (
        open_strategies(config) as (store, trail),
        trail.change(*what, context, tenant_id=tenant, detail=facts) as audited,
    ):
        for some in _parts(accepted):
            done += await asyncio.gather(*(patiently(store, strategy) for strategy in some))
            if len(done) // REPORT_EVERY > (len(done) - len(some)) // REPORT_EVERY:
                print_stderr(
                    localized(f"{len(done)} of {len(accepted)} strategies", f"{len(done)} / {len(accepted)} 件")
                )
        audited.unchanged = done.count(Change.NONE) == len(done)
    return done.count(Change.CREATED), done.count(Change.CHANGED)


def _parts(accepted: Sequence[Strategy]) -> Iterator[list[Strategy]]:
    strategies = iter(accepted)
    while some := list(islice(strategies, AT_A_TIME)):
        yield some


def _told(row: Row) -> str:
    return localized(f"line {row.line}: {row.reason}", f"{row.line} 行目: {japanese(row.reason)}")


def _summary(accepted: int, created: int, changed: int, rejected: int, *, dry_run: bool) -> str:
    if dry_run:
        return localized(
            f"{accepted} strategies can be imported, {rejected} rows are rejected; nothing was stored",
            f"{accepted} 件を登録できます。{rejected} 行は登録できません。保存はしていません",
        )
    same = accepted - created - changed
    return localized(
        f"{created} strategies created, {changed} changed, {same} as before; {rejected} rows rejected",
        f"新規 {created} 件、変更 {changed} 件、変更なし {same} 件。{rejected} 行は登録できません",
    )

"""`pyoco-server-admin`: manages API keys, and imports strategies. Talks to the broker, not to a gateway.

Stdout has only the key, the list or the record; messages go to stderr.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer import Argument, Option

from pyoco_server.cli import output
from pyoco_server.cli.brokers import DataDir, NatsUrl, OutputOption, with_broker
from pyoco_server.cli.output import localized, print_stderr
from pyoco_server.cli.stdout import show, write, write_json
from pyoco_server.cli.strategies import strategies
from pyoco_server.cli.suggestions import invalid
from pyoco_server.cli.tables import Table
from pyoco_server.cli.times import parse_duration
from pyoco_server.cli.version import HELP_NAMES, VersionOption
from pyoco_server.domain.auth.scopes import USUAL_SCOPES, parse_scopes, scope_names
from pyoco_server.errors import InvalidUsage

if TYPE_CHECKING:
    from pyoco_server.config import NatsBackendConfig
    from pyoco_server.domain.auth.api_keys import ApiKey
    from pyoco_server.services.auth.api_keys import ApiKeys

T = TypeVar("T")

PROGRAM = "pyoco-server-admin"
EXAMPLE = f"Example: {PROGRAM} api-key create --tenant team-a --name ci --expires-in 90d"
LIST_EXAMPLE = f"Example: {PROGRAM} api-key list --tenant team-a --output json"
REVOKE_EXAMPLE = f"Example: {PROGRAM} api-key revoke 0123456789abcdef"
HUNDRED_YEARS_SEC = 100 * 365 * 86400

app = typer.Typer(add_completion=False, rich_markup_mode=None, epilog=EXAMPLE, context_settings=HELP_NAMES)
api_key = typer.Typer(add_completion=False, rich_markup_mode=None, epilog=EXAMPLE, help="API keys of the gateway.")
app.add_typer(api_key, name="api-key")
app.add_typer(strategies, name="strategies")


@app.callback()
def admin(version: VersionOption = False) -> None:
    """Manage access to the gateway, and its strategies."""


@api_key.command(epilog=EXAMPLE)
def create(
    tenant: Annotated[str, Option(help="Tenant whose runs the key submits and reads.")],
    name: Annotated[str | None, Option(help="A name for people.")] = None,
    scopes: Annotated[
        str, Option(help="What the key allows, joined by commas; `admin` is everything, for all tenants.")
    ] = ",".join(scope_names(USUAL_SCOPES)),
    expires_in: Annotated[str | None, Option(help="Lifetime: 30m, 12h, 90d, 52w.")] = None,
    expires_at: Annotated[str | None, Option(help="End: 2030-01-31 or 2030-01-31T12:00:00Z.")] = None,
    output_form: OutputOption = "table",
    nats_url: NatsUrl = None,
    data_dir: DataDir = None,
) -> None:
    """Create a key and print it. It is never shown again: only its digest is stored."""
    from pyoco_server.adapters.system import SystemClock

    wanted, ends_at = parse_scopes(scopes), expiry(expires_in, expires_at, SystemClock().now())
    made = _with_keys(lambda keys: keys.hand_out(tenant, wanted, name=name, expires_at=ends_at), nats_url, data_dir)
    if output_form == "json":
        write_json({"api_key": made.api_key, **_as_json(made.record)})
    else:
        write(made.api_key)
    key_id = made.record.key_id
    print_stderr(
        localized(
            f"created key {key_id} of tenant {tenant}; it is shown only once, so store it safely",
            f"tenant {tenant} の key {key_id} を作成しました。再表示はできないため、安全な場所に保存してください",
        )
    )
    print_stderr(f"{localized('to revoke it', '失効させるには')}: {PROGRAM} api-key revoke {key_id}")


@api_key.command("list", epilog=LIST_EXAMPLE)
def list_keys(
    tenant: Annotated[str | None, Option(help="Only the keys of this tenant.")] = None,
    everything: Annotated[bool, Option("--all", help="Revoked and expired keys too.")] = False,
    output_form: OutputOption = "table",
    nats_url: NatsUrl = None,
    data_dir: DataDir = None,
) -> None:
    """List the keys, oldest first, without their secrets."""
    records = _with_keys(lambda keys: keys.look_over(tenant_id=tenant, ended_too=everything), nats_url, data_dir)
    if records or output_form == "json":
        show(output_form, [_as_json(record) for record in records], KEYS)
    else:
        there_are_none = localized("there are no keys; create one", "key がありません。作成するには")
        print_stderr(f"{there_are_none}: {PROGRAM} api-key create --tenant team-a")


@api_key.command(epilog=REVOKE_EXAMPLE)
def revoke(
    key_id: Annotated[str, Argument(help="The key's id, as `list` shows it.")],
    output_form: OutputOption = "table",
    nats_url: NatsUrl = None,
    data_dir: DataDir = None,
) -> None:
    """Revoke a key. Every gateway refuses it within a second."""
    from pyoco_server.domain.auth.api_keys import parse_key_id

    wanted = parse_key_id(key_id)
    record = _with_keys(lambda keys: keys.revoke(wanted), nats_url, data_dir)
    if output_form == "json":
        write_json(_as_json(record))
    at = as_utc(record.revoked_at)
    print_stderr(
        localized(
            f"revoked key {record.key_id} of tenant {record.tenant_id} at {at}",
            f"tenant {record.tenant_id} の key {record.key_id} を失効させました（{at}）",
        )
    )


def _with_keys(work: Callable[[ApiKeys], Awaitable[T]], nats_url: str | None, data_dir: str | None) -> T:
    async def do(config: NatsBackendConfig) -> T:
        from pyoco_server.bootstrap import open_api_keys

        async with open_api_keys(config) as keys:
            return await work(keys)

    return with_broker(do, nats_url, data_dir)


def _as_json(record: ApiKey) -> dict[str, Any]:
    fields = ("key_id", "tenant_id", "name", "scopes", "created_at", "expires_at", "revoked_at")
    return {name: getattr(record, name) for name in fields} | {"scopes": scope_names(record.scopes)}


def expiry(lifetime: str | None, end: str | None, now: float) -> float | None:
    """When a key ends, from its lifetime or its end; None when neither is given."""
    if lifetime is not None and end is not None:
        raise InvalidUsage("--expires-in and --expires-at exclude each other", example=EXAMPLE.partition(": ")[2])
    if lifetime is not None:
        return now + _seconds(lifetime)
    return None if end is None else _instant(end)


def as_utc(at: float | None) -> str:
    """A time in UTC, to the second; `-` for never."""
    return "-" if at is None else datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _seconds(lifetime: str) -> int:
    seconds = parse_duration(lifetime) or 0
    if not 0 < seconds <= HUNDRED_YEARS_SEC:
        detail = "--expires-in is a number and a unit, s m h d w (for example: --expires-in 90d)"
        raise invalid(detail, {lifetime: "90d"}, program=PROGRAM)
    return seconds


def _instant(end: str) -> float:
    try:
        at = datetime.fromisoformat(end.strip())
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        example = "--expires-at 2030-01-31 or --expires-at 2030-01-31T12:00:00Z"
        detail = f"--expires-at is a date or a time in UTC (for example: {example})"
        raise invalid(detail, {end: "2030-01-31"}, program=PROGRAM) from None


KEYS = Table(
    ("KEY ID", "key_id"),
    ("TENANT", "tenant_id"),
    ("NAME", "name"),
    ("CREATED", "created_at", as_utc),
    ("EXPIRES", "expires_at", as_utc),
    ("REVOKED", "revoked_at", as_utc),
    ("SCOPES", "scopes"),
)


def main() -> None:
    output.run(app, PROGRAM)


if __name__ == "__main__":
    main()

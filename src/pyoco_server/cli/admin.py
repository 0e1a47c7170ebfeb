"""`pyoco-server-admin`: API keys are handed out, listed and revoked. It speaks with the broker, not with a gateway.

Stdout has the key, the list or the record and nothing else; words for people go to stderr.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Annotated, Any, TypeVar

import orjson
import typer

from pyoco_server.adapters.system import SystemClock
from pyoco_server.bootstrap import locate_broker, open_api_keys
from pyoco_server.cli import output
from pyoco_server.cli.broker import find_broker
from pyoco_server.cli.output import say
from pyoco_server.cli.times import as_utc, expiry
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.api_keys import ApiKey, parse_key_id
from pyoco_server.domain.auth.scopes import USUAL_SCOPES, in_words, parse_scopes
from pyoco_server.errors import InvalidUsage
from pyoco_server.services.auth.api_keys import ApiKeys

T = TypeVar("T")

app = typer.Typer(add_completion=False, rich_markup_mode=None)
api_key = typer.Typer(add_completion=False, rich_markup_mode=None, help="Keys that callers of the gateway show.")
app.add_typer(api_key, name="api-key")

EXAMPLE = "Example: pyoco-server-admin api-key create --tenant team-a --name ci --expires-in 90d"
LIST_EXAMPLE = "Example: pyoco-server-admin api-key list --tenant team-a --output json"
REVOKE_EXAMPLE = "Example: pyoco-server-admin api-key revoke 0123456789abcdef"


class Output(StrEnum):
    """What stdout is for: a program, or eyes."""

    JSON = "json"
    TABLE = "table"


NatsUrl = Annotated[str | None, typer.Option("--nats-url", help="Where NATS is (PYOCO_NATS_URL).")]
DataDir = Annotated[
    str | None,
    typer.Option("--data-dir", help="Data folder of a `pyoco-server up` on this machine: finds its NATS by itself."),
]
OutputOption = Annotated[Output, typer.Option("--output", help="What is written to stdout.")]


@app.callback()
def admin() -> None:
    """Looks after who may call the gateway."""


@api_key.command(epilog=EXAMPLE)
def create(
    tenant: Annotated[str, typer.Option(help="Whose runs the key submits and sees.")],
    name: Annotated[str | None, typer.Option(help="What people call the key.")] = None,
    scopes: Annotated[
        str, typer.Option(help="What the key allows, joined by commas; `admin` is everything, for all tenants.")
    ] = ",".join(in_words(USUAL_SCOPES)),
    expires_in: Annotated[str | None, typer.Option(help="Lifetime: 30m, 12h, 90d, 52w.")] = None,
    expires_at: Annotated[str | None, typer.Option(help="End: 2030-01-31 or 2030-01-31T12:00:00Z.")] = None,
    output_form: OutputOption = Output.TABLE,
    nats_url: NatsUrl = None,
    data_dir: DataDir = None,
) -> None:
    """Make a key and show it, this once: only its digest is stored."""
    wanted, ends_at = parse_scopes(scopes), expiry(expires_in, expires_at, SystemClock().now())
    made = _with_keys(lambda keys: keys.hand_out(tenant, wanted, name=name, expires_at=ends_at), nats_url, data_dir)
    if output_form is Output.JSON:
        _print_json({"api_key": made.api_key, **_shown(made.record)})
    else:
        _print(made.api_key)
    say(f"key {made.record.key_id} of tenant {tenant} is made; it is shown only this once, so keep it safe")
    say(f"to end it: pyoco-server-admin api-key revoke {made.record.key_id}")


@api_key.command("list", epilog=LIST_EXAMPLE)
def list_keys(
    tenant: Annotated[str | None, typer.Option(help="Only the keys of this tenant.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Revoked and expired keys too.")] = False,
    output_form: OutputOption = Output.TABLE,
    nats_url: NatsUrl = None,
    data_dir: DataDir = None,
) -> None:
    """Show the keys there are, oldest first; never the keys themselves."""
    records = _with_keys(lambda keys: keys.look_over(tenant_id=tenant, ended_too=everything), nats_url, data_dir)
    if output_form is Output.JSON:
        _print_json([_shown(record) for record in records])
    elif records:
        _print(_table(list(records)))
    else:
        say("there are no keys; make one: pyoco-server-admin api-key create --tenant team-a")


@api_key.command(epilog=REVOKE_EXAMPLE)
def revoke(
    key_id: Annotated[str, typer.Argument(help="The key's id, as `list` shows it.")],
    output_form: OutputOption = Output.TABLE,
    nats_url: NatsUrl = None,
    data_dir: DataDir = None,
) -> None:
    """End a key: every gateway refuses it within a second."""
    wanted = parse_key_id(key_id)
    record = _with_keys(lambda keys: keys.revoke(wanted), nats_url, data_dir)
    if output_form is Output.JSON:
        _print_json(_shown(record))
    say(f"key {record.key_id} of tenant {record.tenant_id} is revoked since {as_utc(record.revoked_at)}")


def _with_keys(work: Callable[[ApiKeys], Awaitable[T]], nats_url: str | None, data_dir: str | None) -> T:
    config = NatsBackendConfig.from_env(nats_url=nats_url, data_dir=data_dir)
    if nats_url is None and data_dir is not None and locate_broker(config) is config:
        raise InvalidUsage(f"no pyoco-server is up with the data folder {data_dir}; start it, or name --nats-url")
    config = find_broker(config, nats_url, data_dir)

    async def do() -> T:
        async with open_api_keys(config) as keys:
            return await work(keys)

    return asyncio.run(do())


def _shown(record: ApiKey) -> dict[str, Any]:
    """A record as an administrator may see it: not even the digest leaves the bucket."""
    return {
        "key_id": record.key_id,
        "tenant_id": record.tenant_id,
        "name": record.name,
        "scopes": in_words(record.scopes),
        "created_at": record.created_at,
        "expires_at": record.expires_at,
        "revoked_at": record.revoked_at,
    }


def _table(records: list[ApiKey]) -> str:
    rows: list[tuple[str, ...]] = [("KEY ID", "TENANT", "NAME", "CREATED", "EXPIRES", "REVOKED", "SCOPES")]
    for record in records:
        times = (as_utc(at) for at in (record.created_at, record.expires_at, record.revoked_at))
        rows.append((record.key_id, record.tenant_id, record.name or "-", *times, ",".join(in_words(record.scopes))))
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _print_json(value: Any) -> None:
    _print(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def main() -> None:
    output.run(app, "pyoco-server-admin")


if __name__ == "__main__":
    main()

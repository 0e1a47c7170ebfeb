"""The command for administrators: who did what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from typer import Option

from pyoco_server.cli.client import options as opt
from pyoco_server.cli.client.connection import Target, connected, remote_command
from pyoco_server.cli.stdout import show
from pyoco_server.cli.tables import Table, moment, text


def _actor(record: Mapping[str, Any]) -> str:
    actor = record.get("actor")
    return text(actor.get("id")) if isinstance(actor, Mapping) and actor.get("id") else "anonymous"


def _resource(record: Mapping[str, Any]) -> str:
    resource = record.get("resource")
    return f"{text(resource.get('kind'))} {text(resource.get('id'))}" if isinstance(resource, Mapping) else "-"


AUDIT = Table(
    ("TIME", "at", moment),
    ("ACTOR", _actor),
    ("ACTION", "action"),
    ("RESOURCE", _resource),
    ("OUTCOME", "outcome"),
    ("ADDRESS", "address"),
    ("REQUEST_ID", "request_id"),
)


@remote_command
def audit(
    target: Target,
    actor: Annotated[str | None, Option(help="Only of this API key id, token subject or operator.")] = None,
    action: Annotated[str | None, Option(help="Only this action, such as run.cancel or graph.put.")] = None,
    resource: Annotated[
        str | None, Option(help="Only of this run, key, wheel, graph, worker or strategy, by its id.")
    ] = None,
    request_id: Annotated[str | None, Option("--request-id", help="Only of this X-Request-Id.")] = None,
    since: Annotated[
        str | None, Option("--since", metavar="TIME", help="Done then or later: 1h ago, a date, ISO 8601.")
    ] = None,
    until: Annotated[str | None, Option("--until", metavar="TIME", help="Done earlier than then.")] = None,
    limit: opt.LimitOption = None,
    cursor: opt.CursorOption = None,
    form: opt.ListOutput = "json",
) -> None:
    """List who changed what, newest first, of all tenants. For administrators."""
    begin, end = opt.given_time("--since", since), opt.given_time("--until", until)
    with connected(target) as client:
        page = client.list_audit(actor, action, resource, request_id, begin, end, limit, cursor)
    show(form, page, AUDIT)

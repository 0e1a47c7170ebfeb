"""What a shell completes: names of flows, routing tags and recent ids, from a server that answers within a second."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import typer

from pyoco_server.cli.client.connection import Target
from pyoco_server.errors import PyocoError

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoHttpClient

TIMEOUT_SEC = 1.0
MAX_GRAPHS, MAX_RUNS = 100, 50
# Shells evaluate what is completed, zsh at once: `\$(command)` in the name of a graph would run. So only names are
# offered that no shell has to quote, and that are no options.
_NEEDS_NO_QUOTES = re.compile(r"[\w@][\w@%+:,./-]*")


def flow_names(ctx: typer.Context, incomplete: str) -> list[str]:
    if "=" in incomplete or ctx.params.get("words"):
        return []  # only the first word names the flow
    return _from_server(ctx, lambda client: _graphs(client, incomplete, "flow"))


def graph_names(ctx: typer.Context, incomplete: str) -> list[str]:
    return _from_server(ctx, lambda client: _graphs(client, incomplete, "flow", "graph"))


def recent_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    last = ["@last"] if incomplete and "@last".startswith(incomplete) else []
    if incomplete.startswith("@"):
        return last
    return _from_server(ctx, lambda client: (run["run_id"] for run in client.list_runs(limit=MAX_RUNS)), incomplete)


def routing_tags(ctx: typer.Context, incomplete: str) -> list[str]:
    return _from_server(ctx, lambda client: (run.get("tag") or "" for run in client.list_runs(limit=200)), incomplete)


def _graphs(client: PyocoHttpClient, incomplete: str, *sources: str) -> Iterator[str]:
    for graph in client.list_graphs(q=incomplete or None, limit=MAX_GRAPHS)["items"]:
        if graph["source"] in sources:
            yield graph["graphId"]


def _from_server(
    ctx: typer.Context, ask: Callable[[PyocoHttpClient], Iterator[str]], incomplete: str = ""
) -> list[str]:
    """What the server answers; nothing if it does not, because a shell is no place for an error."""
    from pyoco_server.http_client import PyocoClientError

    options = ctx.find_root().params | {name: value for name, value in ctx.params.items() if value}
    target = Target(**{name: options.get(name) for name in ("server", "api_key", "token", "profile")})
    try:
        with target.client(timeout=TIMEOUT_SEC, retries=0, retry_within_sec=TIMEOUT_SEC) as client:
            found = dict.fromkeys(str(one) for one in ask(client))
    except (PyocoClientError, PyocoError):
        return []
    return [one for one in found if one.startswith(incomplete) and _NEEDS_NO_QUOTES.fullmatch(one)]

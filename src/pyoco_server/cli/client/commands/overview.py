"""The commands about all runs: the present in a few lines, and the past by intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from typer import Option

from pyoco_server.cli.client import options as opt
from pyoco_server.cli.client.completions import flow_names, routing_tags
from pyoco_server.cli.client.connection import Target, connected, remote_command
from pyoco_server.cli.stdout import show, show_lines
from pyoco_server.cli.tables import Table, duration, moment, text

STATS = Table(
    ("FROM", "at", moment),
    ("SUBMITTED", "submitted"),
    ("COMPLETED", "completed"),
    ("FAILED", "failed"),
    ("CANCELLED", "cancelled"),
    ("QUEUE_P50", "queue_p50_sec", duration),
    ("QUEUE_P95", "queue_p95_sec", duration),
    ("RUN_P50", "run_p50_sec", duration),
    ("RUN_P95", "run_p95_sec", duration),
)


@remote_command
def overview(target: Target, form: opt.TextOutput = "text") -> None:
    """Show runs by status, queues, workers, what waits for people, and whether the gateway accepts runs."""
    with connected(target) as client:
        found = client.get_overview()
    show_lines("json" if form == "json" else "table", found, _lines(found))


@remote_command
def stats(
    target: Target,
    since: Annotated[
        str | None, Option("--since", metavar="TIME", help="From then on: 24h ago, a date, ISO 8601; 1h by default.")
    ] = None,
    until: Annotated[str | None, Option("--until", metavar="TIME", help="Up to then; now by default.")] = None,
    points: Annotated[int | None, Option(min=1, max=500, help="How many intervals at most; 60 by default.")] = None,
    flow: Annotated[str | None, Option(help="Only runs of this flow.", autocompletion=flow_names)] = None,
    tag: Annotated[
        str | None, Option("--tag", "--queue", help="Only runs with this routing tag.", autocompletion=routing_tags)
    ] = None,
    form: opt.TableOutput = "table",
) -> None:
    """List how many runs were submitted and ended, and how long they waited and ran, by intervals."""
    begin, end = opt.given_time("--since", since), opt.given_time("--until", until)
    with connected(target) as client:
        found = client.get_stats(begin, end, points, flow, tag)
    show(form, found, STATS, found["points"])


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"gateway: {text(found['health'].get('status'))} ({text(found.get('durability'))})"
    for reason in found["health"].get("reasons", ()):
        yield f"  {text(reason.get('detail'))}"
    yield f"runs: {_counts(found['runs'])}"
    if found["workers"] is not None:
        yield f"workers: {_counts(found['workers'])}"
    for queue in found["queues"]:
        yield f"queue {text(queue.get('tag'))}: {text(queue.get('pending'))} waiting{_serving(queue)}"
    yield f"waits: {text(found.get('waits'))}"
    if found["dead_letters"] is not None:
        yield f"dead letters: {text(found['dead_letters'])}"


def _counts(counts: Mapping[str, object]) -> str:
    return ", ".join(f"{text(name)} {text(count)}" for name, count in counts.items())


def _serving(queue: Mapping[str, Any]) -> str:
    if queue["workers"] is None:
        return ""
    return f", workers {text(queue['workers'])}, free slots {text(queue['slots_free'])}"

"""Translates between `/runs` and the core. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from pyoco_server.domain.execution.result import Result, result_of
from pyoco_server.domain.execution.snapshot import public_view
from pyoco_server.http_api.responses import streams
from pyoco_server.services.projections.lists import Item, ItemPage
from pyoco_server.services.streaming.topics import View, WatchUpdate

FactsOf = Callable[[Mapping[str, Any]], Mapping[str, Any]]

_EVENT_ID = re.compile(r"[0-9]{1,18}")
_TASK_FIELDS = ("run_id", "flow_name", "status", "tasks", "task_records", "task_records_truncated")


def run_out(snapshot: Mapping[str, Any], facts: Mapping[str, Any], *, records: bool) -> bytes:
    """A run with its result, if it has one, and the present facts about its worker."""
    return orjson.dumps({**public_view(snapshot, records=records), **_result(snapshot), **facts})


def _result(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    match result_of(snapshot):
        case None:
            return {}
        case Result(value, is_truncated=True):
            return {"result": value, "result_truncated": True}
        case Result(value):
            return {"result": value}


def watch_event(update: WatchUpdate, facts_of: FactsOf, *, records: bool) -> bytes:
    """One event of a stream. A heartbeat has neither an id to resume from nor records."""
    view = update.view
    if not update.beat:
        return view.encoded(
            ("runs", records), lambda: streams.event("snapshot", _seen(view, facts_of, records=records), view.version)
        )
    beat = view.encoded(("runs", "beat"), lambda: streams.event("heartbeat", _seen(view, facts_of, records=False)))
    return streams.comment("nats is away: this is the last known state") + beat if update.away else beat


def version_of(last_event_id: str | None) -> int:
    """The version of a Last-Event-ID; 0 for anything else."""
    return int(last_event_id) if last_event_id is not None and _EVENT_ID.fullmatch(last_event_id) else 0


def _seen(view: View, facts_of: FactsOf, *, records: bool) -> bytes:
    run_id, ts = orjson.dumps(view.plain["run_id"]), orjson.dumps(view.seen_at)
    shown = run_out(view.plain, facts_of(view.plain), records=records)
    return b'{"run_id":%b,"snapshot":%b,"ts":%b}' % (run_id, shown, ts)


def tasks_out(snapshot: Mapping[str, Any]) -> bytes:
    return orjson.dumps({name: snapshot[name] for name in _TASK_FIELDS})


def list_out(items: Sequence[Item], facts_of: FactsOf) -> bytes:
    """A JSON array of summaries, which are JSON already, or of snapshots with the facts about their workers."""
    parts = [item if isinstance(item, bytes) else run_out(item, facts_of(item), records=True) for item in items]
    return b"[" + b",".join(parts) + b"]"


def page_out(page: ItemPage, facts_of: FactsOf) -> bytes:
    others = orjson.dumps({"next_cursor": page.next_cursor, "total": page.total})
    return b'{"items":' + list_out(page.items, facts_of) + b"," + others[1:]

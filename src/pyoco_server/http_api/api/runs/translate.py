"""Translates between `/runs` and the core. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.caller import Caller
from pyoco_server.domain.execution.snapshot import public_view
from pyoco_server.domain.execution.state import Execution, Request
from pyoco_server.http_api.api.runs.schemas import RunCancelRequest, RunSubmitRequest
from pyoco_server.http_api.protocol import request_parsing
from pyoco_server.http_api.responses import streams
from pyoco_server.services.projections.lists import Item, ItemPage
from pyoco_server.services.streaming.topics import View, WatchUpdate

FactsOf = Callable[[Mapping[str, Any]], Mapping[str, Any]]

_EVENT_ID = re.compile(r"[0-9]{1,18}")
_TASK_FIELDS = ("run_id", "flow_name", "status", "tasks", "task_records", "task_records_truncated")


def submit_request(body: bytes, config: NatsBackendConfig, caller: Caller) -> tuple[Request, tuple[str, ...]]:
    """The request of a caller and its labels."""
    asked = request_parsing.read_with_params(RunSubmitRequest, body, config)
    request = request_parsing.request_of(
        caller,
        config,
        flow_name=asked.flow_name,
        params=request_parsing.checked_params(asked.params, config),
        tag=asked.tag,
        timeout_sec=asked.timeout_sec,
    )
    return request, (request.tag,) if asked.tags is None else request_parsing.labels_of(asked.tags)


def cancel_reason(body: bytes) -> str | None:
    """The reason, if given; the body is optional."""
    return request_parsing.read(RunCancelRequest, body).reason if body.strip() else None


def accepted_out(execution: Execution, durability: str) -> bytes:
    return orjson.dumps({"run_id": execution.execution_id, "status": "PENDING", "durability": durability})


def run_out(snapshot: Mapping[str, Any], facts: Mapping[str, Any], *, records: bool) -> bytes:
    """A run with the present facts about its worker."""
    return orjson.dumps({**public_view(snapshot, records=records), **facts})


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
    return b'{"items":' + list_out(page.items, facts_of) + b',"next_cursor":' + orjson.dumps(page.next_cursor) + b"}"

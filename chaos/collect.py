"""Waits until everything has settled, then reads all there is; it changes nothing and judges nothing.

The stores are read through the program's own adapters, the API through HTTP, and the witness from the flows' own file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import cycle, product
from pathlib import Path

import httpx
import orjson

from chaos import folders, side_effects
from chaos.clients import FLOWS, WHEEL_FLOW
from chaos.evidence import LIST_LIMIT, Evidence, Listed, Plain, Printed, Shown, Synced, ToldExecution
from chaos.fleet import Fleet
from chaos.plan import TAGS, WHEELS_TAG
from chaos.polling import comes_true
from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.key_value import is_marker
from pyoco_server.adapters.jetstream.reads import StoredMessage, StreamReader
from pyoco_server.adapters.jetstream.subjects import bucket_key, bucket_stream, last_token, work_subject
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution import codec
from pyoco_server.domain.execution.events import StoredCommit
from pyoco_server.domain.execution.snapshot import RUN_STATUSES, TERMINAL_RUN_STATUSES

UNFINISHED = tuple(status for status in RUN_STATUSES if status not in TERMINAL_RUN_STATUSES)
POLL_SEC = 0.5
AT_A_TIME = 16
LINES_PER_PAGE = 100
EVENTS_PER_PAGE = 10
# Gateways close what was idle for 5 s: who keeps a connection as long may send its request into a closed one.
SHORT_LIVED = httpx.Limits(keepalive_expiry=2.0)

Newest = Callable[[Sequence[Plain], Sequence[str]], frozenset[tuple[str, str]]]


async def settled(fleet: Fleet, within_sec: float) -> bool:
    """Wait until no gateway knows an unfinished run and the queue is empty; False when that takes too long."""
    async with await Connection.open(fleet.config) as connection, httpx.AsyncClient() as http:

        async def is_still() -> bool:
            return not await _unfinished(fleet, http) and not await _jobs(connection, fleet.config)

        return await comes_true(is_still, within_sec=within_sec, every_sec=POLL_SEC)


async def collect(fleet: Fleet, accepted: Sequence[str], executions: Sequence[str], folder: Path) -> Evidence:
    """Read everything."""
    config = fleet.config
    async with await Connection.open(config) as connection, httpx.AsyncClient(timeout=10.0, limits=SHORT_LIVED) as http:
        logs: dict[str, list[StoredCommit]] = {}
        stored_at: dict[int, float] = {}
        for message in await StreamReader(connection, config.events_stream, direct=True).after(
            f"{config.events_subject_prefix}.*", 0
        ):
            commit = StoredCommit(sequence=message.sequence, commit=codec.decode(message.data))
            logs.setdefault(last_token(message.subject), []).append(commit)
            stored_at[message.sequence] = _stored_at(message)
        runs = config.runs_kv_bucket
        kept = await StreamReader(connection, bucket_stream(runs), direct=True).after(bucket_key(runs, ">"), 0)
        return Evidence(
            logs=logs,
            stored_at=stored_at,
            snapshots={last_token(m.subject): orjson.loads(m.data) for m in kept if not is_marker(m.headers)},
            jobs=await _jobs(connection, config),
            shown=await _show(fleet, http, [*accepted, *executions]),
            executions=await _told(fleet, http, executions),
            lists=await _lists(fleet, http),
            witness=side_effects.by_run(side_effects.read(folder / "witness")),
            printed=await _printed(fleet, http, accepted),
            registry=await _registry(fleet, http),
            synced=await _synced(fleet, http),
            folders=[folders.read(path) for path in sorted({one.folder for one in fleet.syncing.values()})],
        )


def _stored_at(message: StoredMessage) -> float:
    stamp = message.header("Nats-Time-Stamp") or ""
    # Nine digits of a second are more than fromisoformat takes.
    whole, _, fraction = stamp.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{fraction or 0}")


async def _unfinished(fleet: Fleet, http: httpx.AsyncClient) -> bool:
    """Whether a gateway knows of a run that is not finished, or does not answer."""
    for url, status in product(fleet.urls.values(), UNFINISHED):
        try:
            response = await http.get(f"{url}/runs", params={"status": status, "limit": "1"})
        except httpx.TransportError:
            return True
        if response.status_code != 200 or response.json():
            return True
    return False


async def _jobs(connection: Connection, config: NatsBackendConfig) -> list[Plain]:
    reader = StreamReader(connection, config.work_stream, direct=True)
    return [orjson.loads(message.data) for message in await reader.after(work_subject(config, ">"), 0)]


async def _show(fleet: Fleet, http: httpx.AsyncClient, run_ids: Sequence[str]) -> dict[str, list[Shown]]:
    shown: dict[str, list[Shown]] = {run_id: [] for run_id in run_ids}
    door = asyncio.Semaphore(AT_A_TIME)

    async def ask(run_id: str, gateway: str, url: str) -> None:
        async with door:
            response = await http.get(f"{url}/runs/{run_id}", params={"include": "all"})
        shown[run_id].append(Shown(gateway=gateway, body=None if response.status_code == 404 else response.json()))

    await asyncio.gather(*(ask(run_id, *gateway) for run_id in run_ids for gateway in fleet.urls.items()))
    return shown


async def _told(fleet: Fleet, http: httpx.AsyncClient, run_ids: Sequence[str]) -> dict[str, list[ToldExecution]]:
    """Each execution with its events, page by page, as every gateway tells them."""
    found: dict[str, list[ToldExecution]] = {run_id: [] for run_id in run_ids}
    door = asyncio.Semaphore(AT_A_TIME)

    async def ask(run_id: str, gateway: str, url: str) -> None:
        asked, events = {"limit": str(EVENTS_PER_PAGE)}, []
        async with door:
            body = (await http.get(f"{url}/executions/{run_id}")).json()
            while True:
                page = (await http.get(f"{url}/executions/{run_id}/events", params=asked)).json()
                events += page.get("items", [])
                if page.get("nextCursor") is None:
                    break
                asked["cursor"] = page["nextCursor"]
        found[run_id].append(ToldExecution(gateway=gateway, body=body, events=events))

    await asyncio.gather(*(ask(run_id, *gateway) for run_id in run_ids for gateway in fleet.urls.items()))
    return found


async def _printed(fleet: Fleet, http: httpx.AsyncClient, run_ids: Sequence[str]) -> dict[str, list[Printed]]:
    """What each run printed, page by page, of one gateway or another."""
    printed: dict[str, list[Printed]] = {}
    door = asyncio.Semaphore(AT_A_TIME)
    urls = cycle(fleet.urls.values())

    async def ask(run_id: str, url: str) -> None:
        lines, asked = [], {"limit": str(LINES_PER_PAGE)}
        while True:
            async with door:
                page = (await http.get(f"{url}/runs/{run_id}/logs", params=asked)).json()
            lines += [Printed(attempt=it["attempt"], stream=it["stream"], text=it["message"]) for it in page["items"]]
            if not page["items"]:
                break
            asked["since_token"] = page["next_token"]
        printed[run_id] = lines

    await asyncio.gather(*(ask(run_id, next(urls)) for run_id in run_ids))
    return printed


async def synced(fleet: Fleet, newest: Newest, within_sec: float) -> bool:
    """Wait until every worker that syncs wheels has the newest; False when that takes too long."""
    async with httpx.AsyncClient() as http:

        async def all_have() -> bool:
            try:
                registered = next(iter((await _registry(fleet, http)).values()))
                return all(one.wheels == newest(registered, one.tags) for one in await _synced(fleet, http))
            except httpx.TransportError:
                return False

        return await comes_true(all_have, within_sec=within_sec, every_sec=POLL_SEC)


async def _registry(fleet: Fleet, http: httpx.AsyncClient) -> dict[str, list[Plain]]:
    return {gateway: (await http.get(f"{url}/wheels")).json() for gateway, url in fleet.urls.items()}


async def _synced(fleet: Fleet, http: httpx.AsyncClient) -> list[Synced]:
    url = next(iter(fleet.urls.values()))
    says = {one["worker_id"]: one.get("wheel_sync") or {} for one in (await http.get(f"{url}/workers")).json()}
    found = []
    for name, syncing in fleet.syncing.items():
        environment, wheels = folders.wheels_in_use(syncing.folder, syncing.tags)
        found.append(
            Synced(worker=name, tags=syncing.tags, says=says.get(name, {}), environment=environment, wheels=wheels)
        )
    return found


async def _lists(fleet: Fleet, http: httpx.AsyncClient) -> list[Listed]:
    """Every combination of filters: a list is cut at 200, but together they show everything."""
    found = []
    for (gateway, url), flow, tag, status in product(
        fleet.urls.items(), (*FLOWS, WHEEL_FLOW, None), (*TAGS, WHEELS_TAG, None), (*RUN_STATUSES, None)
    ):
        asked = {"flow": flow, "tag": tag, "status": status, "limit": str(LIST_LIMIT)}
        response = await http.get(f"{url}/runs", params={key: value for key, value in asked.items() if value})
        found.append(Listed(gateway=gateway, flow=flow, tag=tag, status=status, items=response.json()))
    return found

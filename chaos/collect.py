"""Waits until the system is idle, then reads all evidence. Read-only; the checks are in `invariants`.

Stores are read through the program's adapters, the API over HTTP, and side effects from the file that the flows write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import count, cycle, product
from pathlib import Path

import httpx
import orjson

from chaos import folders
from chaos.clients import FLOWS, WHEEL_FLOW
from chaos.evidence import (
    LIST_LIMIT,
    Evidence,
    ExcerptAgain,
    ExecutionResponse,
    Labelled,
    Listed,
    Plain,
    Printed,
    Shown,
    ShownStrategy,
    Synced,
)
from chaos.fleet import Fleet
from chaos.jobs import RANGE
from chaos.journal import Excerpt, Journal
from chaos.plan import SIDE_EFFECTS_FILE, TAGS, WHEELS_TAG
from chaos.processes import poll_until
from chaos.side_effects import by_run, read_side_effects
from pyoco_server.adapters.jetstream.broker import is_marker
from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.reads import StoredMessage, StreamReader
from pyoco_server.adapters.jetstream.subjects import bucket_key, bucket_stream, last_token
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution import codec
from pyoco_server.domain.execution.events import StoredCommit
from pyoco_server.domain.execution.snapshot import RUN_STATUSES, TERMINAL_RUN_STATUSES
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.ids import run_id_of, ulid_of
from pyoco_server.domain.pdca.recheck import BATCH_FLOW, REQUEST_FLOW

UNFINISHED = tuple(status for status in RUN_STATUSES if status not in TERMINAL_RUN_STATUSES)
POLL_SEC = 0.5
AT_A_TIME = 16
LINES_PER_PAGE = 500
EVENTS_PER_PAGE = 10
RECORDS_PER_PAGE = 500
STRATEGIES_PER_PAGE = 100
# Gateways close connections that were idle for 5 s; reusing one at that moment would lose the request.
SHORT_LIVED = httpx.Limits(keepalive_expiry=2.0)

Newest = Callable[[Sequence[Plain], Sequence[str]], frozenset[tuple[str, str]]]


async def wait_until_idle(fleet: Fleet, within_sec: float) -> bool:
    """Waits until no gateway lists an unfinished run and the queue is empty; False on timeout."""
    async with await Connection.open(fleet.config) as connection, httpx.AsyncClient() as http:

        async def is_idle() -> bool:
            return not await _unfinished(fleet, http) and not await _jobs(connection, fleet.config)

        return await poll_until(is_idle, within_sec=within_sec, every_sec=POLL_SEC)


async def collect(fleet: Fleet, journal: Journal, folder: Path) -> Evidence:
    """Reads everything."""
    config, accepted, executions = fleet.config, list(journal.accepted), journal.executions
    rechecks = list(dict.fromkeys(run_id_of(one.request_id) for one in journal.rechecks if not one.dry_run))
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
            shown=await _shown(fleet, http, [*accepted, *executions, *rechecks]),
            executions=await _executions(fleet, http, executions),
            lists=await _lists(fleet, http),
            side_effects=by_run(read_side_effects(folder / SIDE_EFFECTS_FILE)),
            printed=await _printed(fleet, http, accepted),
            labels=await _labels(fleet, http, {label for labels in journal.labels.values() for label in labels}),
            excerpts=await _excerpts(fleet, http, journal.excerpts),
            rechecks=await _rechecks(fleet, http, rechecks),
            strategies=await _strategies(fleet, http),
            audit={gateway: await _audit(http, url) for gateway, url in fleet.urls.items()},
            registry=await _registry(fleet, http),
            synced=await _synced(fleet, http),
            folders=[folders.read(path) for path in sorted({one.folder for one in fleet.syncing.values()})],
        )


def _stored_at(message: StoredMessage) -> float:
    stamp = message.header("Nats-Time-Stamp") or ""
    # fromisoformat does not accept nanoseconds.
    whole, _, fraction = stamp.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{fraction or 0}")


async def _unfinished(fleet: Fleet, http: httpx.AsyncClient) -> bool:
    """Whether a gateway lists an unfinished run or does not respond."""
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
    return [orjson.loads(message.data) for message in await reader.after(f"{config.work_subject_prefix}.>", 0)]


async def _shown(fleet: Fleet, http: httpx.AsyncClient, run_ids: Sequence[str]) -> dict[str, list[Shown]]:
    shown: dict[str, list[Shown]] = {run_id: [] for run_id in run_ids}
    limiter = asyncio.Semaphore(AT_A_TIME)

    async def read(run_id: str, gateway: str, url: str) -> None:
        async with limiter:
            response = await http.get(f"{url}/runs/{run_id}", params={"include": "all"})
        shown[run_id].append(Shown(gateway=gateway, body=None if response.status_code == 404 else response.json()))

    await asyncio.gather(*(read(run_id, *gateway) for run_id in run_ids for gateway in fleet.urls.items()))
    return shown


async def _executions(
    fleet: Fleet, http: httpx.AsyncClient, run_ids: Sequence[str]
) -> dict[str, list[ExecutionResponse]]:
    """Each execution with its events, page by page, from every gateway."""
    found: dict[str, list[ExecutionResponse]] = {run_id: [] for run_id in run_ids}
    limiter = asyncio.Semaphore(AT_A_TIME)

    async def read(run_id: str, gateway: str, url: str) -> None:
        query, events = {"limit": str(EVENTS_PER_PAGE)}, []
        async with limiter:
            body = (await http.get(f"{url}/executions/{run_id}")).json()
            while True:
                page = (await http.get(f"{url}/executions/{run_id}/events", params=query)).json()
                events += page.get("items", [])
                if page.get("nextCursor") is None:
                    break
                query["cursor"] = page["nextCursor"]
        found[run_id].append(ExecutionResponse(gateway=gateway, body=body, events=events))

    await asyncio.gather(*(read(run_id, *gateway) for run_id in run_ids for gateway in fleet.urls.items()))
    return found


async def _printed(fleet: Fleet, http: httpx.AsyncClient, run_ids: Sequence[str]) -> dict[str, list[Printed]]:
    """The log lines of each run, page by page, from alternating gateways."""
    printed: dict[str, list[Printed]] = {}
    limiter = asyncio.Semaphore(AT_A_TIME)
    urls = cycle(fleet.urls.values())

    async def read(run_id: str, url: str) -> None:
        lines, query = [], {"limit": str(LINES_PER_PAGE)}
        while True:
            async with limiter:
                page = (await http.get(f"{url}/runs/{run_id}/logs", params=query)).json()
            lines += [Printed(attempt=it["attempt"], stream=it["stream"], text=it["message"]) for it in page["items"]]
            if not page["items"]:
                break
            query["since_token"] = page["next_token"]
        printed[run_id] = lines

    await asyncio.gather(*(read(run_id, next(urls)) for run_id in run_ids))
    return printed


async def _labels(fleet: Fleet, http: httpx.AsyncClient, labels: Iterable[str]) -> list[Labelled]:
    found = []
    for (gateway, url), label in product(fleet.urls.items(), labels):
        job_ids, query = [], {"tag": label}
        while True:
            page = (await http.get(f"{url}/jobs", params=query)).json()
            job_ids += [job["id"] for job in page["jobs"]]
            if "nextToken" not in page:
                break
            query["nextToken"] = page["nextToken"]
        counted = (await http.get(f"{url}/tags", params={"prefix": label})).json()["tags"]
        total = next((one["count"] for one in counted if one["tag"] == label), 0)
        found.append(Labelled(gateway=gateway, label=label, job_ids=job_ids, count=total))
    return found


async def _excerpts(fleet: Fleet, http: httpx.AsyncClient, excerpts: Sequence[Excerpt]) -> list[ExcerptAgain]:
    found = []
    for (gateway, url), excerpt in product(fleet.urls.items(), excerpts):
        path = f"{url}/jobs/{excerpt.job_id}/logs"
        page = (await http.get(path, params={"sinceToken": excerpt.token, "limit": "1"})).json()
        part = await http.get(path, headers={"Accept": "text/plain", "Range": RANGE})
        following = page["entries"][0]["n"] if page["entries"] else None
        found.append(ExcerptAgain(gateway=gateway, excerpt=excerpt, part=part.text, following=following))
    return found


async def _rechecks(fleet: Fleet, http: httpx.AsyncClient, run_ids: Sequence[RunId]) -> dict[str, dict[str, Plain]]:
    found: dict[str, dict[str, Plain]] = {run_id: {} for run_id in run_ids}
    for run_id, (gateway, url) in product(run_ids, fleet.urls.items()):
        found[run_id][gateway] = (await http.get(f"{url}/pdca/recheck/{ulid_of(run_id)}")).json()
    return found


async def _strategies(fleet: Fleet, http: httpx.AsyncClient) -> list[ShownStrategy]:
    found = []
    for gateway, url in fleet.urls.items():
        listed: list[Plain] = []
        for number in count(1):
            query = {"page": number, "page_size": STRATEGIES_PER_PAGE}
            page = (await http.get(f"{url}/gui/strategies", params=query)).json()
            listed += page["items"]
            if len(listed) >= page["total"]:
                break
        for one in listed:
            results = (await http.get(f"{url}/gui/strategies/{one['id']}/results")).json()["items"]
            found.append(ShownStrategy(gateway=gateway, strategy=one["id"], listed=one, results=results))
    return found


async def _audit(http: httpx.AsyncClient, url: str) -> list[Plain]:
    records: list[Plain] = []
    query = {"limit": str(RECORDS_PER_PAGE)}
    while True:
        page = (await http.get(f"{url}/audit", params=query)).json()
        records += page["items"]
        if page["next_cursor"] is None:
            return records
        query["cursor"] = page["next_cursor"]


async def wait_until_synced(fleet: Fleet, newest: Newest, within_sec: float) -> bool:
    """Waits until every worker that syncs wheels has the newest; False on timeout."""
    async with httpx.AsyncClient() as http:

        async def have_newest() -> bool:
            try:
                registered = next(iter((await _registry(fleet, http)).values()))
                return all(one.wheels == newest(registered, one.tags) for one in await _synced(fleet, http))
            except httpx.TransportError:
                return False

        return await poll_until(have_newest, within_sec=within_sec, every_sec=POLL_SEC)


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
    """Lists with every combination of filters: one list is limited to 200 runs, together they cover all."""
    found = []
    for (gateway, url), flow, tag, status in product(
        fleet.urls.items(),
        (*FLOWS, WHEEL_FLOW, REQUEST_FLOW, BATCH_FLOW, None),
        (*TAGS, WHEELS_TAG, None),
        (*RUN_STATUSES, None),
    ):
        filters = {"flow": flow, "tag": tag, "status": status, "limit": str(LIST_LIMIT)}
        response = await http.get(f"{url}/runs", params={key: value for key, value in filters.items() if value})
        found.append(Listed(gateway=gateway, flow=flow, tag=tag, status=status, items=response.json()))
    return found

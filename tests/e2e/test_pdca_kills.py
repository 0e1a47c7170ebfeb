"""Gateways and imports that are killed with -9 in the middle: nothing of the PDCA API is lost or done twice."""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.domain.pdca.ids import ulid_of
from support.programs import ROOT, Program, address_of, connected, run_of, until, up, worker

SETTINGS = {
    "PYOCO_RATE_LIMIT_READ_PER_MIN": "0",
    "PYOCO_RATE_LIMIT_WRITE_PER_MIN": "0",
    "PYOCO_PDCA_DATA_DIR": str(ROOT / "examples" / "pdca"),
}
STRATEGY = "strat.trend.h1"
RECHECK = {"strategies": [STRATEGY], "window": {"lookback_days": 7}, "reason": "manual"}
IMPORTED = 8_000
# Names the place on stderr, and never gets further.
HANGS = """
import asyncio, sys
from pyoco_server.cli import server

async def hang(place):
    print("hangs", place, file=sys.stderr, flush=True)
    await asyncio.Event().wait()
"""
# Neither the route nor the driver of this gateway gets behind the creation of an execution.
STARTS_NOTHING = f"""{HANGS}
from pyoco_server.services.executions.service import ExecutionService
ExecutionService.start = lambda *_, **__: hang("start")
server.main()
"""
# This one hangs before the change of one strategy and after that of another, and once it has stored a batch of records.
RECORDS_HALF = f"""{HANGS}
from pyoco_server.services.audit.trail import AuditTrail
from pyoco_server.services.pdca import strategies
from pyoco_server.stores.audit import AuditLog
register, append = strategies.register, AuditLog.append

async def register_or_hang(store, tenant_id, strategy):
    return await (hang("before") if strategy.id == "before" else register(store, tenant_id, strategy))

async def append_and_hang(self, batch, *, behind):
    await append(self, batch, behind=behind)
    await hang("recorded")

strategies.register, AuditLog.append = register_or_hang, append_and_hang
AuditTrail._settle = lambda *_: hang("after")
server.main()
"""


def gateway(folder: Path, nats_url: str) -> Program:
    """A gateway with an index of its own, empty one."""
    folder.mkdir()
    return up(folder, "--nats-url", nats_url, env=SETTINGS)


def registered(client: httpx.Client, strategy: str = STRATEGY) -> None:
    answer = client.put(f"/pdca/strategies/{strategy}", json={"title": "T", "instrument": "X"})
    assert answer.status_code in (200, 201), answer.text


def audit(client: httpx.Client, **query: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = client.get("/audit", params={"limit": "500", **query}).json()["items"]
    return items


def broken_gateway(code: str, folder: Path, nats_url: str) -> Program:
    folder.mkdir()
    arguments = ("up", "--port", "0", "--data-dir", "data", "--nats-url", nats_url)
    return Program("-c", code, *arguments, cwd=folder, env=SETTINGS)


async def put(client: httpx.AsyncClient, strategy: str) -> httpx.Response:
    body, headers = {"title": "T", "instrument": "X"}, {"Idempotency-Key": f"key-of-{strategy}"}
    return await client.put(f"/pdca/strategies/{strategy}", json=body, headers=headers)


async def test_a_gateway_killed_while_it_records_leaves_one_record_of_each_change(
    tmp_path: Path, nats_url: str
) -> None:
    with broken_gateway(RECORDS_HALF, tmp_path / "first", nats_url) as first:
        async with httpx.AsyncClient(base_url=address_of(first), timeout=30.0) as client:
            run = (await client.post("/runs", json={"flow_name": "hello"})).json()["run_id"]
            asking = [asyncio.create_task(put(client, strategy)) for strategy in ("before", "after")]
            for place in ("before", "after", "recorded"):
                await asyncio.to_thread(first.err.wait_for, f"hangs {place}")
            first.signal(signal.SIGKILL)
            outcomes = await asyncio.gather(*asking, return_exceptions=True)
        first.exit_code()

    with gateway(tmp_path / "second", nats_url) as second, connected(second) as reading:
        left = audit(reading)
        async with httpx.AsyncClient(base_url=address_of(second), timeout=30.0) as client:
            again = [await put(client, strategy) for strategy in ("before", "after")]
        records = audit(reading)

    assert [isinstance(outcome, httpx.TransportError) for outcome in outcomes] == [True, True]
    assert [answer.status_code for answer in again] == [201, 200]
    assert {record["resource"]["id"]: record["outcome"] for record in left} == {
        run: "made",
        "before": "attempted",
        "after": "attempted",
    }
    assert sorted((record["resource"]["id"], record["outcome"]) for record in records) == sorted(
        (resource, "made") for resource in (run, "before", "after")
    )


@pytest.mark.parametrize("is_sent_again", [True, False], ids=["sent again", "never sent again"])
async def test_a_request_whose_gateway_is_killed_before_its_start_is_carried_out_once(
    tmp_path: Path, nats_url: str, is_sent_again: bool
) -> None:
    headers = {"Idempotency-Key": "recheck-1"}
    with broken_gateway(STARTS_NOTHING, tmp_path / "first", nats_url) as first, connected(first) as client:
        registered(client)
        async with httpx.AsyncClient(base_url=address_of(first), timeout=30.0) as asking:
            unanswered = asyncio.create_task(asking.post("/pdca/recheck", json=RECHECK, headers=headers))
            created = await asyncio.to_thread(
                until, lambda: client.get("/runs", params={"flow": "pdca.request"}).json(), lambda runs: len(runs) == 1
            )
            first.signal(signal.SIGKILL)
            with pytest.raises(httpx.TransportError):
                await unanswered
        first.exit_code()
    run_id = created[0]["run_id"]

    resolver = f"{ROOT / 'examples' / 'flows.py'}:resolve"
    with (
        gateway(tmp_path / "second", nats_url) as second,
        connected(second) as client,
        worker("--nats-url", nats_url, "--flow-resolver", resolver, cwd=tmp_path, env=SETTINGS),
    ):
        if is_sent_again:
            again = client.post("/pdca/recheck", json=RECHECK, headers=headers)
            assert (again.status_code, again.json()["request_id"]) == (202, ulid_of(run_id)), again.text
        until(partial(run_of, client, run_id), lambda run: run.get("status") not in ("PENDING", "RUNNING", None))
        shown = client.get(f"/pdca/recheck/{ulid_of(run_id)}").json()
        runs = client.get("/runs", params={"flow": "pdca.recheck"}).json()
        records = audit(client, resource=run_id)

    assert (shown["status"], shown["summary"]["success"], shown["progress"]["completed_batches"]) == ("success", 1, 1)
    assert [(created[0]["status"], run["status"]) for run in runs] == [("PENDING", "COMPLETED")]
    assert [record["action"] for record in records] == ["run.create"]


def imports(folder: Path, nats_url: str) -> Program:
    words = ("strategies", "import", str(folder / "strategies.csv"), "--nats-url", nats_url)
    return Program("-m", "pyoco_server.cli.admin", *words, cwd=folder)


def test_an_import_that_is_killed_in_the_middle_can_be_repeated(tmp_path: Path, nats_url: str) -> None:
    rows = [f"s.{number},Title {number},USDJPY" for number in range(IMPORTED)]
    (tmp_path / "strategies.csv").write_text("\n".join(["id,title,instrument", *rows, ""]), encoding="utf-8")
    with gateway(tmp_path / "gateway", nats_url) as program, connected(program) as client:

        def total() -> int:
            shown: int = client.get("/gui/strategies").json().get("total", 0)
            return shown

        with imports(tmp_path, nats_url) as killed:
            until(total, lambda stored: stored > 0)
            killed.signal(signal.SIGKILL)
            killed.exit_code()
        with imports(tmp_path, nats_url) as repeated:
            assert repeated.exit_code() == 0, repeated.output()
            summary = repeated.err.wait_for(r"(\d+) strategies created, (\d+) changed, (\d+) as before; 0 rows")
        until(total, lambda stored: stored == IMPORTED)
        records = audit(client, action="strategy.import")

    created, changed, same = map(int, summary.groups())
    assert created + same == IMPORTED
    assert changed == 0
    assert created > 0
    assert same > 0
    assert [(record["outcome"], record["actor"]["kind"]) for record in records] == [
        ("made", "operator"),
        ("attempted", "operator"),
    ]
    assert {record["detail"]["strategies"] for record in records} == {IMPORTED}

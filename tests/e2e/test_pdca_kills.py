"""Gateways and imports that are killed with -9 in the middle: nothing of the PDCA API is lost or done twice."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.domain.pdca.ids import run_id_of, ulid_of
from support.programs import ROOT, Program, address_of, connected, run_of, until, up, worker

SETTINGS = {
    "PYOCO_RATE_LIMIT_READ_PER_MIN": "0",
    "PYOCO_RATE_LIMIT_WRITE_PER_MIN": "0",
    "PYOCO_PDCA_DATA_DIR": str(ROOT / "examples" / "pdca"),
}
STRATEGY = "strat.trend.h1"
RECHECK = {"strategies": [STRATEGY], "window": {"lookback_days": 7}, "reason": "manual"}
REQUESTS = 40
# Answers after which each gateway is killed, while others are on their way; the last one may live.
KILLED_AFTER = (5, 7, 9)
AT_A_TIME = httpx.Limits(max_connections=4)
IMPORTED = 8_000
# Neither the route nor the driver of this gateway gets behind the creation of an execution.
STARTS_NOTHING = """
import asyncio
from pyoco_server.cli import server
from pyoco_server.services.executions.service import ExecutionService

async def hang(*_, **__):
    await asyncio.Event().wait()

ExecutionService.start = hang
server.main()
"""

Answers = dict[int, httpx.Response]


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


async def ask(url: str, answers: Answers, stop_after: int, stop: Callable[[], None]) -> None:
    """Sends all requests that have no answer yet, and others that record; `stop` ends the gateway in the middle."""
    received = 0

    async def one(client: httpx.AsyncClient, number: int) -> None:
        nonlocal received
        headers = {"Idempotency-Key": f"request-{number}"}
        if number % 2:
            answer = await client.post("/pdca/recheck", json=RECHECK, headers=headers)
        else:
            strategy = {"title": f"title {number}", "instrument": "X"}
            answer = await client.put(f"/pdca/strategies/s{number}", json=strategy, headers=headers)
        answers[number] = answer
        received += 1
        if received == stop_after:
            stop()
        await client.get("/audit", params={"limit": "1"})

    async with httpx.AsyncClient(base_url=url, timeout=30.0, limits=AT_A_TIME) as client:
        missing = [number for number in range(REQUESTS) if number not in answers]
        outcomes = await asyncio.gather(*(one(client, number) for number in missing), return_exceptions=True)
    unexpected = [one for one in outcomes if one is not None and not isinstance(one, httpx.TransportError)]
    assert unexpected == []


async def test_the_audit_trail_has_each_change_once_although_gateways_are_killed_while_they_record(
    tmp_path: Path, nats_url: str
) -> None:
    answers: Answers = {}
    for place, killed_after in enumerate(KILLED_AFTER):
        with gateway(tmp_path / str(place), nats_url) as program, connected(program) as client:
            registered(client)
            await ask(address_of(program), answers, killed_after, partial(program.signal, signal.SIGKILL))
            program.exit_code()
    assert len(answers) < REQUESTS
    with gateway(tmp_path / "last", nats_url) as program, connected(program) as client:
        await ask(address_of(program), answers, 0, lambda: None)
        records = audit(client)
        again = audit(client)

    runs = {run_id_of(answers[number].json()["request_id"]) for number in range(1, REQUESTS, 2)}
    strategies = {f"s{number}" for number in range(0, REQUESTS, 2)} | {STRATEGY}
    actions = Counter((record["resource"]["id"], record["action"]) for record in records)
    assert {answer.is_success for answer in answers.values()} == {True}
    assert actions == Counter(
        [*((run, "run.create") for run in runs), *((strategy, "strategy.put") for strategy in strategies)]
    )
    assert {record["outcome"] for record in records} == {"made"}
    assert again == records


@pytest.mark.parametrize("is_sent_again", [True, False], ids=["sent again", "never sent again"])
async def test_a_request_whose_gateway_is_killed_before_its_start_is_carried_out_once(
    tmp_path: Path, nats_url: str, is_sent_again: bool
) -> None:
    headers = {"Idempotency-Key": "recheck-1"}
    first_folder = tmp_path / "first"
    first_folder.mkdir()
    arguments = ("up", "--port", "0", "--data-dir", "data", "--nats-url", nats_url)
    with Program("-c", STARTS_NOTHING, *arguments, cwd=first_folder, env=SETTINGS) as first, connected(first) as client:
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

"""Load clients that submit, cancel, read and list runs and record every response.

While processes are killed, a 503 and a refused or cut connection are valid. Violations are a 5xx other than 503, no
response within ten seconds, a body outside the contract, and a 404 for an accepted run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from chaos.journal import Accepted, Journal, Seen
from chaos.keyed_client import GatewayClient
from chaos.plan import TAGS, WHEELS_TAG, Plan
from pyoco_server.domain.execution.snapshot import RUN_STATUSES

CLIENTS = 6
# Relative frequencies. Long flows are rare, or they would occupy all workers.
FLOWS = {
    "instant": 40,
    "ten": 20,
    "cooperative": 14,
    "stubborn": 5,
    "failing": 8,
    "crashing": 4,
    "program": 4,
    "code": 10,
}
WHEEL_FLOW, WHEEL_FLOWS = "wheel", 20
SECONDS = {
    "cooperative": (1.0, 3.0),
    "stubborn": (1.5, 6.0),
    "program": (0.3, 1.0),
    "code": (0.05, 1.0),
    WHEEL_FLOW: (0.2, 3.0),
}
# Share of the long flows that get a time limit.
LIMITED = 0.2
LIMIT_SEC = (0.3, 2.0)
RECENT = 40


class NotOk(Exception):
    """A response other than 200, already recorded."""


class Client:
    """A load client that sends one request at a time."""

    def __init__(self, number: int, plan: Plan, urls: Mapping[str, str], journal: Journal) -> None:
        self._client = GatewayClient(f"client-{number}", plan.seed, urls, journal)
        self._journal = journal
        self._rng = self._client.rng
        # Half of a client's requests are submits.
        self._pause_sec = CLIENTS / plan.runs_per_sec / 2
        self._flows = FLOWS | ({WHEEL_FLOW: WHEEL_FLOWS} if plan.syncs_wheels else {})

    async def run(self, until: float) -> None:
        """Sends requests until then (loop time)."""
        clock = asyncio.get_running_loop().time
        while clock() < until:
            await asyncio.sleep(min(self._rng.expovariate(1 / self._pause_sec), 1.0))
            try:
                await self._rng.choices((self._submit, self._cancel, self._read, self._list), (50, 15, 30, 5))[0]()
            except NotOk:
                continue
        await self._client.close()

    async def _submit(self) -> None:
        flow = self._rng.choices(list(self._flows), list(self._flows.values()))[0]
        tag = WHEELS_TAG if flow == WHEEL_FLOW else self._rng.choice(TAGS)
        params = {"seconds": round(self._rng.uniform(*SECONDS[flow]), 2)} if flow in SECONDS else {}
        request: dict[str, Any] = {"flow_name": flow, "params": params, "tag": tag}
        if params and self._rng.random() < LIMITED:
            request["timeout_sec"] = round(self._rng.uniform(*LIMIT_SEC), 2)
        gateway = self._client.any_gateway()
        asked_at = time.time()
        body = await self._request("POST", gateway, "/runs", request)
        if not isinstance(body, dict) or not isinstance(body.get("run_id"), str) or body.get("status") != "PENDING":
            return self._malformed("POST /runs", body)
        run_id = body["run_id"]
        self._journal.note_accepted(
            Accepted(run_id=run_id, flow=flow, tag=tag, gateway=gateway, asked_at=asked_at, answered_at=time.time())
        )
        if self._rng.random() < 0.08:  # immediately, sometimes twice concurrently
            cancels = [self._cancel_run(run_id) for _ in range(self._rng.choice((1, 2)))]
            await asyncio.gather(*cancels, return_exceptions=True)

    async def _cancel(self) -> None:
        run_id = self._random_run()
        if run_id is not None:
            await self._cancel_run(run_id)
            if self._rng.random() < 0.2:
                await self._cancel_run(run_id)

    async def _cancel_run(self, run_id: str) -> None:
        asked_at = time.time()
        body = await self._request("POST", self._client.any_gateway(), f"/runs/{run_id}/cancel", {"reason": "chaos"})
        self._record("POST cancel", run_id, body, asked_at, to_cancel=True)

    async def _read(self) -> None:
        run_id = self._random_run()
        if run_id is not None:
            asked_at = time.time()
            body = await self._request("GET", self._client.any_gateway(), f"/runs/{run_id}")
            self._record("GET run", run_id, body, asked_at)

    async def _list(self) -> None:
        status = self._rng.choice((*RUN_STATUSES, None))
        query = f"?status={status}&limit=20" if status else "?limit=20"
        body = await self._request("GET", self._client.any_gateway(), f"/runs{query}")
        if not isinstance(body, list):
            return self._malformed("GET /runs", body)
        for item in body:
            if (
                not isinstance(item, dict)
                or item.get("status") not in RUN_STATUSES
                or status not in (None, item["status"])
            ):
                self._malformed(f"GET /runs{query}", item)

    def _record(self, what: str, run_id: str, body: Any, asked_at: float, *, to_cancel: bool = False) -> None:
        known = isinstance(body, dict) and body.get("run_id") == run_id and body.get("status") in RUN_STATUSES
        if not known or not isinstance(body["version"], int) or not isinstance(body.get("tasks"), dict):
            return self._malformed(what, body)
        self._journal.note_seen(
            Seen(
                run_id=run_id,
                asked_at=asked_at,
                answered_at=time.time(),
                status=body["status"],
                version=body["version"],
                to_cancel=to_cancel,
            )
        )

    def _random_run(self) -> str | None:
        runs = list(self._journal.accepted)
        if not runs:
            return None
        return self._rng.choice(runs[-RECENT:] if self._rng.random() < 0.85 else runs)

    async def _request(self, method: str, gateway: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The JSON of a 200; any other response is recorded and raised."""
        response = await self._client.request(method, path, gateway=gateway, json=body)
        if response is None:
            raise NotOk
        try:
            answer = response.json()
        except ValueError as error:
            self._malformed(f"{method} {path} {response.status_code}", response.text)
            raise NotOk from error
        if response.status_code != 200:
            self._check_error(f"{method} {path}", gateway, response.status_code, answer)
            raise NotOk
        return answer

    def _check_error(self, what: str, gateway: str, status: int, answer: Any) -> None:
        if not isinstance(answer, dict) or not str(answer.get("err_id", "")).startswith("ERR-PYOCO-"):
            self._malformed(f"{what} {status}", answer)
        elif status == 404:
            run_id = what.split("/")[2]
            self._journal.note_fault("accepted runs that were lost", run_id, f"{what} at {gateway}: 404 {answer}")
        elif status != 503:
            self._journal.note_fault("error responses", gateway, f"{what}: {status} {answer}")

    def _malformed(self, what: str, body: Any) -> None:
        self._journal.note_fault("error responses", what, f"violates the contract: {str(body)[:300]}")

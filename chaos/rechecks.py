"""The load on the PDCA API: clients that register strategies, request rechecks, cancel some, and read how far they are.

Only its own client changes a strategy and names it, so that the client knows its changes.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from chaos.evidence import Plain
from chaos.journal import AskedRecheck, Journal, Seen
from chaos.keyed_client import KeyedClient
from chaos.plan import Plan
from pyoco_server.domain.pdca.ids import run_id_of

CLIENTS = 3
STRATEGIES = 24
BATCH_SIZE = 10
NAMED = (1, 5)
RECENT = 8
# Relative frequencies.
ACTIONS = {"recheck": 40, "recheck_all": 12, "dry_run": 6, "put": 10, "cancel": 16, "read": 16}
REQUESTS = sum(ACTIONS[name] for name in ("recheck", "recheck_all", "dry_run"))
# Shares of the requests whose second batch fails, and of those that are canceled at once.
FAILING, CANCELED_AT_ONCE = 0.15, 0.08
# Shares of the requests that are sent twice concurrently, and again after their response.
DUPLICATED, REPEATED = 0.15, 0.15
ROOT = "/pdca"


class RecheckClient:
    """Works on its own strategies and requests, one call at a time."""

    def __init__(self, client: KeyedClient, plan: Plan, journal: Journal) -> None:
        self._client = client
        self._rng = client.rng
        self._journal = journal
        self._pause_sec = CLIENTS / plan.rechecks_per_sec * REQUESTS / sum(ACTIONS.values())
        self._ids = [f"{client.name}.strategy-{number:02}" for number in range(STRATEGIES)]
        self._requests: list[str] = []

    async def run(self, until: float) -> None:
        """Registers its strategies, then sends requests until then (loop time)."""
        clock = asyncio.get_running_loop().time
        for strategy_id in self._ids:
            await self._put(strategy_id)
        while clock() < until:
            await asyncio.sleep(min(self._rng.expovariate(1 / self._pause_sec), 2 * self._pause_sec))
            action = self._rng.choices(list(ACTIONS), list(ACTIONS.values()))[0]
            if action == "put":
                await self._put(self._rng.choice(self._ids))
            elif action in ("cancel", "read") and self._requests:
                request_id = self._rng.choice(self._requests[-RECENT:])
                await (self._cancel if action == "cancel" else self._read)(request_id)
            else:
                await self._ask(action)
        await self._client.close()

    async def _put(self, strategy_id: str) -> None:
        """Every put changes the title, so that it is a change."""
        number = self._journal.puts[strategy_id] + 1
        body = {"title": f"title {number}", "instrument": "USDJPY", "tags": [self._client.name]}
        if await self._client.change("PUT", f"{ROOT}/strategies/{strategy_id}", body) is not None:
            self._journal.puts[strategy_id] = number

    async def _ask(self, action: str) -> None:
        reason = "failing" if self._rng.random() < FAILING else "chaos"
        body: dict[str, Any] = {"window": {"lookback_days": 7}, "reason": reason, "dry_run": action == "dry_run"}
        path = f"{ROOT}/recheck_all"
        if action == "recheck":
            path, body["strategies"] = f"{ROOT}/recheck", self._rng.sample(self._ids, self._rng.randint(*NAMED))
        else:
            body |= {"filter": {"tags_any": [self._client.name]}, "batch_size": BATCH_SIZE}
        key = self._client.new_key()
        copies = 2 if self._rng.random() < DUPLICATED else 1
        await asyncio.gather(*(self._send(path, body, key) for _ in range(copies)))
        if self._rng.random() < REPEATED:
            await self._send(path, body, key)
        accepted = [one for one in self._journal.rechecks if one.key == key and not one.dry_run]
        self._requests += [one.request_id for one in accepted[:1]]
        if accepted and self._rng.random() < CANCELED_AT_ONCE:
            await self._cancel(accepted[0].request_id)

    async def _send(self, path: str, body: Plain, key: str) -> None:
        response = await self._client.change("POST", path, body, key=key)
        if response is not None:
            accepted = response.json()
            self._journal.rechecks.append(
                AskedRecheck(
                    key=key,
                    request_id=accepted["request_id"],
                    strategies=accepted["estimated"]["strategies"],
                    batches=accepted["estimated"]["batches"],
                    dry_run=body["dry_run"],
                )
            )

    async def _cancel(self, request_id: str) -> None:
        run_id, asked_at = run_id_of(request_id), time.time()
        response = await self._client.change("POST", f"/runs/{run_id}/cancel", {"reason": "chaos"})
        if response is not None:
            body = response.json()
            self._journal.note_seen(
                Seen(
                    run_id=run_id,
                    asked_at=asked_at,
                    answered_at=time.time(),
                    status=body["status"],
                    version=body["version"],
                    to_cancel=True,
                )
            )

    async def _read(self, request_id: str) -> None:
        body = await self._client.get(f"{ROOT}/recheck/{request_id}")
        if body is not None:
            self._journal.progress.append(body)

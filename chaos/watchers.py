"""Stream readers that follow runs to their end through the SDK and record the versions they receive.

Giving up because no gateway responded is valid. Violations are a repeated version, a missing end, and a hung stream.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from contextlib import aclosing

from chaos.journal import Journal, Watched
from chaos.plan import Plan
from pyoco_server.http_client import AsyncPyocoHttpClient
from pyoco_server.http_client.errors import GatewayUnreachable, Unavailable

WATCHERS = 6
RECENT = 20


class Reader:
    """Follows one run at a time."""

    def __init__(self, number: int, plan: Plan, urls: Mapping[str, str], journal: Journal) -> None:
        self._urls = urls
        self._journal = journal
        self._timeout_sec = plan.settle_sec
        self._rng = random.Random(f"reader {number} {plan.seed}")

    async def run(self, until: float) -> None:
        """Starts to follow runs until then (loop time), and follows the last to its end."""
        clock = asyncio.get_running_loop().time
        while clock() < until:
            runs = list(self._journal.accepted)[-RECENT:]
            if not runs:
                await asyncio.sleep(0.05)
                continue
            await self._follow(self._rng.choice(runs), self._rng.choice(list(self._urls)))

    async def _follow(self, run_id: str, gateway: str) -> None:
        versions: list[int] = []
        status, how = "", "ended"
        try:
            async with (
                asyncio.timeout(self._timeout_sec),
                AsyncPyocoHttpClient(self._urls[gateway], timeout=10.0, retry_within_sec=60.0) as client,
                aclosing(client.watch(run_id)) as events,
            ):
                async for event in events:
                    snapshot = event.get("snapshot")
                    if event["event"] == "snapshot" and snapshot is not None:
                        versions.append(int(event["id"]))
                        status = snapshot["status"]
        except TimeoutError:
            how = "hung"
        except (GatewayUnreachable, Unavailable):
            how = "gave up"
        self._journal.watched.append(
            Watched(run_id=run_id, gateway=gateway, versions=tuple(versions), status=status, how=how)
        )

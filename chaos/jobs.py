"""The load on jobs: clients that submit, follow, label and delete them, and keep excerpts of their logs.

Only its own client labels a job, so that the client knows its labels. Followers use the SDK or a WebSocket.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from urllib.parse import quote, urlencode

import orjson
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from chaos.journal import Accepted, Excerpt, Followed, Journal
from chaos.keyed_client import KeyedClient
from chaos.plan import TAGS, Plan
from pyoco_server.http_client import AsyncPyocoHttpClient
from pyoco_server.http_client.errors import GatewayUnreachable, Unavailable

CLIENTS = 3
# Relative frequencies.
FLOWS = {"cooperative": 4, "ten": 3, "flood": 2}
PARAMETERS = {"cooperative": {"seconds": 2.0}, "ten": {}, "flood": {"count": 3000}}
LABELS = ("urgent", "seen/by ann", "日本語", "a&b=c")
FOLLOWED = 0.6
RECENT = 8
PAUSE_SEC = 0.05
EXCERPT_LINES = 5
RANGE, RANGE_BYTES = "bytes=3-17", 15

Line = tuple[int, int, str]


class JobClient:
    """Works on its own jobs, one request at a time."""

    def __init__(self, client: KeyedClient, plan: Plan, journal: Journal) -> None:
        self._client = client
        self._rng = client.rng
        self._journal = journal
        # A third of a client's requests are submits.
        self._pause_sec = CLIENTS / plan.jobs_per_sec / 3
        self._timeout_sec = plan.settle_sec
        self._jobs: list[str] = []

    async def run(self, until: float) -> None:
        """Sends requests until then (loop time), and follows the last jobs to their end."""
        clock = asyncio.get_running_loop().time
        async with asyncio.TaskGroup() as following:
            while clock() < until:
                await asyncio.sleep(min(self._rng.expovariate(1 / self._pause_sec), 2 * self._pause_sec))
                action = self._rng.choices(("submit", "label", "delete", "excerpt"), (30, 40, 10, 20))[0]
                if action == "submit" or not self._jobs:
                    await self._submit(following)
                    continue
                job_id = self._rng.choice(self._jobs[-RECENT:])
                await {"label": self._label, "delete": self._delete, "excerpt": self._take_excerpt}[action](job_id)
        await self._client.close()

    async def _submit(self, following: asyncio.TaskGroup) -> None:
        flow, tag = self._rng.choices(list(FLOWS), list(FLOWS.values()))[0], self._rng.choice(TAGS)
        labels = [self._client.name]
        asked_at = time.time()
        body = {"flow": flow, "parameters": PARAMETERS[flow], "tag": tag, "tags": labels}
        response = await self._client.change("POST", "/jobs", body)
        if response is None:
            return
        job_id = response.json()["id"]
        self._journal.note_accepted(
            Accepted(run_id=job_id, flow=flow, tag=tag, gateway="any", asked_at=asked_at, answered_at=time.time())
        )
        self._journal.labels[job_id] = labels
        self._jobs.append(job_id)
        if self._rng.random() < FOLLOWED:
            following.create_task(self._follow(job_id, self._rng.choice(("sdk", "websocket"))))

    async def _label(self, job_id: str) -> None:
        labels, label = self._journal.labels[job_id], f"{self._client.name} {self._rng.choice(LABELS)}"
        if self._rng.random() < 0.6:
            await self._client.change("POST", f"/jobs/{job_id}/tags", {"tag": label})
            labels += [label] if label not in labels else []
        else:
            await self._client.change("DELETE", f"/jobs/{job_id}/tags/{quote(label, safe='')}")
            labels[:] = [one for one in labels if one != label]

    async def _delete(self, job_id: str) -> None:
        if await self._client.change("DELETE", f"/jobs/{job_id}") is not None:
            self._journal.deleted.add(job_id)

    async def _take_excerpt(self, job_id: str) -> None:
        page = await self._client.get(f"/jobs/{job_id}/logs", {"limit": str(EXCERPT_LINES)})
        headers = {"Accept": "text/plain", "Range": RANGE}
        part = await self._client.request("GET", f"/jobs/{job_id}/logs", headers=headers)
        if page and len(page["entries"]) == EXCERPT_LINES and part is not None and len(part.content) == RANGE_BYTES:
            self._journal.excerpts.append(
                Excerpt(job_id=job_id, first_lines=EXCERPT_LINES, token=page["nextToken"], part=part.text)
            )

    async def _follow(self, job_id: str, by: str) -> None:
        lines: list[Line] = []
        status, how = "", "ended"
        try:
            async with asyncio.timeout(self._timeout_sec):
                status = await (self._by_sdk if by == "sdk" else self._by_socket)(job_id, lines)
        except TimeoutError:
            how = "hung"
        except (GatewayUnreachable, Unavailable):
            how = "gave up"
        self._journal.followed.append(Followed(job_id=job_id, by=by, lines=tuple(lines), status=status, how=how))

    async def _by_sdk(self, job_id: str, lines: list[Line]) -> str:
        url = self._client.urls[self._client.any_gateway()]
        async with (
            AsyncPyocoHttpClient(url, timeout=10.0, retry_within_sec=60.0) as client,
            client.follow_job_logs(job_id) as stream,
        ):
            async for entry in stream:
                lines += [(entry["n"], entry["attempt"], entry["message"])]
        return str(stream.status)

    async def _by_socket(self, job_id: str, lines: list[Line]) -> str:
        """After a cut, it resumes at any gateway with the last token."""
        query: dict[str, str] = {}
        while True:
            address = self._client.urls[self._client.any_gateway()].replace("http", "ws", 1)
            with suppress(OSError, WebSocketException):
                async with connect(f"{address}/jobs/{job_id}/ws?{urlencode(query)}", proxy=None) as socket:
                    async for message in socket:
                        frame = orjson.loads(message)
                        if frame["type"] == "log":
                            lines += [(entry["n"], entry["attempt"], entry["message"]) for entry in frame["entries"]]
                            query = {"sinceToken": frame["nextToken"]}
                        elif frame["type"] == "end":
                            return str(frame["status"])
            await asyncio.sleep(PAUSE_SEC)

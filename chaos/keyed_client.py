"""Sends a command to `/executions` with an idempotency key until its response is final, at any gateway; records all
responses.

After a 503 or a refused or cut connection it is unknown whether the command was applied, so it is repeated with its
key. A 2xx and a 409 that names a guard are final. Some commands are sent twice concurrently, or again after a response.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from itertools import count
from typing import Any

import httpx

from chaos.evidence import Plain
from chaos.journal import CommandResponse, Journal

ANSWER_SEC = 10.0
PAUSE_SEC = (0.05, 0.3)
# Shares of the commands that are sent twice concurrently, and again after their response.
DUPLICATED, REPEATED = 0.08, 0.08
DONE, REFUSED, NOTHING, UNAVAILABLE = (200, 202), 409, 204, 503
# Longer than any fault lasts.
GIVE_UP_SEC = 120.0


class KeyedClient:
    """Sends one command after the other, each with its own key."""

    def __init__(self, name: str, seed: int, urls: Mapping[str, str], journal: Journal) -> None:
        self.name = name
        self.rng = random.Random(f"{name} {seed}")
        self._urls = urls
        self._journal = journal
        self._numbers = count(1)
        self._http = httpx.AsyncClient(timeout=None)

    async def close(self) -> None:
        await self._http.aclose()

    async def send(self, command: str, path: str, body: Plain, *, execution_id: str = "") -> CommandResponse | None:
        """The first final response; None for a claim without a node, or when no gateway responded for long."""
        key = f"{self.name}-{next(self._numbers)}"
        give_up_at = time.monotonic() + GIVE_UP_SEC
        while time.monotonic() < give_up_at:
            copies = 2 if self.rng.random() < DUPLICATED else 1
            received = await asyncio.gather(
                *(self._once(key, command, path, body, execution_id) for _ in range(copies))
            )
            final = next((answer for answer in received if answer is not None), None)
            if final is None:
                await asyncio.sleep(self.rng.uniform(*PAUSE_SEC))
                continue
            if final.status not in (*DONE, REFUSED):
                return None
            if self.rng.random() < REPEATED:
                await self._once(key, command, path, body, execution_id)
            return final
        return None

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        """The JSON of a 200, or None."""
        response = await self._request("GET", path, params=params)
        if response is None:
            return None
        if response.status_code == 200:
            return response.json()
        self._check_error(f"GET {path}", response)
        return None

    async def put(self, path: str, body: Plain) -> bool:
        """Whether it was stored."""
        response = await self._request("PUT", path, json=body)
        return response is not None and response.status_code in (200, 201)

    async def _once(self, key: str, command: str, path: str, body: Plain, execution_id: str) -> CommandResponse | None:
        asked_at = time.time()
        response = await self._request("POST", path, label=command, json=body, headers={"Idempotency-Key": key})
        if response is None:
            return None
        status = response.status_code
        if status == UNAVAILABLE:
            return None
        content = response.json() if status in (*DONE, REFUSED) else {}
        if status == REFUSED and content["error"]["code"] != "COMMAND_REJECTED":
            self._journal.note_fault("error responses", execution_id or key, f"POST {path} {key}: {content}")
        recorded = CommandResponse(
            key=key,
            command=command,
            execution_id=execution_id or content.get("executionId", ""),
            status=status,
            body=content,
            replayed=response.headers.get("Idempotency-Replayed") == "true",
        )
        if status == NOTHING:
            self._journal.empty_claims.append((key, asked_at))
        elif status in (*DONE, REFUSED):
            self._journal.responses.append(recorded)
        else:
            self._check_error(f"POST {path} {key}", response)
        return recorded

    async def _request(self, method: str, path: str, *, label: str = "", **more: Any) -> httpx.Response | None:
        gateway = self.rng.choice(list(self._urls))
        verb = label or f"{method} {'/'.join(part if len(part) < 20 else '{id}' for part in path.split('/'))}"
        try:
            async with asyncio.timeout(ANSWER_SEC):
                response = await self._http.request(method, self._urls[gateway] + path, **more)
        except TimeoutError:
            self._journal.note_fault("requests without a response", gateway, f"{method} {path}: {ANSWER_SEC} s")
            return None
        except httpx.TransportError:
            self._journal.answers[f"{verb} cut or refused"] += 1
            return None
        self._journal.answers[f"{verb} {response.status_code}"] += 1
        return response

    def _check_error(self, what: str, response: httpx.Response) -> None:
        if response.status_code == 404:
            self._journal.note_fault("accepted runs that were lost", what.split("/")[2], f"{what}: {response.text}")
        elif response.status_code != UNAVAILABLE:
            self._journal.note_fault("error responses", what, f"{response.status_code} {response.text[:300]}")

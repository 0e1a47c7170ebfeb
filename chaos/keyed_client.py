"""Clients of the gateways that record every response, and repeat a command with its key until the response is final.

After a 503 or a refused or cut connection it is unknown whether the command was applied, so it is repeated with its
key, at any gateway. A 2xx and a rejection by a guard are final. Some commands are sent twice concurrently, or again
after a response.
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
DONE, NOTHING, NOT_FOUND, CONFLICT, INVALID, UNAVAILABLE = (200, 202), 204, 404, 409, 422, 503
REJECTIONS = ("COMMAND_REJECTED", "NODE_NOT_FOUND", "NOT_A_CHOICE")
# Longer than any fault lasts.
GIVE_UP_SEC = 120.0


class GatewayClient:
    """Sends requests to any gateway. No response within ten seconds is a violation."""

    def __init__(self, name: str, seed: int, urls: Mapping[str, str], journal: Journal) -> None:
        self.name = name
        self.rng = random.Random(f"{name} {seed}")
        self.urls = urls
        self.journal = journal
        self._http = httpx.AsyncClient(timeout=None)

    async def close(self) -> None:
        await self._http.aclose()

    async def request(
        self, method: str, path: str, *, gateway: str | None = None, label: str = "", **more: Any
    ) -> httpx.Response | None:
        """The response, or None if the connection was refused or cut."""
        gateway = gateway or self.any_gateway()
        parts = path.partition("?")[0].split("/")
        verb = label or f"{method} {'/'.join(part if len(part) < 20 else '{id}' for part in parts)}"
        try:
            async with asyncio.timeout(ANSWER_SEC):
                response = await self._http.request(method, self.urls[gateway] + path, **more)
        except TimeoutError:
            self.journal.note_fault("requests without a response", gateway, f"{method} {path}: {ANSWER_SEC} s")
            return None
        except httpx.TransportError:
            self.journal.answers[f"{verb} cut or refused"] += 1
            return None
        self.journal.answers[f"{verb} {response.status_code}"] += 1
        return response

    def any_gateway(self) -> str:
        return self.rng.choice(list(self.urls))

    def check_error(self, what: str, response: httpx.Response) -> None:
        """Records a violation unless the response is a 503, or what the contract of the PDCA API has in its place."""
        if response.status_code == NOT_FOUND:
            self.journal.note_fault("accepted runs that were lost", what.split("/")[2], f"{what}: {response.text}")
        elif response.status_code != UNAVAILABLE and not _is_pdca_outage(response):
            self.journal.note_fault("error responses", what, f"{response.status_code} {response.text[:300]}")


class KeyedClient(GatewayClient):
    """Sends each command with a key of its own."""

    def __init__(self, name: str, seed: int, urls: Mapping[str, str], journal: Journal) -> None:
        super().__init__(name, seed, urls, journal)
        self._numbers = count(1)

    async def send(self, command: str, path: str, body: Plain, *, execution_id: str = "") -> CommandResponse | None:
        """The final response to a command to `/executions`.

        None for a claim without a node, or when no gateway responded for long.
        """
        key = self.new_key()
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
            if not final.is_final:
                return None
            if self.rng.random() < REPEATED:
                await self._once(key, command, path, body, execution_id)
            return final
        return None

    async def change(
        self, method: str, path: str, body: Plain | None = None, *, key: str = ""
    ) -> httpx.Response | None:
        """The response to a change that must succeed; None, and a recorded violation, if it does not."""
        headers, give_up_at = {"Idempotency-Key": key or self.new_key()}, time.monotonic() + GIVE_UP_SEC
        while time.monotonic() < give_up_at:
            response = await self.request(method, path, json=body, headers=headers)
            if response is not None and response.is_success:
                return response
            if response is not None:
                self.check_error(f"{method} {path}", response)
            await asyncio.sleep(self.rng.uniform(*PAUSE_SEC))
        self.journal.note_fault("requests without a response", path, f"{method} {path}: {GIVE_UP_SEC} s")
        return None

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        """The JSON of a 200, or None."""
        response = await self.request("GET", path, params=params)
        if response is None:
            return None
        if response.status_code == 200:
            return response.json()
        self.check_error(f"GET {path}", response)
        return None

    async def put(self, path: str, body: Plain) -> bool:
        """Whether it was stored."""
        response = await self.request("PUT", path, json=body)
        return response is not None and response.is_success

    def new_key(self) -> str:
        return f"{self.name}-{next(self._numbers)}"

    async def _once(self, key: str, command: str, path: str, body: Plain, execution_id: str) -> CommandResponse | None:
        asked_at = time.time()
        response = await self.request("POST", path, label=command, json=body, headers={"Idempotency-Key": key})
        if response is None or response.status_code == UNAVAILABLE:
            return None
        content = response.json() if response.status_code in (*DONE, NOT_FOUND, CONFLICT, INVALID) else {}
        recorded = CommandResponse(
            key=key,
            command=command,
            execution_id=execution_id or content.get("executionId", ""),
            status=response.status_code,
            body=content,
            is_final=response.status_code in DONE or content.get("error", {}).get("code") in REJECTIONS,
            replayed=response.headers.get("Idempotency-Replayed") == "true",
        )
        if recorded.is_final:
            self.journal.responses.append(recorded)
        elif response.status_code == NOTHING:
            self.journal.empty_claims.append((key, asked_at))
        else:
            self.check_error(f"POST {path} {key}", response)
        return recorded


def _is_pdca_outage(response: httpx.Response) -> bool:
    return response.status_code == 500 and '"temporarily unavailable' in response.text

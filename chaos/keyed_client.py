"""Sends a command of `/executions` with a key until the answer is certain, at any gateway, and writes down all answers.

A 503, a refused or a cut connection leaves open whether it was done: the same is sent again with the same key. Certain
are a 2xx and a 409 that names a guard. Now and then the same is sent twice at once, or again after it was answered.
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
from chaos.journal import Journal, Told

ANSWER_SEC = 10.0
PAUSE_SEC = (0.05, 0.3)
# Which part of the commands is sent to two at once, and which is sent again though it was answered.
TWINS, AGAIN = 0.08, 0.08
DONE, REFUSED, NOTHING, UNAVAILABLE = (200, 202), 409, 204, 503
# Longer than anything stays away.
PATIENCE_SEC = 120.0


class Sender:
    """One who sends one command after the other, each under a key of its own."""

    def __init__(self, name: str, seed: int, urls: Mapping[str, str], journal: Journal) -> None:
        self.name = name
        self.rng = random.Random(f"{name} {seed}")
        self._urls = urls
        self._journal = journal
        self._numbers = count(1)
        self._http = httpx.AsyncClient(timeout=None)

    async def close(self) -> None:
        await self._http.aclose()

    async def send(self, command: str, path: str, body: Plain, *, execution_id: str = "") -> Told | None:
        """The first certain answer; None when there was nothing to be had (a claim), or nobody to be asked for long."""
        key = f"{self.name}-{next(self._numbers)}"
        give_up_at = time.monotonic() + PATIENCE_SEC
        while time.monotonic() < give_up_at:
            at_once = 2 if self.rng.random() < TWINS else 1
            answers = await asyncio.gather(
                *(self._once(key, command, path, body, execution_id) for _ in range(at_once))
            )
            told = next((answer for answer in answers if answer is not None), None)
            if told is None:
                await asyncio.sleep(self.rng.uniform(*PAUSE_SEC))
                continue
            if told.status not in (*DONE, REFUSED):
                return None
            if self.rng.random() < AGAIN:
                await self._once(key, command, path, body, execution_id)
            return told
        return None

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        """The JSON of a 200, or None."""
        response = await self._request("GET", path, params=params)
        if response is None:
            return None
        if response.status_code == 200:
            return response.json()
        self._judge(f"GET {path}", response)
        return None

    async def put(self, path: str, body: Plain) -> bool:
        """Whether it was put."""
        response = await self._request("PUT", path, json=body)
        return response is not None and response.status_code in (200, 201)

    async def _once(self, key: str, command: str, path: str, body: Plain, execution_id: str) -> Told | None:
        asked_at = time.time()
        response = await self._request("POST", path, label=command, json=body, headers={"Idempotency-Key": key})
        if response is None:
            return None
        status = response.status_code
        if status == UNAVAILABLE:
            return None
        said = response.json() if status in (*DONE, REFUSED) else {}
        if status == REFUSED and said["error"]["code"] != "COMMAND_REJECTED":
            self._journal.note_fault("answers that were errors", execution_id or key, f"POST {path} {key}: {said}")
        told = Told(
            key=key,
            command=command,
            execution_id=execution_id or said.get("executionId", ""),
            status=status,
            body=said,
            again=response.headers.get("Idempotency-Replayed") == "true",
        )
        if status == NOTHING:
            self._journal.empty.append((key, asked_at))
        elif status in (*DONE, REFUSED):
            self._journal.told.append(told)
        else:
            self._judge(f"POST {path} {key}", response)
        return told

    async def _request(self, method: str, path: str, *, label: str = "", **more: Any) -> httpx.Response | None:
        gateway = self.rng.choice(list(self._urls))
        verb = label or f"{method} {'/'.join(part if len(part) < 20 else '{id}' for part in path.split('/'))}"
        try:
            async with asyncio.timeout(ANSWER_SEC):
                response = await self._http.request(method, self._urls[gateway] + path, **more)
        except TimeoutError:
            self._journal.note_fault("requests without an answer", gateway, f"{method} {path}: {ANSWER_SEC} s")
            return None
        except httpx.TransportError:
            self._journal.answers[f"{verb} cut or refused"] += 1
            return None
        self._journal.answers[f"{verb} {response.status_code}"] += 1
        return response

    def _judge(self, what: str, response: httpx.Response) -> None:
        if response.status_code == 404:
            self._journal.note_fault("accepted runs that were lost", what.split("/")[2], f"{what}: {response.text}")
        elif response.status_code != UNAVAILABLE:
            self._journal.note_fault("answers that were errors", what, f"{response.status_code} {response.text[:300]}")
